// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpuid CPU: a VM without an OS, on one CPU, of which each exit is a CPUID's.
 * Prints what one takes with all that the host does for it, in ticks of the TSC:
 * the least of five rounds, as others may run meanwhile.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <x86intrin.h>

#define MEMORY	0x1000
#define EXITS	3000

static const uint8_t code[] = {
	0x66, 0xbf, EXITS & 0xff, EXITS >> 8, 0, 0,	/* mov $EXITS, %edi */
	0x0f, 0xa2,					/* again: cpuid */
	0x66, 0x4f,					/* dec %edi */
	0x75, 0xfa,					/* jnz again */
	0xf4,						/* hlt */
};

int main(int argc, char **argv)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = ioctl(kvm, KVM_CREATE_VM, 0);
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };
	struct kvm_regs regs = { .rflags = 2 };
	uint64_t least = UINT64_MAX;
	struct kvm_sregs sregs;
	uint8_t *memory;
	cpu_set_t cpus;
	int vcpu, i;

	CPU_ZERO(&cpus);
	CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &cpus);
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm < 0 || memory == MAP_FAILED || sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	memcpy(memory, code, sizeof(code));
	region.userspace_addr = (uintptr_t)memory;
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) || ioctl(vcpu, KVM_GET_SREGS, &sregs))
		return 2;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	for (i = 0; i < 5; i++) {
		uint64_t begin, took;

		if (ioctl(vcpu, KVM_SET_SREGS, &sregs) || ioctl(vcpu, KVM_SET_REGS, &regs))
			return 3;
		begin = __rdtsc();
		if (ioctl(vcpu, KVM_RUN, NULL))
			return 4;
		took = __rdtsc() - begin;
		least = took < least ? took : least;
	}
	printf("%.1f\n", (double)least / EXITS);
	return 0;
}
