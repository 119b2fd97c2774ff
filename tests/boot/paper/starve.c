// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a guest of one CPU has of its ticks.
 *
 *   starve exits      Computes for a second, with an exit of its own in every half millisecond.
 *                     How many virtual ticks came.
 *   starve shares     Two processes compute for 2 s; whoever runs has a timer of 1 ms.  Of each,
 *                     its share of the time in %, and the longest time in ms that it waited.
 *   starve timeouts   A process computes for 2 s with such a timer; another one waits for 20 ms
 *                     again and again, by the timer wheel.  How often, and how late at most in ms.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS	2.0

/* Shared by all processes. */
static volatile struct seen {
	double begin;
	double ran[2];
	double waited[2];
	int times;
	double late;
} *seen;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double clock_s(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double now(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

static long virtual_ticks(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char line[512];
	long n = -1;

	if (!file)
		die("/proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "VTK:"))
			n = strtol(strchr(line, ':') + 1, NULL, 10);
	}
	fclose(file);
	return n;
}

static void exits(void)
{
	long before = virtual_ticks();
	double begin = now(), last = begin;

	while (last < begin + 1) {
		unsigned int eax, ebx, ecx, edx;

		while (now() < last + 0.5e-3)
			;
		last = now();
		__cpuid(0, eax, ebx, ecx, edx);
	}
	printf("%ld\n", virtual_ticks() - before);
}

static void alarmed(int signal)
{
}

static void computes(int who)
{
	struct itimerval every = { { .tv_usec = 1000 }, { .tv_usec = 1000 } };
	struct sigaction action = { .sa_handler = alarmed, .sa_flags = SA_RESTART };
	double last = seen->begin;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (last < seen->begin + SECONDS) {
		double at = now();

		if (at - last > seen->waited[who])
			seen->waited[who] = at - last;
		last = at;
	}
	seen->ran[who] = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	exit(0);
}

static void waits(void)
{
	struct timeval timeout = { .tv_usec = 20000 };
	int pair[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		die("socketpair");
	while (now() < seen->begin + SECONDS) {
		double due = now() + 0.02;

		if (recv(pair[0], &c, 1, 0) >= 0)
			die("recv");
		seen->times++;
		if (now() - due > seen->late)
			seen->late = now() - due;
	}
	exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int who;

	if (!strcmp(what, "exits")) {
		exits();
		return 0;
	}
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		die("mmap");
	seen->begin = now();
	for (who = 0; who < 2; who++) {
		if (fork())
			continue;
		if (!who && !strcmp(what, "timeouts"))
			waits();
		computes(who);
	}
	while (wait(NULL) > 0)
		;
	if (!strcmp(what, "timeouts"))
		printf("%d\n%.0f\n", seen->times, seen->late * 1e3);
	else
		for (who = 0; who < 2; who++)
			printf("%.0f\n%.0f\n", 100 * seen->ran[who] / SECONDS,
			       1e3 * seen->waited[who]);
	return 0;
}
