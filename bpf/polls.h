/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What polls.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_POLLS_H
#define PARATICK_POLLS_H

#include "bpf.h"

#define POLL_CPUS	1024
/* Bytes of the ring: some 150 000 records. */
#define POLL_RING	0x1000000

/* Stands for those of all devices: the first that Linux gives to one. */
#define DEVICE_VECTOR	0x22

/* Flags of an idle state that was entered and left. */
#define IDLE_TIMED_OUT	(1u << 0)	/* polled for as long as it may be */
#define IDLE_CHANGED	(1u << 1)	/* the governor spoke of its limit: old, new */
#define IDLE_MEASURED	(1u << 2)	/* cpuidle measured it, and has a limit */

/* A CPU was in an idle state. */
struct idling {
	__u64 began_ns;		/* CLOCK_MONOTONIC */
	__u64 ended_ns;		/* 0: it still is */
	__u64 residency_ns;	/* as cpuidle measured it */
	__u64 limit_ns;		/* of polling, in force when it began */
	__u64 deadline_ns;	/* CLOCK_MONOTONIC, of the CPU's next timer */
	__u32 cpu;
	__u32 state;		/* 0 is to poll, where cpuidle has such a state */
	__u32 flags;
	__u32 old;		/* limits, in ns */
	__u32 new;
	__u32 vector;		/* first interrupt meanwhile; 0: none was seen */
	__u32 ran;		/* not 0: a task has run since then */
	__u32 pad;
};

/* Slots of the `state` array. */
enum {
	POLL_LOST,		/* records that found no room, and CPUs */
	POLL_STRANGE,		/* CPUs whose cpuidle device is not one that we know */
	POLL_STATE_SIZE,
};

#endif
