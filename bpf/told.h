/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What KVM and the timers tell of an exit after kvm_exit: programs that every
 * recorder of exits has. Who includes this says in open_exit() for which vCPU
 * of the current thread an exit is being dealt with; NULL is for none.
 *
 * Raw where it can be, because perf's part of a classic tracepoint costs more
 * than all that is done here. Some also fire on the fast path, before the guest
 * is entered again.
 */
#ifndef PARATICK_TOLD_H
#define PARATICK_TOLD_H

/* Offsets of fields, functions and settings of this kernel, written by the loader. */
const volatile __u32 exit_info1_at, exit_info2_at, exit_intr_info_at;
const volatile __u32 exit_reason_at, exit_isa_at, exit_vcpu_at;
const volatile __u32 tick_is_no_hrtimer;
/* Whether KVM may tell of an interrupt's exit after the handler; see away.h. */
const volatile __u32 tells_late;

#define exit_info1(ctx)		field_u64(ctx, exit_info1_at)
#define exit_info2(ctx)		field_u64(ctx, exit_info2_at)
#define exit_intr_info(ctx)	field_u32(ctx, exit_intr_info_at)
#include "note.h"
#include "which.h"

const volatile __u32 vmgexit_reason_at, vmgexit_info1_at, vmgexit_info2_at;
/* Whether kvm_xen_hypercall begins with a privilege level (from 6.0 on). */
const volatile __u32 xen_has_cpl;

static __always_inline struct thread *open_exit(void);

/* Its arguments are write, ecx, data, exception. */
SEC("raw_tracepoint/kvm_msr")
int kvm_msr(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread && awaits_msr(thread))
		note_msr(thread, ctx[1], &ctx[2]);
	return 0;
}

/* Its arguments are nr, a0, a1, a2, a3. */
SEC("raw_tracepoint/kvm_hypercall")
int kvm_hypercall(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_hypercall(thread, FACT_HYPERCALL, ctx[0], 0);
	return 0;
}

/* Its arguments begin with the code. */
SEC("raw_tracepoint/kvm_hv_hypercall")
int kvm_hv_hypercall(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_hypercall(thread, FACT_HV_CALL, ctx[0] & 0xffff, 0);
	return 0;
}

/* Its arguments are (cpl,) nr, a0, a1, …; a0 is the command of some, or a time. */
SEC("raw_tracepoint/kvm_xen_hypercall")
int kvm_xen_hypercall(__u64 *ctx)
{
	/* Each at a place of its own: the verifier takes no computed one. */
	volatile __u64 *arguments = ctx;
	__u64 one = arguments[0], two = arguments[1], three = arguments[2];
	__u64 number = xen_has_cpl ? two : one, first = xen_has_cpl ? three : two;
	struct thread *thread = open_exit();

	if (!thread)
		return 0;
	note_hypercall(thread, FACT_XEN_CALL,
		       (number & 0xff) | (first & 0xff) << 32, first);
	return 0;
}

/* Its arguments are type, length, address, value. */
SEC("raw_tracepoint/kvm_mmio")
int kvm_mmio(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_mmio(thread, ctx[2], (__u32)ctx[0] == MMIO_WRITE);
	return 0;
}

/* A write that an eventfd takes. */
SEC("raw_tracepoint/kvm_fast_mmio")
int kvm_fast_mmio(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_mmio(thread, ctx[0], 1);
	return 0;
}

/* Its arguments are write, port, size, count, data. */
SEC("raw_tracepoint/kvm_pio")
int kvm_pio(__u64 *ctx)
{
	struct thread *thread = open_exit();
	__u32 port = ctx[1];
	__u8 value;

	if (!thread || (__u32)ctx[0] != PIO_OUT ||
	    (port != CMOS_INDEX && port != PIT_COMMAND))
		return 0;
	if (!bpf_probe_read_kernel(&value, sizeof(value), (const void *)ctx[4]))
		note_out(thread, port, value);
	return 0;
}

/* Its arguments are write, register, value. */
SEC("raw_tracepoint/kvm_apic")
int kvm_apic(__u64 *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_apic(thread, !!(__u32)ctx[0], ctx[1], ctx[2]);
	return 0;
}

SEC("tracepoint/kvm/kvm_vmgexit_enter")
int kvm_vmgexit_enter(void *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		note_vmgexit(thread, field_u64(ctx, vmgexit_reason_at),
			     field_u64(ctx, vmgexit_info1_at),
			     field_u64(ctx, vmgexit_info2_at));
	return RECORD_TOO;
}

SEC("raw_tracepoint/kvm_nested_vmexit")
int kvm_nested_vmexit(void *ctx)
{
	struct thread *thread = open_exit();

	if (thread)
		thread->facts |= FACT_NESTED;
	return 0;
}

SEC("raw_tracepoint/kvm_nested_vmexit_inject")
int kvm_nested_vmexit_inject(void *ctx)
{
	struct thread *thread = open_exit();

	if (thread && (thread->facts & FACT_NESTED))
		thread->facts |= FACT_REFLECTED;
	return 0;
}

#endif
