// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes a CPU for a part of every tick, before everyone else's tasks.
 *
 *     preempt CPU FROM_US FOR_US COUNT
 *
 * In each 4 ms of CLOCK_MONOTONIC, from FROM_US on, for FOR_US; COUNT times.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define TICK_NS 4000000LL

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct sched_param fifo = { .sched_priority = 1 };
	long long from, length, next;
	cpu_set_t one;

	if (argc != 5)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(atoi(argv[1]), &one);
	from = atoi(argv[2]) * 1000LL;
	length = atoi(argv[3]) * 1000LL;
	if (sched_setaffinity(0, sizeof(one), &one) || sched_setscheduler(0, SCHED_FIFO, &fifo))
		return 3;

	next = now() / TICK_NS * TICK_NS + from;
	for (int i = 0; i < atoi(argv[4]); i++) {
		struct timespec t;

		while (next <= now())
			next += TICK_NS;
		t = (struct timespec){ next / 1000000000, next % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		while (now() < next + length)
			;
	}
	return 0;
}
