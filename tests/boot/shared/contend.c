// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two CPUs want the same lock of the kernel's all the time.
 *
 *     contend MS
 *
 * Prints the time in ns, what /proc/stat has charged for CPU 1 meanwhile, in
 * ticks of USER_HZ, and for how many ns CPU 1 was kept from the lock at once
 * by more than a tick.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONG_NS 8000000LL

static int word;
static volatile int done;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		exit(3);
}

/* Takes the lock of the futex's bucket, sees that it is not 1, and returns. */
static void take_lock(void)
{
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void *take_always(void *unused)
{
	run_on(0);
	while (!done)
		take_lock();
	return unused;
}

static long charged(void)
{
	long at[8], all = 0;
	char line[512];
	FILE *stat = fopen("/proc/stat", "r");

	while (fgets(line, sizeof(line), stat)) {
		if (sscanf(line, "cpu1 %ld %ld %ld %ld %ld %ld %ld %ld", &at[0], &at[1], &at[2],
			   &at[3], &at[4], &at[5], &at[6], &at[7]) != 8)
			continue;
		for (int i = 0; i < 8; i++)
			all += at[i];
	}
	fclose(stat);
	return all;
}

int main(int argc, char **argv)
{
	long long begin, end, last, next, kept = 0;
	pthread_t other;
	long before;

	if (argc != 2)
		return 2;
	run_on(1);
	if (pthread_create(&other, NULL, take_always, NULL))
		return 3;
	begin = last = now();
	before = charged();
	end = begin + atoi(argv[1]) * 1000000LL;
	while (last < end) {
		take_lock();
		next = now();
		if (next - last > LONG_NS)
			kept += next - last;
		last = next;
	}
	printf("%lld %ld %lld\n", last - begin, charged() - before, kept);
	done = 1;
	pthread_join(other, NULL);
	return 0;
}
