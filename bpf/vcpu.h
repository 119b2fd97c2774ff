/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What vcpu.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_VCPU_H
#define PARATICK_VCPU_H

#include "exits.h"
#include "noise.h"

#define MAX_VCPUS	16384
/* Linux has no room for more. */
#define MAX_CPUS	8192
#define MAX_LIVE_VMS	8192
/* Of exits, of all vCPUs together; and of one, before details are left out. */
#define MAX_KINDS	65536
#define KINDS_OF_ONE	512

/* Of so many kinds a vCPU's counts are found without a search: 1 << RECENT_BITS. */
#define RECENT		8
#define RECENT_BITS	3

/* Slots of the `given` array. */
enum {
	PLACES_OF_VCPUS,
	PLACES_OF_COUNTS,
	THREADS_MET,
	THREADS_LEFT,
	/* Changes: of these maps' keys by what was added, and of the values of vms. */
	THREADS_ADDED,
	KINDS_ADDED,
	VMS_ADDED,
	LOSSES,
	GIVEN_SIZE,
};

/* Each bucket of a histogram ends at twice the last one's end, the first at 128 ns. */
#define BUCKETS		32
#define FIRST_BUCKET	7

/* Where a vCPU's thread is; the first is no part of an absence. */
enum {
	IN_GUEST,
	IN_KVM,
	IN_VMM,
	BLOCKED,
	WAITING,
	INTERRUPTED,
};

/* Which place the exits of a kind are counted at; see vcpu.bpf.c. */
struct recent {
	__u32 reason;
	__u32 facts;
	__u64 detail;
	__u32 place;		/* 0: none yet */
	__u32 bucket;		/* of the last one's length */
};

/* Of a CPU, in a line of its cache that is no other's. */
struct running {
	__u32 place;
	__u32 pad[15];
};

struct vcpu {
	struct thread noted;
	struct absence absence;
	__u64 since_ns;		/* it is in this state */
	__u64 longest_ns;	/* of its waits, in this absence */
	__u64 exits;		/* so far; the last may not have ended */
	__u64 lost;		/* of those, by vcpu.bpf.c */
	__u64 id;		/* of its thread: its number, and above 32 bits the process */
	__u32 thread;		/* which of all that were met */
	__u32 state;
	__u32 paused;		/* the state to go on in after the thread was off its CPU */
	__u32 beneath;		/* the state that an interrupt has interrupted */
	__u32 depth;		/* of interrupts */
	__u32 busy;		/* its state changes: an interrupt now must not change it */
	__u32 kinds;		/* of its exits, so far */
	__u32 changed;		/* its state, since the exit: the absence is not all KVM's */
	__u32 early;		/* an exit that KVM will tell of has begun; see away.h */
	__u32 late;		/* … and so this KVM tells late */
	struct recent recent[8];	/* RECENT */
};

/* Exits of one thread, and so never counted on two CPUs at a time. */
struct kind {
	__u32 thread;		/* a number is another thread's when its own has ended */
	__u32 tgid;
	__u32 vcpu;
	__u32 isa;
	__u32 reason;
	__u32 facts;		/* as in exits.h, and so the detail */
	__u64 detail;
};

struct spent {
	__u64 count;
	__u64 kvm_ns;
	__u64 vmm_ns;
	__u64 blocked_ns;
	__u64 waited_ns;
	__u64 interrupted_ns;
	__u64 last_ns;		/* when the last one ended; CLOCK_MONOTONIC */
	__u64 took[32];		/* BUCKETS: so many of which length, from exit to entry */
};

#endif
