// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long does it take until load is balanced?  One thread for each CPU computes. ROUNDS
 * times, all are let go from the first CPU; prints how long it takes until each has been on a
 * CPU of its own, in ns: spread ROUNDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST 64

static pthread_t threads[MOST];
static atomic_int on[MOST];
static atomic_int waits;
static sem_t apart;
static int cpus;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int all_apart(void)
{
	unsigned long long seen = 0;

	for (int i = 0; i < cpus; i++)
		seen |= 1ULL << on[i];
	return seen == (1ULL << cpus) - 1;
}

static void *compute(void *arg)
{
	for (;;) {
		*(atomic_int *)arg = sched_getcpu();
		if (waits && all_apart() && atomic_exchange(&waits, 0))
			sem_post(&apart);
	}
	return arg;
}

static void allow(int nr, int first_cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < first_cpus; cpu++)
		CPU_SET(cpu, &set);
	for (int i = 0; i < nr; i++)
		pthread_setaffinity_np(threads[i], sizeof(set), &set);
}

int main(int argc, char **argv)
{
	struct timespec pause = { 0, 50000000 };
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 2 || cpus >= MOST)
		return 2;
	sem_init(&apart, 0, 0);
	for (int i = 0; i < cpus; i++) {
		pthread_create(&threads[i], NULL, compute, &on[i]);
		allow(i + 1, 1);
	}
	for (nanosleep(&pause, NULL); rounds-- > 0; nanosleep(&pause, NULL)) {
		long long since = now();

		waits = 1;
		allow(cpus, cpus);
		sem_wait(&apart);
		printf("%lld\n", now() - since);
		allow(cpus, 1);
	}
	return 0;
}
