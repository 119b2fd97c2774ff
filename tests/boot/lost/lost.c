// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes the virtual ticks of a guest's CPU away, as a hypervisor that does not know them would,
 * and tells how long it takes until that is noticed.
 *
 *   lost polls      CPU 0 idles by polling: no latency is allowed.  For each of some waits of
 *                   100 ms, how many ms it took; the ticks go away in the middle.
 *   lost computes   CPU 1 is idle with a deadline 30 s away, is woken, loses its ticks and
 *                   computes.  After how many ms it has had a timer interrupt, or a tick.
 *   lost suspend    Suspends as far as "core" and resumes; then the CPUs with virtual ticks, those
 *                   that defer deadlines, and how many ticks each of two had in half a second.
 *
 * One static program that reads no file but the kernel's: a root by 9p is gone after a suspend.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MSR_KVM_PV_TICK	0x4b564d10
#define STATE		"/sys/devices/system/cpu/virtual_tick/"

static int wake[2];
static volatile int lost, stop;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void lose_ticks(int cpu)
{
	unsigned long long off = 0;
	char path[64];
	int msr;

	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", cpu);
	msr = open(path, O_RDWR);
	if (msr < 0 || pwrite(msr, &off, sizeof(off), MSR_KVM_PV_TICK) != sizeof(off))
		die(path);
	close(msr);
}

/* Interrupts of this CPU's timer, and virtual ticks. */
static long interrupts(int cpu, const char *name)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char line[512];
	long n = -1;

	if (!file)
		die("/proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, name);

		if (!at)
			continue;
		for (at = strchr(at, ':') + 1; cpu >= 0; cpu--)
			n = strtol(at, &at, 10);
	}
	fclose(file);
	return n;
}

static void alarmed(int signal)
{
}

static void polls(void)
{
	struct itimerval patience = { .it_value.tv_sec = 4 };
	struct timeval timeout = { .tv_usec = 100000 };
	struct sigaction action = { .sa_handler = alarmed };
	int zero = 0, latency, pair[2], i;
	char c;

	pin(0);
	sigaction(SIGALRM, &action, NULL);
	latency = open("/dev/cpu_dma_latency", O_RDWR);
	if (latency < 0 || write(latency, &zero, sizeof(zero)) != sizeof(zero))
		die("/dev/cpu_dma_latency");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		die("socketpair");

	for (i = 0; i < 7; i++) {
		double begin;

		if (i == 3)
			lose_ticks(0);
		begin = now();
		setitimer(ITIMER_REAL, &patience, NULL);
		if (recv(pair[0], &c, 1, 0) >= 0)
			die("recv");
		printf("%.0f\n", (now() - begin) * 1e3);
		/* Enough is seen. */
		if (now() - begin > 2)
			break;
	}
}

static void *sleeper(void *unused)
{
	struct timespec far = { .tv_sec = 30 };

	pin(1);
	nanosleep(&far, NULL);
	return NULL;
}

static void *worker(void *unused)
{
	char c;

	pin(1);
	if (read(wake[0], &c, 1) != 1)
		die("read");
	lose_ticks(1);
	lost = 1;
	while (!stop)
		__asm__ volatile("" ::: "memory");
	return NULL;
}

static void computes(void)
{
	pthread_t thread;
	double begin;
	long before = 0;

	pin(0);
	if (pipe(wake) || pthread_create(&thread, NULL, sleeper, NULL) ||
	    pthread_create(&thread, NULL, worker, NULL))
		die("threads");
	sleep(3);
	if (write(wake[1], "", 1) != 1)
		die("write");
	while (!lost)
		usleep(1000);
	begin = now();
	/* What came on the way here is no sign: begin a little later. */
	usleep(20000);
	before = interrupts(1, "LOC:") + interrupts(1, "VTK:");
	while (now() < begin + 20 && interrupts(1, "LOC:") + interrupts(1, "VTK:") == before)
		usleep(20000);
	stop = 1;
	printf("%.0f\n", (now() - begin) * 1e3);
}

static void put(const char *path, const char *what)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, what, strlen(what)) < 0)
		die(path);
	close(file);
}

static void show(const char *path)
{
	char text[64] = "";
	int file = open(path, O_RDONLY);

	if (file < 0 || read(file, text, sizeof(text) - 1) < 0)
		die(path);
	close(file);
	text[strcspn(text, "\n")] = 0;
	printf("%s\n", text);
}

static void suspend(void)
{
	int cpu;

	mlockall(MCL_CURRENT | MCL_FUTURE);
	put("/sys/module/suspend/parameters/pm_test_delay", "1");
	put("/sys/power/pm_test", "core");
	put("/sys/power/state", "mem");
	show(STATE "active");
	show(STATE "halt_until_active");
	for (cpu = 0; cpu < 2; cpu++) {
		double end;
		long before;

		pin(cpu);
		for (end = now() + 0.05; now() < end;)
			;
		before = interrupts(cpu, "VTK:");
		for (end = now() + 0.5; now() < end;)
			;
		printf("%ld\n", interrupts(cpu, "VTK:") - before);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "polls"))
		polls();
	else if (!strcmp(what, "computes"))
		computes();
	else if (!strcmp(what, "suspend"))
		suspend();
	else
		return fprintf(stderr, "lost: polls, computes or suspend\n"), 2;
	return 0;
}
