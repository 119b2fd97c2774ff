/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What osnoise.bpf.c and sampler.bpf.c share with user space; see exits.h for
 * what may stand here.
 */
#ifndef PARATICK_OSNOISE_H
#define PARATICK_OSNOISE_H

#include "bpf.h"

/* Bytes of the ring: some 230 000 records. */
#define OSNOISE_RING	0x1000000

/* What a record is of. */
#define OSNOISE_GAP	0	/* number is how often the kernel knows it was disturbed */
#define OSNOISE_NMI	1
#define OSNOISE_IRQ	2	/* number is the vector, or Linux's number of a device's */
#define OSNOISE_SOFTIRQ	3	/* number is the softirq's */
#define OSNOISE_THREAD	4	/* number is the thread's */
#define OSNOISE_SCHED	5	/* an instant: the scheduler looks for another thread */
#define OSNOISE_TICK	6	/* on the way out of an interrupt; start_ns is not known */
#define OSNOISE_DEADLINE 7	/* an instant on that way: a deadline is about to be written */
#define OSNOISE_WAKE	8	/* an instant, maybe on that way: a thread was woken */

/* A gap in a sampling, or what disturbed it. */
struct noise {
	__u64 start_ns;		/* of the trace's clock; a program's gap: by the TSC */
	__u64 ns;		/* of osnoise's disturbance: without those within it */
	__u64 told_ns;		/* CLOCK_MONOTONIC, right after its end */
	/*
	 * 16 bytes, or fewer and a 0. A program's gap: steal since its last and
	 * 1 ns, or 0; and how long it told of the last, by the TSC.
	 */
	__u64 name_low;
	__u64 name_high;
	__u32 kind;
	__u32 cpu;
	__u32 number;
	__u32 pad;
};

/* Bytes of the ring of parts: some 25 000 gaps. */
#define OSNOISE_PARTS_RING	0x400000

/* A gap, as the kernel splits it: the fields of osnoise:sample_parts in their order, and a CPU. */
struct parts {
	__u64 start;
	__u64 duration;
	__u64 interference;
	__u64 light;
	__u64 heavy;
	__u64 halts;
	__u64 arms;
	__u64 stops;
	__u64 expiries;
	__u64 ticks;
	__u64 nmi;
	__u64 irq;
	__u64 softirq;
	__u64 thread;
	__u64 hv;
	__u64 hv_irq;
	__u64 vmm;
	__u64 blocked;
	__u64 steal;
	__u64 hw;
	__u32 cpu;
	__u32 pad;
};

/* Slots of the `state` array. */
enum {
	OSNOISE_LOST,		/* records that found no room */
	OSNOISE_STATE_SIZE,
};

#endif
