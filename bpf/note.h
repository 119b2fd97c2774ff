/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the facts of an exit are noted: by the BPF programs as it happens, and by
 * user space that reads a trace of it (native.c). Who includes this says how
 * the arguments of kvm_exit are read, in exit_info1(ctx) and its like.
 */
#ifndef PARATICK_NOTE_H
#define PARATICK_NOTE_H

#include "exits.h"

#define SVM_INTR		0x060
#define SVM_MSR			0x07c
#define SVM_VMMCALL		0x081
#define SVM_NPF			0x400
#define SVM_AVIC_ACCESS		0x402
#define VMX_INTR		1
#define VMX_VMCALL		18
#define VMX_MSR_READ		31
#define VMX_MSR_WRITE		32
#define VMX_APIC_ACCESS		44
#define VMX_APIC_WRITE		56

#define PFERR_RSVD		(1 << 3)
#define APIC_PAGE		0xfee00
#define INTR_INFO_VALID		(1u << 31)

static __always_inline void describe_svm(struct thread *thread, void *ctx)
{
	__u64 info1, info2;

	if (thread->reason == SVM_INTR) {
		thread->wait = 1;
	} else if (thread->reason == SVM_MSR) {
		if (exit_info1(ctx))
			thread->facts = FACT_WRITE;
	} else if (thread->reason == SVM_NPF) {
		info1 = exit_info1(ctx);
		info2 = exit_info2(ctx);
		if (info2 >> 12 == APIC_PAGE) {
			thread->facts = FACT_MMIO | FACT_APIC_REG;
			thread->msr = info2 & 0xfff;
		} else if (info1 & PFERR_RSVD) {
			thread->facts = FACT_MMIO;
		}
	} else if (thread->reason == SVM_AVIC_ACCESS) {
		thread->facts = FACT_APIC_REG;
		thread->msr = exit_info1(ctx) & 0xff0;
	}
}

static __always_inline void describe_vmx(struct thread *thread, void *ctx)
{
	__u32 vector;

	if (thread->reason == VMX_INTR) {
		thread->wait = 1;
		/*
		 * Posted-interrupt vectors (0xf0..0xf2) have no tracepoint of
		 * their own; VMX names the vector with the exit.
		 */
		vector = exit_intr_info(ctx);
		if ((vector & INTR_INFO_VALID) && (vector & 0xff) >= 0xf0 &&
		    (vector & 0xff) <= 0xf2) {
			thread->facts = FACT_IPI;
			thread->wait = 0;
		}
	} else if (thread->reason == VMX_MSR_WRITE) {
		thread->facts = FACT_WRITE;
	} else if (thread->reason == VMX_APIC_ACCESS ||
		   thread->reason == VMX_APIC_WRITE) {
		thread->facts = FACT_APIC_REG;
		thread->msr = exit_info1(ctx) & 0xfff;
	}
}

static __always_inline int is_msr_exit(const struct thread *thread)
{
	if (thread->isa == ISA_SVM)
		return thread->reason == SVM_MSR;
	return thread->reason == VMX_MSR_READ || thread->reason == VMX_MSR_WRITE;
}

/* What kvm_exit itself tells of an exit, by kind of processor. */
static __always_inline void note_exit(struct thread *thread, __u32 reason,
				      void *ctx)
{
	thread->reason = reason;
	thread->msr = 0;
	thread->facts = 0;
	thread->wait = 0;
	thread->in_timer = 0;
	if (thread->isa == ISA_SVM)
		describe_svm(thread, ctx);
	else
		describe_vmx(thread, ctx);
}

/* The first MSR access of an MSR exit is its own. */
static __always_inline int awaits_msr(const struct thread *thread)
{
	return !(thread->facts & FACT_MSR) && is_msr_exit(thread);
}

static __always_inline void note_msr(struct thread *thread, __u32 msr,
				     const __u64 *value)
{
	thread->msr = msr;
	thread->facts |= FACT_MSR;
	/* Whether 0 is written tells an arm from a stop; reads have no value. */
	if ((thread->facts & FACT_WRITE) && *value)
		thread->facts |= FACT_NONZERO;
}

/* A guest that hands its deadline over halts by a hypercall. */
static __always_inline void note_hypercall(struct thread *thread, __u64 number)
{
	__u32 reason = thread->isa == ISA_SVM ? SVM_VMMCALL : VMX_VMCALL;

	if (thread->reason == reason && number == HC_HALT_UNTIL)
		thread->facts |= FACT_HALT;
}

/* The first handler that runs after an interrupt exit tells why it happened. */
static __always_inline void note_handler(struct thread *thread, __u32 fact)
{
	thread->in_timer = thread->wait && fact == FACT_TIMER;
	if (thread->wait) {
		thread->wait = 0;
		thread->facts |= fact;
	}
}

static __always_inline void note_vcpu_timer(struct thread *thread)
{
	if (thread->in_timer)
		thread->facts |= FACT_VCPU_TIMER;
}

#endif
