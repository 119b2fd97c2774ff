/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What steps.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_STEPS_H
#define PARATICK_STEPS_H

#include "bpf.h"

#define STEPS_THREADS	4096
/* The timers of vCPUs. */
#define STEPS_TIMERS	8192
/* Bytes of the ring: some 400 000 steps. */
#define STEPS_RING	0x1000000

/* What has happened to a vCPU. */
#define STEP_EXIT	0	/* it left its guest */
#define STEP_TIMER	1	/* the handler of KVM's timer for it runs */
#define STEP_OUT	2	/* its thread leaves its CPU */
#define STEP_WOKEN	3	/* … is woken */
#define STEP_RUNS	4	/* … and runs again */
#define STEP_ENTRY	5	/* it enters its guest; says what the exit was */

struct step {
	__u64 at_ns;		/* CLOCK_MONOTONIC */
	__u64 detail;		/* as facts say, in exits.h */
	__u32 tgid;
	__u32 vcpu;
	__u32 kind;
	__u32 isa;
	__u32 reason;
	__u32 facts;		/* as in exits.h */
};

/* Slots of the `state` array. */
enum {
	STEPS_LOST,		/* steps that found no room, and threads */
	STEPS_STATE_SIZE,
};

#endif
