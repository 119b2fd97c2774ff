// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers that are set by interrupts of a device.
 *
 *     late polls|kernel MS
 *
 * A task with deadlines asks the file server again and again.  Many answers
 * come behind a deadline.  Their interrupt comes
 *
 *     polls:  to CPU 1, which polls until a sleep of 900 us ends,
 *     kernel: while a task copies 4 MiB in the kernel, and is to be switched
 *             from because of it.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/vfs.h>

#include "deadline.h"

#define VALUE (4 << 20)

static void run_on(int first, int last)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (int cpu = first; cpu <= last; cpu++)
		CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

static void *spin(void *unused)
{
	run_on(0, 0);
	for (;;)
		;
	return unused;
}

static void *sleep_often(void *unused)
{
	struct timespec time = { 0, 900000 };

	run_on(1, 1);
	for (;;)
		nanosleep(&time, NULL);
	return unused;
}

static void *copy(void *unused)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = VALUE,
		.max_entries = 1,
	};
	int fd = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	uint32_t key = 0;
	char *value = malloc(VALUE);
	union bpf_attr element = {
		.map_fd = fd, .key = (uintptr_t)&key, .value = (uintptr_t)value,
	};

	if (fd < 0 || !value)
		die("BPF_MAP_CREATE");
	memset(value, 1, VALUE);
	for (;;) {
		if (syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &element, sizeof(element)))
			die("BPF_MAP_LOOKUP_ELEM");
	}
	return unused;
}

static void begin(void *(*task)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, task, NULL))
		die("pthread_create");
}

int main(int argc, char **argv)
{
	struct statfs stat;
	long long end;

	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "polls")) {
		begin(spin);
		begin(sleep_often);
		usleep(50000);
		/* It stays there, but a task of this policy must not be pinned. */
		run_on(0, 0);
		run_on(0, 1);
		have_deadlines(300, 600, 1000);
	} else {
		begin(copy);
		usleep(50000);
		have_deadlines(1900, 2000, 7000);
	}
	end = now() + atoi(argv[2]) * 1000000LL;
	while (now() < end) {
		if (statfs("/", &stat))
			die("statfs");
	}
	return 0;
}
