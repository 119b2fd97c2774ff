/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task of SCHED_DEADLINE that is woken between its deadline and its next
 * period is woken in vain: whoever does it sets a timer for that period.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLICY_DEADLINE 6

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void have_deadlines(int runtime_us, int deadline_us, int period_us)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {
		.size = sizeof(attr), .policy = POLICY_DEADLINE, .runtime = runtime_us * 1000,
		.deadline = deadline_us * 1000, .period = period_us * 1000,
	};

	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		die("sched_setattr");
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}
