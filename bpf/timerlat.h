/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What timerlat.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_TIMERLAT_H
#define PARATICK_TIMERLAT_H

#include "bpf.h"

#define TIMERLAT_CPUS	1024
/* Bytes of the ring: some 250 000 expiries. */
#define TIMERLAT_RING	0x1000000

/* In which interrupt a timer expires. */
#define VIA_OTHER	0
#define VIA_TIMER	1	/* the local timer's */
#define VIA_TICK	2	/* a virtual tick */

/* The timer of a CPU's timerlat expires. */
struct expiry {
	__u64 deadline_ns;	/* CLOCK_MONOTONIC, as all of these */
	__u64 irq_ns;		/* the interrupt began */
	__u64 expire_ns;	/* right before the timer's function runs; 0: nobody saw it */
	__u64 thread_ns;	/* the program that waits for it ran; 0: it is the tracer's */
	__u32 cpu;
	__u32 via;
	__u64 number;		/* on this CPU, from 1 on */
};

/* What is known of a CPU. */
struct cpu {
	__u64 waiter;		/* the thread that waits, if it is a program's */
	__u64 timer;		/* what it waits for; 0: nothing that was seen */
	__u64 deadline_ns;
	__u64 irq_ns;		/* 0: no such interrupt now */
	__u64 number;
	__u64 via;
	struct expiry expired;	/* the last, if it is a program's */
};

/* Slots of the `state` array. */
enum {
	TIMERLAT_LOST,		/* expiries that found no room */
	TIMERLAT_STATE_SIZE,
};

#endif
