// SPDX-License-Identifier: GPL-2.0-only
/*
 * How late do timers come?  Waits COUNT times, for 20 us to 20 ms, and prints what each
 * wait took beyond that, in ns.
 *
 *     timers COUNT KIND [WHAT…]
 *
 * KIND: nanosleep, timerfd, posix, futex, poll.  WHAT: `busy`: another thread computes on
 * the same CPU; `spin`: the thread itself computes until the timer's signal comes (posix);
 * `long`: waits for 9 to 25 ms; `twice`: waits for each deadline once more when it is
 * over; `slow`: the clock runs 100 ppm slow; `lost`: the CPU's virtual ticks are taken away
 * first, as by a host that was not told of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static timer_t timer;
static int fd;
static int word;
static volatile long long fired;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct timespec at(long long ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

static void on_alarm(int signal)
{
	(void)signal;
	fired = now();
}

static void nanosleep_until(long long end)
{
	struct timespec t = at(end);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void timerfd_until(long long end)
{
	struct itimerspec t = { .it_value = at(end) };
	unsigned long long count;

	timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL);
	while (read(fd, &count, sizeof(count)) < 0)
		;
}

static void posix_until(long long end)
{
	struct itimerspec t = { .it_value = at(end) };
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	timer_settime(timer, TIMER_ABSTIME, &t, NULL);
	sigwaitinfo(&alarm, NULL);
}

static void futex_until(long long end)
{
	struct timespec t = at(end);

	syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &t, NULL, -1);
}

static void poll_until(long long end)
{
	struct timespec t = at(end - now());

	if (end > now())
		ppoll(NULL, 0, &t, NULL);
}

static void spin_until(long long end)
{
	struct itimerspec t = { .it_value = at(end) };

	fired = 0;
	timer_settime(timer, TIMER_ABSTIME, &t, NULL);
	while (!fired)
		;
}

static void *compute(void *arg)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
	return arg;
}

static const struct {
	const char *name;
	void (*until)(long long end);
} kinds[] = {
	{ "nanosleep", nanosleep_until }, { "timerfd", timerfd_until },
	{ "posix", posix_until },	  { "futex", futex_until },
	{ "poll", poll_until },
};

static void on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Clears MSR_KVM_PV_TICK. */
static int lose_ticks(void)
{
	unsigned long long off = 0;
	char path[64];
	int msr;

	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", sched_getcpu());
	msr = open(path, O_WRONLY);
	return msr >= 0 && pwrite(msr, &off, sizeof(off), 0x4b564d10) == sizeof(off);
}

static int find(const char *name)
{
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(name, kinds[i].name))
			return i;
	return -1;
}

static int said(char **what, const char *word)
{
	for (; *what; what++)
		if (!strcmp(*what, word))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct sched_param fifo = { .sched_priority = 1 };
	struct timex slow = { .modes = ADJ_FREQUENCY, .freq = -100 * 65536 };
	unsigned long long random = 88172645463325252ULL;
	int kind = argc > 2 ? find(argv[2]) : -1;
	void (*until)(long long end);
	char **what = argv + 3;
	pthread_t thread;
	sigset_t alarm;

	if (kind < 0)
		return 2;
	until = kinds[kind].until;
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	on_one_cpu();
	if (said(what, "spin")) {
		signal(SIGALRM, on_alarm);
		until = spin_until;
	} else {
		sigemptyset(&alarm);
		sigaddset(&alarm, SIGALRM);
		sigprocmask(SIG_BLOCK, &alarm, NULL);
	}
	if (said(what, "busy"))
		pthread_create(&thread, NULL, compute, NULL);
	if (said(what, "slow") && adjtimex(&slow) < 0)
		return 3;
	if (sched_setscheduler(0, SCHED_FIFO, &fifo))
		return 4;
	if (said(what, "lost") && !lose_ticks())
		return 5;

	for (int i = 0; i < atoi(argv[1]); i++) {
		long long end;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* As many short ones as long ones. */
		end = now() + (20000LL << (random >> 32) % 10) + random % 20000;
		if (said(what, "long"))
			end = now() + 9000000 + random % 16000000;
		until(end);
		printf("%lld\n", (fired ? fired : now()) - end);
		if (said(what, "twice"))
			until(end);
	}
	return 0;
}
