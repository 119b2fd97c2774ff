/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the facts of an exit are noted: by the BPF programs as it happens, and by
 * user space that reads a trace of it (native.c). Who includes this says how
 * the arguments of kvm_exit are read, in exit_info1(ctx) and its like, and in
 * tick_is_no_hrtimer whether the host's tick never expires as one.
 */
#ifndef PARATICK_NOTE_H
#define PARATICK_NOTE_H

#include "exits.h"

#define SVM_INTR		0x060
#define SVM_HLT			0x078
#define SVM_IDLE_HLT		0x0a6
#define SVM_IOIO		0x07b
#define SVM_MSR			0x07c
#define SVM_VMMCALL		0x081
#define SVM_NPF			0x400
#define SVM_AVIC_ACCESS		0x402
#define SVM_GUEST_MMIO_READ	0x80000001
#define SVM_GUEST_MMIO_WRITE	0x80000002
#define VMX_INTR		1
#define VMX_HLT			12
#define VMX_VMCALL		18
#define VMX_IO			30
#define VMX_MSR_READ		31
#define VMX_MSR_WRITE		32
#define VMX_APIC_ACCESS		44
#define VMX_EPT_VIOLATION	48
#define VMX_EPT_MISCONFIG	49
#define VMX_APIC_WRITE		56
#define VMX_MSR_READ_IMM	84
#define VMX_MSR_WRITE_IMM	85

#define PFERR_WRITE		(1 << 1)
#define PFERR_RSVD		(1 << 3)
#define SVM_IOIO_IN		(1 << 0)
#define VMX_IO_IN		(1 << 3)
#define INTR_INFO_VALID		(1u << 31)

#define PAGE_OF(address)	((address) >> 12)
#define APIC_PAGE		0xfee00
#define HPET_PAGE		0xfed00

#define PIT_COMMAND		0x43
#define CMOS_INDEX		0x70
#define CMOS_DATA		0x71
#define PORT_VALUE(value)	((__u64)(value) << 16)

/* As trace/events/kvm.h numbers them. */
#define MMIO_WRITE		2
#define PIO_OUT			1

#define HYPERCALLS	(FACT_HYPERCALL | FACT_HV_CALL | FACT_XEN_CALL)

/* Above the reason VMX has flags: of a failed entry, of an enclave. */
static __always_inline __u32 bare_reason(const struct thread *thread)
{
	return thread->isa == ISA_VMX ? thread->reason & 0xffff : thread->reason;
}

/*
 * Registers of a timer each have an address of their own. Of other devices the
 * page will do: a screen has millions of addresses.
 */
static __always_inline void describe_mmio(struct thread *thread, __u64 address,
					  int write)
{
	thread->facts |= FACT_MMIO;
	if (write)
		thread->facts |= FACT_WRITE;
	if (PAGE_OF(address) == APIC_PAGE) {
		thread->facts |= FACT_APIC_REG;
		thread->detail = address & 0xfff;
	} else if (PAGE_OF(address) == HPET_PAGE) {
		thread->detail = address;
	} else {
		thread->detail = address & ~0xfffull;
	}
}

static __always_inline void describe_port(struct thread *thread, __u32 port,
					  int write)
{
	thread->facts |= FACT_PORT;
	if (write)
		thread->facts |= FACT_WRITE;
	thread->detail = port;
	if (port == CMOS_DATA)
		thread->detail |= PORT_VALUE(thread->cmos);
}

static __always_inline void describe_svm(struct thread *thread, __u64 info1,
					 __u64 info2)
{
	if (thread->reason == SVM_INTR) {
		thread->wait = 1;
	} else if (thread->reason == SVM_MSR) {
		if (info1)
			thread->facts |= FACT_WRITE;
	} else if (thread->reason == SVM_IOIO) {
		describe_port(thread, (__u32)info1 >> 16, !(info1 & SVM_IOIO_IN));
	} else if (thread->reason == SVM_NPF) {
		if (PAGE_OF(info2) == APIC_PAGE || (info1 & PFERR_RSVD))
			describe_mmio(thread, info2, !!(info1 & PFERR_WRITE));
	} else if (thread->reason == SVM_AVIC_ACCESS) {
		/* A trap comes after a write; the bit is of writes alone. */
		thread->facts |= FACT_APIC_REG;
		if (info1 >> 32 & 1)
			thread->facts |= FACT_WRITE;
		thread->detail = info1 & 0xff0;
	}
}

