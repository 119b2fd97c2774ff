// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only program of a guest that is reset, saved and migrated.
 *
 * CPU 0 is always busy.  On CPU 1 somebody sleeps for 1 ms again and again.
 * Ten times per second of the guest's time a line says how they fared:
 *
 *   beat NUMBER ms TIME ticks CPU0 CPU1 timer CPU0 CPU1 slept TIMES late_us WORST
 *
 * "ticks" are virtual ticks, "timer" local timer interrupts, both since boot.
 * The others are since the last line; "late" is how much too late the worst
 * sleep ended, on either CPU.
 *
 * Once it says what it has of its host:
 *
 *   has FEATURES ticks CPUS until CPUS window STATE record STATE
 *
 * FEATURES are bits 20 to 23 of CPUID 0x40000001, "-" stands for none.  With
 * the argument "record", osnoise asks for exit records and uses little else.
 *
 * A letter from the console goes to /proc/sysrq-trigger.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define BEAT_NS 100000000LL
#define NAP_NS 1000000LL
#define MSR_KVM_EXIT_RECORD 0x4b564d11
#define TICKS "/sys/devices/system/cpu/virtual_tick/"
#define TRACING "/sys/kernel/tracing/"

/* Of the process that sleeps on CPU 1. */
struct sleeper {
	volatile long slept;
	volatile long long worst_late_ns;
};

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Returns by how much it was longer. */
static long long sleep_for(long long ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };
	long long begin = now();

	nanosleep(&ts, NULL);
	return now() - begin - ns;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

static void be_busy(void)
{
	run_on(0);
	for (;;)
		;
}

static void take_naps(struct sleeper *sleeper)
{
	long long late;

	run_on(1);
	for (;;) {
		late = sleep_for(NAP_NS);
		if (late > sleeper->worst_late_ns)
			sleeper->worst_late_ns = late;
		sleeper->slept++;
	}
}

static void obey(void)
{
	struct termios how;
	char letter;
	int fd;

	run_on(1);
	tcgetattr(0, &how);
	how.c_lflag &= ~(ICANON | ECHO);
	tcsetattr(0, TCSANOW, &how);
	while (read(0, &letter, 1) == 1) {
		fd = open("/proc/sysrq-trigger", O_WRONLY);
		if (write(fd, &letter, 1) != 1)
			perror("/proc/sysrq-trigger");
		close(fd);
	}
}

/* A line of /proc/interrupts; 0 if there is none. */
static void interrupts(const char *text, const char *name, long counts[2])
{
	const char *line = strstr(text, name);

	counts[0] = counts[1] = 0;
	if (line)
		sscanf(line + strlen(name), "%ld %ld", &counts[0], &counts[1]);
}

static void beat(long number, struct sleeper *sleeper, long long late)
{
	static char text[8192];
	long ticks[2], timer[2];
	int fd, length;

	fd = open("/proc/interrupts", O_RDONLY);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = 0;
	interrupts(text, "VTK:", ticks);
	interrupts(text, "LOC:", timer);
	if (sleeper->worst_late_ns > late)
		late = sleeper->worst_late_ns;
	printf("beat %ld ms %lld ticks %ld %ld timer %ld %ld slept %ld late_us %lld\n",
	       number, now() / 1000000, ticks[0], ticks[1], timer[0], timer[1],
	       sleeper->slept, late / 1000);
	fflush(stdout);
	sleeper->slept = 0;
	sleeper->worst_late_ns = 0;
}

static void put(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		perror(file);
	close(fd);
}

static void say(const char *name, const char *file)
{
	char line[64] = "";
	int fd = open(file, O_RDONLY);

	if (fd >= 0 && read(fd, line, sizeof(line) - 1) < 0)
		perror(file);
	close(fd);
	line[strcspn(line, "\n")] = 0;
	printf(" %s %s", name, line[0] ? line : "-");
}

/* Whether the exit record of any CPU is enabled. */
static void say_record(void)
{
	int cpu, fd, any = 0;
	uint64_t value;

	for (cpu = 0; cpu < 2; cpu++) {
		mknod("/dev/msr", S_IFCHR | 0600, makedev(202, cpu));
		fd = open("/dev/msr", O_RDONLY);
		if (pread(fd, &value, 8, MSR_KVM_EXIT_RECORD) == 8)
			any |= value & 1;
		close(fd);
		unlink("/dev/msr");
	}
	printf(" record %s", any ? "on" : "-");
}

static void say_features(void)
{
	unsigned int eax, ebx, ecx, edx;

	__cpuid(0x40000001, eax, ebx, ecx, edx);
	printf("has %x", (eax >> 20) & 15);
	say("ticks", TICKS "active");
	say("until", TICKS "halt_until_active");
	say("window", TICKS "halt_window");
	say_record();
	printf("\n");
}

static void trace_a_little(void)
{
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	put(TRACING "osnoise/runtime_us", "100");
	/* A CPU may begin a period late. */
	put(TRACING "osnoise/period_us", "100000");
	put(TRACING "current_tracer", "osnoise");
}

int main(int argc, char **argv)
{
	struct sleeper *sleeper;
	long number;

	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mkdir("/sys", 0755);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	if (argc > 1 && !strcmp(argv[1], "record"))
		trace_a_little();
	sleeper = mmap(NULL, sizeof(*sleeper), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sleeper == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	if (!fork())
		be_busy();
	if (!fork())
		take_naps(sleeper);
	if (!fork())
		obey();
	run_on(0);
	for (number = 1;; number++) {
		beat(number, sleeper, sleep_for(BEAT_NS));
		if (number == 3)
			say_features();
	}
}
