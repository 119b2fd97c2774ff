// SPDX-License-Identifier: GPL-2.0-only
/*
 * halter MAXIMUM MICROSECONDS…: a VM whose only vCPU halts, and is woken up
 * after so long, by turns, for ever. MAXIMUM is that of its halt polling in ns
 * (KVM_CAP_HALT_POLL), or "module": it follows KVM's parameter.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define CODE	0x100
#define RETURN	0x180
#define STACK	0x800
#define MEMORY	0x1000

static int vm, turns;
static char **turn;

static int call(int fd, unsigned long request, void *argument, const char *what)
{
	int result = ioctl(fd, request, argument);

	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

/* An NMI needs neither an interrupt controller's setup nor an EOI. */
static void *wake(void *unused)
{
	struct kvm_msi nmi = { .address_lo = 0xfee00000, .data = 4 << 8 };
	int nth;

	/* Else sleeps take 50 us longer. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (nth = 0;; nth = (nth + 1) % turns) {
		struct timespec pause = { .tv_nsec = 1000 * atol(turn[nth]) };

		nanosleep(&pause, NULL);
		call(vm, KVM_SIGNAL_MSI, &nmi, "KVM_SIGNAL_MSI");
	}
	return NULL;
}

static void memory(void)
{
	/* hlt; jmp to it. And what an NMI does: iret. */
	static const unsigned char code[] = { 0xf4, 0xeb, 0xfd }, back = 0xcf;
	char *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {
		.memory_size = MEMORY,
		.userspace_addr = (unsigned long)at,
	};

	memcpy(at + CODE, code, sizeof(code));
	at[RETURN] = back;
	*(unsigned short *)(at + 2 * 4) = RETURN;
	call(vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
}

int main(int argc, char **argv)
{
	struct kvm_enable_cap maximum = { .cap = KVM_CAP_HALT_POLL };
	struct kvm_regs regs = { .rip = CODE, .rsp = STACK, .rflags = 2 };
	struct kvm_lapic_state apic;
	struct kvm_sregs sregs;
	struct kvm_run *run;
	pthread_t waker;
	int kvm, vcpu;

	if (argc < 3)
		return 2;
	turn = argv + 2;
	turns = argc - 2;
	kvm = open("/dev/kvm", O_RDWR);
	vm = call(kvm, KVM_CREATE_VM, 0, "KVM_CREATE_VM");
	call(vm, KVM_CREATE_IRQCHIP, 0, "KVM_CREATE_IRQCHIP");
	if (strcmp(argv[1], "module")) {
		maximum.args[0] = atol(argv[1]);
		call(vm, KVM_ENABLE_CAP, &maximum, "KVM_CAP_HALT_POLL");
	}
	memory();
	vcpu = call(vm, KVM_CREATE_VCPU, 0, "KVM_CREATE_VCPU");
	run = mmap(NULL, call(kvm, KVM_GET_VCPU_MMAP_SIZE, 0, "KVM_GET_VCPU_MMAP_SIZE"),
		   PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	call(vcpu, KVM_GET_SREGS, &sregs, "KVM_GET_SREGS");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	call(vcpu, KVM_SET_SREGS, &sregs, "KVM_SET_SREGS");
	call(vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS");
	/* Only then interrupts find this vCPU. */
	call(vcpu, KVM_GET_LAPIC, &apic, "KVM_GET_LAPIC");
	call(vcpu, KVM_SET_LAPIC, &apic, "KVM_SET_LAPIC");
	pthread_create(&waker, NULL, wake, NULL);
	call(vcpu, KVM_RUN, 0, "KVM_RUN");
	fprintf(stderr, "halter: exit %u\n", run->exit_reason);
	return 1;
}
