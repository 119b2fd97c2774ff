/* SPDX-License-Identifier: GPL-2.0-only */
/* What kvm_exit itself tells of an exit, by kind of processor. */
#ifndef PARATICK_DESCRIBE_H
#define PARATICK_DESCRIBE_H

#include "exits.h"
#include "tracepoint.h"

/* Field offsets of this kernel, written by the loader. */
const volatile __u32 exit_info1_at, exit_info2_at, exit_intr_info_at;

enum { ISA_VMX = 1, ISA_SVM = 2 };

#define SVM_INTR		0x060
#define SVM_MSR			0x07c
#define SVM_NPF			0x400
#define SVM_AVIC_ACCESS		0x402
#define VMX_INTR		1
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
		if (field_u64(ctx, exit_info1_at))
			thread->facts = FACT_WRITE;
	} else if (thread->reason == SVM_NPF) {
		info1 = field_u64(ctx, exit_info1_at);
		info2 = field_u64(ctx, exit_info2_at);
		if (info2 >> 12 == APIC_PAGE) {
			thread->facts = FACT_MMIO | FACT_APIC_REG;
			thread->msr = info2 & 0xfff;
		} else if (info1 & PFERR_RSVD) {
			thread->facts = FACT_MMIO;
		}
	} else if (thread->reason == SVM_AVIC_ACCESS) {
		thread->facts = FACT_APIC_REG;
		thread->msr = field_u64(ctx, exit_info1_at) & 0xff0;
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
		vector = field_u32(ctx, exit_intr_info_at);
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
		thread->msr = field_u64(ctx, exit_info1_at) & 0xfff;
	}
}

static __always_inline int is_msr_exit(const struct thread *thread)
{
	if (thread->isa == ISA_SVM)
		return thread->reason == SVM_MSR;
	return thread->reason == VMX_MSR_READ || thread->reason == VMX_MSR_WRITE;
}

#endif
