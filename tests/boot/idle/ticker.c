// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wakes up as often as it is told, by the clock: ticker NS [SLACK_NS]. From then on, where a
 * child of its own does so on another CPU, each wake-up is passed on: ticker NS SLACK_NS pass
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

int main(int argc, char **argv)
{
	long long ns = argc > 1 ? atoll(argv[1]) : 0;
	int to_child[2];
	char byte = 0;

	if (ns <= 0 || pipe(to_child))
		return 2;
	if (argc > 2)
		prctl(PR_SET_TIMERSLACK, atol(argv[2]));
	if (argc > 3 && !fork()) {
		run_on(1);
		close(to_child[1]);
		while (read(to_child[0], &byte, 1) == 1)
			;
		return 0;
	}
	run_on(0);
	for (;;) {
		struct timespec t = { ns / 1000000000, ns % 1000000000 };

		nanosleep(&t, NULL);
		if (argc > 3 && write(to_child[1], &byte, 1) != 1)
			return 1;
	}
}
