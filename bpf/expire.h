/* SPDX-License-Identifier: GPL-2.0-only */
/* A timer that expired while an exit was dealt with, noted of it; behind told.h. */
#ifndef PARATICK_EXPIRE_H
#define PARATICK_EXPIRE_H

/* Offset of a field of this kernel, written by the loader. */
const volatile __u32 hrtimer_function_at;

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	struct thread *thread = open_exit();
	__u64 function;

	if (thread) {
		function = field_u64(ctx, hrtimer_function_at);
		note_timer(thread, which_timer(function), function);
	}
	return RECORD_TOO;
}

#endif
