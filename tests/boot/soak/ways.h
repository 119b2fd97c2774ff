/* SPDX-License-Identifier: GPL-2.0-only */
/* Every way in which a thread can wait for a time, by the monotonic clock. */
#ifndef WAYS_H
#define WAYS_H

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL

/* What a thread needs for them. */
struct way {
	timer_t timer;
	int timerfd, epoll, word;
};

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static struct timespec at(long long ns)
{
	return (struct timespec){ ns / (1000 * MS), ns % (1000 * MS) };
}

static uint64_t draw(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random >> 16;
}

static void make_way(struct way *w)
{
	struct sigevent to = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };

	to._sigev_un._tid = syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &to, &w->timer);
	w->timerfd = timerfd_create(CLOCK_MONOTONIC, 0);
	w->epoll = epoll_create1(0);
}

static void by_nanosleep(struct way *w, long long until)
{
	struct timespec t = at(until);

	(void)w;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void by_timerfd(struct way *w, long long until)
{
	struct itimerspec t = { .it_value = at(until) };
	uint64_t count;

	timerfd_settime(w->timerfd, TFD_TIMER_ABSTIME, &t, NULL);
	while (read(w->timerfd, &count, sizeof(count)) < 0)
		;
}

static void by_signal(struct way *w, long long until)
{
	struct itimerspec t = { .it_value = at(until) };
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	timer_settime(w->timer, TIMER_ABSTIME, &t, NULL);
	sigwaitinfo(&alarm, NULL);
}

static void by_futex(struct way *w, long long until)
{
	struct timespec t = at(until);

	syscall(SYS_futex, &w->word, FUTEX_WAIT_BITSET, 0, &t, NULL, -1);
}

static void by_poll(struct way *w, long long until)
{
	struct timespec t = at(until - now());

	(void)w;
	if (t.tv_sec >= 0 && t.tv_nsec >= 0)
		ppoll(NULL, 0, &t, NULL);
}

static void by_epoll(struct way *w, long long until)
{
	struct timespec t = at(until - now());
	struct epoll_event event;

	if (t.tv_sec >= 0 && t.tv_nsec >= 0)
		syscall(SYS_epoll_pwait2, w->epoll, &event, 1, &t, NULL, 0);
}

/* Its first timer is never waited for: it is moved, and then taken away. */
static void by_another(struct way *w, long long until)
{
	struct itimerspec t = { .it_value = at(until - (until - now()) / 2) };

	timerfd_settime(w->timerfd, TFD_TIMER_ABSTIME, &t, NULL);
	t.it_value = at(until + 50 * MS);
	timerfd_settime(w->timerfd, TFD_TIMER_ABSTIME, &t, NULL);
	by_nanosleep(w, until);
	memset(&t, 0, sizeof(t));
	timerfd_settime(w->timerfd, 0, &t, NULL);
}

static const struct {
	const char *name;
	void (*until)(struct way *w, long long until);
} ways[] = {
	{ "nanosleep", by_nanosleep }, { "timerfd", by_timerfd }, { "signal", by_signal },
	{ "futex", by_futex },	       { "poll", by_poll },	  { "epoll", by_epoll },
	{ "another", by_another },
};
#define WAYS (sizeof(ways) / sizeof(*ways))

#endif
