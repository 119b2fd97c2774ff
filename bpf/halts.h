/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What halts.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_HALTS_H
#define PARATICK_HALTS_H

#include "bpf.h"

#define HALT_THREADS	4096
/* Bytes of the ring: some 170 000 records. */
#define HALT_RING	0x1000000

/* What a record is of. */
#define RECORD_HALT	1
#define RECORD_MARK	2	/* a window's mark; index is in vector */

/* Flags of a halt. */
#define HALT_WAITED	(1u << 0)	/* the thread slept */
#define HALT_VALID	(1u << 1)	/* KVM takes the wake-up for one */
#define HALT_CHANGED	(1u << 2)	/* KVM spoke of its limit: old, new */
#define HALT_DEADLINE	(1u << 3)	/* the vCPU's timer was armed */
#define HALT_LIMIT	(1u << 4)	/* KVM said for how long it polls at most */
#define HALT_MAXIMUM	(1u << 5)	/* it was read whose maximum is in force … */
#define HALT_OWN	(1u << 6)	/* … the VM's own: maximum */

/* Of enum kvm_halt_poll_why: nothing is polled for, and a timer is, whatever the limit is. */
#define POLL_WHY_NONE		0
#define POLL_WHY_DEADLINE	3

/* A halt of a vCPU, or a mark. */
struct record {
	__u64 ended_ns;		/* CLOCK_MONOTONIC, when KVM had woken up */
	__u64 ns;		/* as kvm_vcpu_wakeup tells: polled and blocked */
	__u64 slept_at_ns;	/* 0: never; when the thread first gave its CPU away */
	__u64 woken_at_ns;	/* 0: never; when the thread was last woken */
	__u64 woken_by;		/* thread that did that */
	__u64 deadline_ns;	/* CLOCK_MONOTONIC, of the vCPU's timer */
	__u32 kind;
	__u32 tgid;
	__u32 thread;
	__u32 vcpu;
	__u32 flags;
	__u32 old;		/* limits, in ns */
	__u32 new;
	__u32 vector;		/* first interrupt after the halt; 0: none was seen */
	__u32 switches;		/* of the thread, since the last record */
	__u32 limit;		/* in ns, as told before the halt */
	__u32 maximum;		/* in ns, of the VM */
	__u32 pad;
};

/* A vCPU's thread. */
struct halting {
	__u64 ended_ns;		/* of the halt that no entry has followed yet; 0: none */
	__u64 ns;
	__u64 slept_at_ns;
	__u64 woken_at_ns;
	__u64 woken_by;
	__u64 timer;		/* address of its timer, once seen */
	__u64 deadline_ns;	/* 0: not armed */
	__u64 deadline_at_ns;	/* what deadline_ns was when the halt began */
	__u64 kvm_vcpu;		/* address of KVM's vCPU; 0: not known */
	__u32 tgid;
	__u32 flags;
	__u32 old;
	__u32 new;
	__u32 vector;
	__u32 switches;
	__u32 vcpu;
	__u32 limit;
	__u32 maximum;
	__u32 pad;
};

/* Slots of the `state` array. */
enum {
	HALT_LOST,		/* records that found no room, and threads */
	HALT_STATE_SIZE,
};

#endif