static __always_inline void describe_vmx(struct thread *thread, __u64 info1,
					 __u32 vector)
{
	__u32 reason = bare_reason(thread);

	if (reason == VMX_INTR) {
		thread->wait = 1;
		/*
		 * Posted-interrupt vectors (0xf0..0xf2) have no tracepoint of
		 * their own; VMX names the vector with the exit.
		 */
		if ((vector & INTR_INFO_VALID) && (vector & 0xff) >= 0xf0 &&
		    (vector & 0xff) <= 0xf2) {
			thread->facts = FACT_IPI;
			thread->wait = 0;
		}
	} else if (reason == VMX_MSR_WRITE || reason == VMX_MSR_WRITE_IMM) {
		thread->facts = FACT_WRITE;
	} else if (reason == VMX_IO) {
		describe_port(thread, (__u32)info1 >> 16, !(info1 & VMX_IO_IN));
	} else if (reason == VMX_EPT_MISCONFIG) {
		/* Its address comes with kvm_mmio. */
		thread->facts = FACT_MMIO;
	} else if (reason == VMX_APIC_ACCESS) {
		thread->facts = FACT_APIC_REG;
		/* Bits 15:12 say what it was; 1 is a write. */
		if ((info1 >> 12 & 0xf) == 1)
			thread->facts |= FACT_WRITE;
		thread->detail = info1 & 0xfff;
	} else if (reason == VMX_APIC_WRITE) {
		thread->facts = FACT_APIC_REG | FACT_WRITE;
		thread->detail = info1 & 0xfff;
	}
}

static __always_inline int is_msr_exit(const struct thread *thread)
{
	__u32 reason = bare_reason(thread);

	if (thread->isa == ISA_SVM)
		return reason == SVM_MSR;
	return thread->isa == ISA_VMX &&
	       (reason == VMX_MSR_READ || reason == VMX_MSR_WRITE ||
		reason == VMX_MSR_READ_IMM || reason == VMX_MSR_WRITE_IMM);
}

static __always_inline int is_hypercall(const struct thread *thread)
{
	__u32 reason = bare_reason(thread);

	if (thread->isa == ISA_SVM)
		return reason == SVM_VMMCALL;
	return thread->isa == ISA_VMX && reason == VMX_VMCALL;
}

/* What kvm_exit itself tells of an exit, by kind of processor. */
static __always_inline void note_exit(struct thread *thread, __u32 reason,
				      void *ctx)
{
	thread->reason = reason;
	thread->detail = 0;
	thread->facts = 0;
	thread->wait = 0;
	thread->in_timer = 0;
	/* Nothing more is told of the most frequent: HLT, CPUID, PAUSE. */
	if (thread->isa == ISA_SVM && reason != SVM_INTR && reason < SVM_IOIO)
		return;
	if (thread->isa == ISA_SVM)
		describe_svm(thread, exit_info1(ctx), exit_info2(ctx));
	else if (thread->isa == ISA_VMX)
		describe_vmx(thread, exit_info1(ctx), exit_intr_info(ctx));
}

/*
 * The same where KVM may tell of an interrupt after its handler, which has told
 * before that (early). Returns whether the exit was for an interrupt.
 */
static __always_inline int note_late_exit(struct thread *thread, __u32 reason,
					  void *ctx, int early)
{
	__u64 detail = thread->detail;
	__u32 facts = thread->facts;

	note_exit(thread, reason, ctx);
	if (!thread->wait)
		return 0;
	/* Whoever comes now is of no exit. */
	thread->wait = 0;
	if (early) {
		thread->detail = detail;
		thread->facts = facts;
	}
	return 1;
}

/* A handler runs where the guest should: it is of the exit that KVM tells of next. */
static __always_inline void begin_untold(struct thread *thread)
{
	thread->detail = 0;
	thread->facts = 0;
	thread->wait = 1;
	thread->in_timer = 0;
}

/* Of a guest whose registers are hidden, the exit is what it tells in its GHCB. */
static __always_inline void note_vmgexit(struct thread *thread, __u64 reason,
					 __u64 info1, __u64 info2)
{
	thread->reason = reason;
	thread->detail = 0;
	thread->facts = FACT_VMGEXIT;
	if (thread->reason == SVM_GUEST_MMIO_READ ||
	    thread->reason == SVM_GUEST_MMIO_WRITE)
		describe_mmio(thread, info1,
			      thread->reason == SVM_GUEST_MMIO_WRITE);
	else
		describe_svm(thread, info1, info2);
	/* No interrupt of the host's is told that way. */
	thread->wait = 0;
}

