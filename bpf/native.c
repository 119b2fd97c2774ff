/* SPDX-License-Identifier: GPL-2.0-only */
/* The noting of facts as functions of user space's own (note.h). */
#include "exits.h"

#define exit_info1(ctx)		(((const struct arguments *)(ctx))->info1)
#define exit_info2(ctx)		(((const struct arguments *)(ctx))->info2)
#define exit_intr_info(ctx)	(((const struct arguments *)(ctx))->intr_info)
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

void paratick_note_hypercall(struct thread *thread, __u64 number)
{
	note_hypercall(thread, number);
}

void paratick_note_handler(struct thread *thread, __u32 fact)
{
	note_handler(thread, fact);
}

void paratick_note_vcpu_timer(struct thread *thread)
{
	note_vcpu_timer(thread);
}
