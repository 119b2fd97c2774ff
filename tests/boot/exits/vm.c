// SPDX-License-Identifier: GPL-2.0-only
/*
 * vm VCPUS ROUNDS --id NAME [PAUSE]: a VM without an OS. Each of its vCPUs makes
 * so many CPUIDs, which KVM deals with, and as many writes, each to another port,
 * which are this program's, and take PAUSE us; then it halts, which ends it.
 * Prints NAME, the process and the exits of all its vCPUs as KVM has counted them,
 * and "?" where KVM does not say. With AS in the environment its process has that
 * number; with THEN its first vCPU's thread becomes a sleep of so many seconds;
 * with PORTS all writes go to ports of which that number has all bits.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY	0x1000

static const uint8_t code[] = {
	0x66, 0xbf, 0, 0, 0, 0,		/* mov $ROUNDS, %edi */
	0x66, 0x31, 0xc0,		/* again: xor %eax, %eax */
	0x0f, 0xa2,			/* cpuid */
	0x89, 0xfa,			/* mov %di, %dx */
	0x81, 0xe2, 0xff, 0xff,		/* and $PORTS, %dx */
	0xee,				/* out %al, %dx */
	0x66, 0x4f,			/* dec %edi */
	0x75, 0xf0,			/* jnz again */
	0xf4,				/* hlt */
};

static const char *name;
static int vm, size, pause_us;

static long long exits_of(int vcpu)
{
	int fd = ioctl(vcpu, KVM_GET_STATS_FD, NULL);
	struct kvm_stats_header head;
	char *text;
	uint32_t i;

	if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return -1;
	text = malloc(sizeof(struct kvm_stats_desc) + head.name_size);
	for (i = 0; text && i < head.num_desc; i++) {
		struct kvm_stats_desc *one = (void *)text;
		size_t length = sizeof(*one) + head.name_size;
		uint64_t count;

		if (pread(fd, text, length, head.desc_offset + i * length) != (ssize_t)length)
			return -1;
		if (strcmp(one->name, "exits"))
			continue;
		if (pread(fd, &count, sizeof(count), head.data_offset + one->offset) !=
		    sizeof(count))
			return -1;
		return count;
	}
	return -1;
}

static void tell(long long exits)
{
	if (exits < 0)
		printf("%s %d ?\n", name, getpid());
	else
		printf("%s %d %lld\n", name, getpid(), exits);
	fflush(stdout);
}

static void *run(void *number)
{
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, (long)number);
	struct kvm_run *state;
	struct kvm_sregs sregs;
	struct kvm_regs regs = { .rip = 0, .rflags = 2 };

	if (vcpu < 0)
		return (void *)-1;
	state = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (state == MAP_FAILED || ioctl(vcpu, KVM_GET_SREGS, &sregs))
		return (void *)-1;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) || ioctl(vcpu, KVM_SET_REGS, &regs))
		return (void *)-1;
	do {
		if (ioctl(vcpu, KVM_RUN, NULL))
			return (void *)-1;
		if (pause_us)
			usleep(pause_us);
	} while (state->exit_reason == KVM_EXIT_IO);
	if (state->exit_reason != KVM_EXIT_HLT)
		return (void *)-1;
	if (getenv("THEN") && !number) {
		tell(exits_of(vcpu));
		execlp("sleep", "sleep", getenv("THEN"), NULL);
	}
	return (void *)exits_of(vcpu);
}

/* The child goes on; its parent waits for it. */
static void become(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1,
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	if (!child)
		return;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		exit(4);
	exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	int kvm, vcpus, rounds, i;
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };
	pthread_t threads[64];
	long long all = 0;
	uint8_t *memory;

	if (getenv("AS"))
		become(atoi(getenv("AS")));
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (argc < 5 || kvm < 0)
		return 1;
	name = argv[4];
	vcpus = atoi(argv[1]);
	rounds = atoi(argv[2]);
	pause_us = argc > 5 ? atoi(argv[5]) : 0;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm < 0 || vcpus < 1 || vcpus > 64 || memory == MAP_FAILED)
		return 2;
	memcpy(memory, code, sizeof(code));
	memcpy(memory + 2, &rounds, sizeof(rounds));
	if (getenv("PORTS")) {
		uint16_t ports = atoi(getenv("PORTS"));

		memcpy(memory + 15, &ports, sizeof(ports));
	}
	region.userspace_addr = (uintptr_t)memory;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		return 3;
	for (i = 0; i < vcpus; i++)
		pthread_create(&threads[i], NULL, run, (void *)(long)i);
	for (i = 0; i < vcpus; i++) {
		void *exits;

		pthread_join(threads[i], &exits);
		all = (long)exits < 0 || all < 0 ? -1 : all + (long)exits;
	}
	tell(all);
	return 0;
}
