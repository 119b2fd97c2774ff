// SPDX-License-Identifier: GPL-2.0-only
/*
 * Are timers late, or lost, whatever happens beside them?  For SECONDS, threads of real-time
 * priority wait for 20 us to 20 ms, again and again, in every way that programs have.
 *
 *     soak SECONDS SEED [WHAT…]
 *
 * WHAT: `load`: others compute, and hand bytes to each other; `switch`: virtual ticks and halts
 * with a deadline are switched off and on; `hotplug`: CPUs come and go; `latency`: idle CPUs are
 * made to poll for a while.
 *
 * Says how late timers came, in ns, and the worst of them with what had last been done before:
 *
 *     all COUNT half 99% 99.9% 99.99% most
 *     worst NS KIND waited NS at MS, AGO us after DEED
 *     lost KIND
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ways.h"

#define CPUS "/sys/devices/system/cpu/"
#define WAITERS 12
#define WORST 8
/* Of a power of two. */
#define PARTS 32
#define CLASSES (40 * PARTS)

struct waiter {
	struct way way;
	pthread_t thread;
	uint64_t random;
	const char *doing;
	unsigned long late[CLASSES];
};

/* What has last been done to the CPUs, and when. */
static const char *volatile deed = "start";
static volatile long long deed_at;
static long long begin, end;
static int cpus;
static struct waiter waiters[WAITERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	long long late, wait, at, ago;
	const char *kind, *deed;
} worst[WORST];

static void pause_ns(long long ns)
{
	struct timespec t = at(ns);

	nanosleep(&t, NULL);
}

/* CPUs that are offline are no error: the thread stays where it was. */
static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < cpus; i++)
		if (cpu < 0 || i == cpu)
			CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void be_real_time(int priority)
{
	struct sched_param how = { .sched_priority = priority };

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &how)) {
		fprintf(stderr, "no real-time priority\n");
		exit(1);
	}
}

static unsigned class_of(long long late)
{
	uint64_t ns = late < PARTS ? PARTS : late;
	unsigned octave = 63 - __builtin_clzll(ns);
	unsigned class = (octave - 5) * PARTS + (ns >> (octave - 5)) % PARTS;

	return class < CLASSES ? class : CLASSES - 1;
}

static long long class_end(unsigned class)
{
	return (long long)(PARTS + class % PARTS + 1) << class / PARTS;
}

static void note(struct waiter *w, long long late, long long wait)
{
	long long done = deed_at;
	int least = 0;

	w->late[class_of(late)]++;
	for (int i = 1; i < WORST; i++)
		if (worst[i].late < worst[least].late)
			least = i;
	if (late <= worst[least].late)
		return;
	pthread_mutex_lock(&lock);
	worst[least].late = late;
	worst[least].wait = wait;
	worst[least].at = now() - begin;
	worst[least].ago = now() - done;
	worst[least].kind = w->doing;
	worst[least].deed = deed;
	pthread_mutex_unlock(&lock);
}

static void *wait_on(void *arg)
{
	struct waiter *w = arg;

	make_way(&w->way);
	be_real_time(50);
	while (now() < end) {
		uint64_t random = draw(&w->random);
		long long wait = (20000LL << random % 10) + random / 16 % 20000;
		int kind = random / 1024 % WAYS;
		long long until;

		if (random / 65536 % 32 == 0)
			run_on((int)(random / (1 << 21) % (cpus + 1)) - 1);
		until = now() + wait;
		w->doing = ways[kind].name;
		ways[kind].until(&w->way, until);
		note(w, now() - until, wait);
	}
	w->doing = NULL;
	return NULL;
}

/* Computes for up to 30 ms, and sleeps for as long. */
static void *compute(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	while (now() < end) {
		long long until = now() + draw(&random) % (30 * MS);

		while (now() < until)
			;
		run_on((int)(draw(&random) % (cpus + 1)) - 1);
		pause_ns(draw(&random) % (30 * MS));
	}
	return NULL;
}

static int to_and_fro[2][2];

