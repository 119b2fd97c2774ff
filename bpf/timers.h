/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What timers.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_TIMERS_H
#define PARATICK_TIMERS_H

#include "bpf.h"

/* Bytes of the ring: some 200 000 records. */
#define TIMERS_RING	0x1000000
/* Timers whose start is remembered. */
#define TIMERS_ARMED	16384
#define TIMERS_CPUS	1024
/* Ways by which timers are started, and how many calls of each are kept. */
#define TIMERS_STACKS	4096
#define TIMERS_CALLS	12

/* What a record is of. */
#define WAKE_IDLE	0	/* the CPU becomes idle: number is the state */
#define WAKE_IRQ	1	/* number is one of the interrupts below */
#define WAKE_DEVICE	2	/* number is Linux's of a device's interrupt, with its name */
#define WAKE_HRTIMER	3	/* one expires: function; slack; who started it */
#define WAKE_WHEEL	4	/* the same of the wheel, with its flags and jiffies */
#define WAKE_WORK	5	/* a work is queued: function */
#define WAKE_WAKING	6	/* a task is woken: number; the name is who wakes it */
#define WAKE_RUN	7	/* the idle task gives way to a task: number, name */
#define WAKE_IPI	8	/* one is sent: number is the CPU that gets it */
#define WAKE_SET	9	/* a timer of the wheel is set on another CPU: flags; jiffies */

/* Interrupts without a handler of a device's. */
#define WAKE_IRQ_TIMER		0
#define WAKE_IRQ_RESCHEDULE	1
#define WAKE_IRQ_CALL		2
#define WAKE_IRQ_WORK		3
#define WAKE_IRQ_TICK		4	/* virtual */
#define WAKE_IRQ_ASYNC_PF	5

/* Flags of a timer of the wheel (include/linux/timer.h). */
#define WHEEL_DEFERRABLE	0x00080000
#define WHEEL_PINNED		0x00100000
#define WHEEL_CPU		0x0003ffff	/* on which it is */

/* Something that wakes a CPU, or says why. */
struct wake {
	__u64 at_ns;		/* CLOCK_MONOTONIC */
	__u64 function;
	__u64 timer;		/* where it is */
	__u64 slack_ns;
	__u64 expires;		/* when it was asked for: jiffies of the wheel, else ns */
	__u64 bucket;		/* of the wheel: until when it may be late, in jiffies; 0 */
	__u64 now;
	__u64 name_low;		/* 16 bytes, or fewer and a 0 */
	__u64 name_high;
	__u32 kind;
	__u32 cpu;
	__u32 number;
	__u32 pid;		/* who started the timer; 0: the kernel, or it is not known */
	__u32 flags;
	__u32 known;		/* its start was seen */
	__u32 stack;		/* of its start, in the map `stacks`, + 1; 0: none */
	__u32 unused;
};

/* A timer's start. */
struct armed {
	__u64 slack_ns;
	__u64 expires;
	__u64 bucket;
	__u64 name_low;
	__u64 name_high;
	__u32 pid;
	__u32 flags;
	__u32 stack;
	__u32 unused;
};

/* Slots of the `state` array. */
enum {
	TIMERS_LOST,		/* records that found no room */
	TIMERS_STATE_SIZE,
};

#endif