/* The first MSR access of an MSR exit is its own. */
static __always_inline int awaits_msr(const struct thread *thread)
{
	return !(thread->facts & FACT_MSR) && is_msr_exit(thread);
}

static __always_inline void note_msr(struct thread *thread, __u32 msr,
				     const __u64 *value)
{
	thread->detail = msr;
	thread->facts |= FACT_MSR;
	/* Whether 0 is written tells an arm from a stop; reads have no value. */
	if ((thread->facts & FACT_WRITE) && *value)
		thread->facts |= FACT_NONZERO;
}

/* Whose hypercall it is, fact tells; value is what tells an arm from a stop. */
static __always_inline void note_hypercall(struct thread *thread, __u32 fact,
					   __u64 number, __u64 value)
{
	if (!is_hypercall(thread) || (thread->facts & HYPERCALLS))
		return;
	thread->detail = number;
	thread->facts |= fact;
	if (value)
		thread->facts |= FACT_NONZERO;
}

/* An access that KVM emulates, for the guest's fault; the first is the exit's. */
static __always_inline void note_mmio(struct thread *thread, __u64 address,
				      int write)
{
	__u32 reason = bare_reason(thread);
	int fault = 0;

	if (thread->isa == ISA_SVM)
		fault = reason == SVM_NPF;
	else if (thread->isa == ISA_VMX)
		fault = reason == VMX_EPT_VIOLATION || reason == VMX_EPT_MISCONFIG;
	if (fault && !thread->detail && !(thread->facts & FACT_APIC_REG))
		describe_mmio(thread, address, write);
}

/* The bytes that tell what the next access to a port will be about. */
static __always_inline void note_out(struct thread *thread, __u32 port, __u8 value)
{
	if (!(thread->facts & FACT_PORT) || thread->detail != port)
		return;
	if (port == CMOS_INDEX)
		thread->cmos = value & 0x7f;
	if (port == CMOS_INDEX || port == PIT_COMMAND)
		thread->detail |= PORT_VALUE(port == CMOS_INDEX ? value & 0x7f : value);
}

/* KVM emulates an APIC's register; only here is a value of xAPIC's known. */
static __always_inline void note_apic(struct thread *thread, int write,
				      __u32 offset, __u64 value)
{
	if (!(thread->facts & FACT_APIC_REG) || (thread->facts & FACT_VALUE))
		return;
	thread->detail = offset;
	thread->facts |= FACT_VALUE;
	if (write)
		thread->facts |= FACT_WRITE;
	if (write && value)
		thread->facts |= FACT_NONZERO;
}

/* The first handler that runs after an interrupt exit tells why it happened. */
static __always_inline void note_handler(struct thread *thread, __u32 fact)
{
	/* A device may be the clock of a host without a local timer. */
	thread->in_timer = thread->wait && (fact == FACT_TIMER || fact == FACT_DEVICE);
	if (thread->wait) {
		thread->wait = 0;
		thread->facts |= fact;
		if (fact == FACT_TIMER && tick_is_no_hrtimer)
			thread->facts |= FACT_HOST_TICK;
	}
}

/*
 * An hrtimer expires; which is TIMER_NONE where its function is none of those
 * that the loader knows.
 */
static __always_inline void note_timer(struct thread *thread, __u32 which,
				       __u64 function)
{
	if (thread->wait && which) {
		/* In the handler of a clock that no tracepoint tells of. */
		thread->wait = 0;
		thread->in_timer = 1;
		thread->facts |= FACT_TIMER;
	}
	if (!thread->in_timer)
		return;
	if (thread->facts & FACT_DEVICE) {
		/* Others may also expire in the softirq after a device's handler. */
		if (!which)
			return;
		thread->facts = (thread->facts & ~FACT_DEVICE) | FACT_TIMER;
	}
	if (which == TIMER_HOST_TICK) {
		thread->facts |= FACT_HOST_TICK;
	} else if (which == TIMER_HRTICK) {
		thread->facts |= FACT_HRTICK;
	} else if (which) {
		thread->facts |= FACT_VCPU_TIMER;
		thread->detail = which;
	} else if (!(thread->facts & (FACT_VCPU_TIMER | FACT_OTHER_TIMER))) {
		thread->facts |= FACT_OTHER_TIMER;
		thread->detail = function;
	}
}

#endif