/* Hands a byte on when it comes, and makes one if none comes for a while. */
static void *hand_on(void *arg)
{
	int side = (int)(uintptr_t)arg;
	struct pollfd in = { .fd = to_and_fro[side][0], .events = POLLIN };
	char byte = 0;

	while (now() < end) {
		if (poll(&in, 1, 5) > 0 && read(in.fd, &byte, 1) != 1)
			break;
		if (byte++ % 100 == 0)
			pause_ns(3 * MS);
		if (write(to_and_fro[!side][1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	deed = strrchr(path, '/') + 1;
	deed_at = now();
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	deed_at = now();
	close(fd);
}

static void *switch_ticks(void *arg)
{
	static const char *const names[] = { CPUS "virtual_tick/control",
					     CPUS "virtual_tick/halt_until" };
	uint64_t random = (uintptr_t)arg;

	while (now() < end) {
		uint64_t what = draw(&random);

		put(names[what % 2], what / 2 % 2 ? "on" : "off");
		pause_ns(draw(&random) % (60 * MS));
	}
	put(names[0], "on");
	put(names[1], "on");
	return NULL;
}

static void *plug(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	/* The report names it when this thread has ended. */
	static char path[64];

	while (now() < end) {
		snprintf(path, sizeof(path), CPUS "cpu%d/online",
			 1 + (int)(draw(&random) % (cpus - 1)));
		pause_ns(draw(&random) % (400 * MS));
		put(path, "0");
		pause_ns(draw(&random) % (100 * MS));
		put(path, "1");
	}
	return NULL;
}

static void *want_latency(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	int none = 0;

	while (now() < end) {
		int fd = open("/dev/cpu_dma_latency", O_WRONLY);

		if (fd < 0 || write(fd, &none, sizeof(none)) < 0)
			fprintf(stderr, "cpu_dma_latency: %s\n", strerror(errno));
		pause_ns(draw(&random) % (100 * MS));
		close(fd);
		pause_ns(draw(&random) % (100 * MS));
	}
	return NULL;
}

static void start(void *(*what)(void *), uintptr_t arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, what, (void *)arg))
		exit(1);
	pthread_detach(thread);
}

static long long percentile(const unsigned long *late, unsigned long count, double share)
{
	unsigned long seen = 0;
	unsigned class;

	for (class = 0; class < CLASSES - 1; class++) {
		seen += late[class];
		if (seen >= count * share)
			break;
	}
	return class_end(class);
}

static void report(void)
{
	static unsigned long late[CLASSES];
	unsigned long count = 0;
	long long most = 0;

	for (int i = 0; i < WAITERS; i++)
		for (int class = 0; class < CLASSES; class++) {
			late[class] += waiters[i].late[class];
			count += waiters[i].late[class];
		}
	for (int i = 0; i < WORST; i++) {
		if (worst[i].late > most)
			most = worst[i].late;
		if (worst[i].kind)
			printf("worst %lld %s waited %lld at %lld, %lld us after %s\n",
			       worst[i].late, worst[i].kind, worst[i].wait, worst[i].at / MS,
			       worst[i].ago / 1000, worst[i].deed);
	}
	printf("all %lu %lld %lld %lld %lld %lld\n", count, percentile(late, count, 0.5),
	       percentile(late, count, 0.99), percentile(late, count, 0.999),
	       percentile(late, count, 0.9999), most);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) * 2654435761 + 88172645463325252 : 0;
	struct timespec patience;
	sigset_t alarm;
	int lost = 0;

	if (argc < 3)
		return 2;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarm, NULL);
	cpus = sysconf(_SC_NPROCESSORS_CONF);
	be_real_time(60);
	begin = now();
	deed_at = begin;
	end = begin + atoll(argv[1]) * 1000 * MS;
	for (int i = 0; i < WAITERS; i++) {
		waiters[i].random = seed + i * 7919;
		pthread_create(&waiters[i].thread, NULL, wait_on, &waiters[i]);
	}
	/* Below the waiters, but for what is of no use if it never runs. */
	pthread_setschedparam(pthread_self(), SCHED_OTHER, &(struct sched_param){ 0 });
	for (char **what = argv + 3; *what; what++) {
		if (!strcmp(*what, "load")) {
			for (int i = 0; i < cpus; i++)
				start(compute, seed + 31 + i);
			if (pipe(to_and_fro[0]) || pipe(to_and_fro[1]))
				return 1;
			start(hand_on, 0);
			start(hand_on, 1);
		} else if (!strcmp(*what, "switch")) {
			start(switch_ticks, seed + 61);
		} else if (!strcmp(*what, "hotplug")) {
			start(plug, seed + 67);
		} else if (!strcmp(*what, "latency")) {
			start(want_latency, seed + 71);
		} else {
			return 2;
		}
	}
	be_real_time(60);
	by_nanosleep(NULL, end);
	clock_gettime(CLOCK_REALTIME, &patience);
	patience.tv_sec += 2;
	for (int i = 0; i < WAITERS; i++)
		if (pthread_timedjoin_np(waiters[i].thread, NULL, &patience)) {
			printf("lost %s\n", waiters[i].doing);
			lost++;
		}
	report();
	fflush(stdout);
	_exit(lost ? 3 : 0);
}
