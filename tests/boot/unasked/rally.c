// SPDX-License-Identifier: GPL-2.0-only
// Two threads on two CPUs answer each other through pipes, and each computes for a while first.
// Arguments: rounds, and for how many us to compute.  Prints what a round took on top of that in
// ns, half of it: how late each was woken up, on average, and at most in 99 % of the rounds.
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds, busy_ns;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void compute(void)
{
	long long end = now() + busy_ns;

	while (now() < end)
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "CPU %d", cpu);
}

static void *answer(void *unused)
{
	char byte;

	pin(1);
	while (read(there[0], &byte, 1) == 1) {
		compute();
		if (write(back[1], &byte, 1) != 1)
			err(1, "write");
	}
	return unused;
}

static int by_value(const void *one, const void *other)
{
	long long a = *(const long long *)one, b = *(const long long *)other;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	long long start, sum = 0, *late;
	pthread_t partner;
	char byte = 0;
	long n;

	if (argc != 3)
		errx(2, "rounds and us");
	rounds = atol(argv[1]);
	busy_ns = atol(argv[2]) * 1000;
	if (pipe(there) || pipe(back))
		err(1, "pipe");
	pin(0);
	if (pthread_create(&partner, NULL, answer, NULL))
		errx(1, "thread");
	late = calloc(rounds, sizeof(*late));
	if (!late)
		err(1, "calloc");
	for (n = -50; n < rounds; n++) {
		start = now();
		compute();
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			err(1, "round %ld", n);
		if (n < 0)
			continue;
		late[n] = (now() - start) / 2 - busy_ns;
		sum += late[n];
	}
	qsort(late, rounds, sizeof(*late), by_value);
	printf("%lld %lld\n", sum / rounds, late[rounds * 99 / 100]);
	return 0;
}
