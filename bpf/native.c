/* SPDX-License-Identifier: GPL-2.0-only */
/* The noting of facts as functions of user space's own (note.h). */
#include "exits.h"

#define exit_info1(ctx)		(((const struct arguments *)(ctx))->info1)
#define exit_info2(ctx)		(((const struct arguments *)(ctx))->info2)
#define exit_intr_info(ctx)	(((const struct arguments *)(ctx))->intr_info)
/* Whose traces are read has high-resolution timers. */
#define tick_is_no_hrtimer	0
#include "note.h"

void paratick_note_exit(struct thread *thread, __u32 reason,
			struct arguments *arguments)
{
	note_exit(thread, reason, arguments);
}

__u32 paratick_awaits_msr(const struct thread *thread)
{
	return awaits_msr(thread);
}

void paratick_note_msr(struct thread *thread, __u32 msr, __u64 value)
{
	note_msr(thread, msr, &value);
}

void paratick_note_hypercall(struct thread *thread, __u32 fact, __u64 number,
			     __u64 value)
{
	note_hypercall(thread, fact, number, value);
}

void paratick_note_mmio(struct thread *thread, __u64 address, __u32 write)
{
	note_mmio(thread, address, write);
}

void paratick_note_out(struct thread *thread, __u32 port, __u32 value)
{
	note_out(thread, port, value);
}

void paratick_note_apic(struct thread *thread, __u32 write, __u32 offset,
			__u64 value)
{
	note_apic(thread, write, offset, value);
}

void paratick_note_vmgexit(struct thread *thread, __u64 reason, __u64 info1,
			   __u64 info2)
{
	note_vmgexit(thread, reason, info1, info2);
}

void paratick_note_handler(struct thread *thread, __u32 fact)
{
	note_handler(thread, fact);
}

void paratick_note_timer(struct thread *thread, __u32 which, __u64 function)
{
	note_timer(thread, which, function);
}
