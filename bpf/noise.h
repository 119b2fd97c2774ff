/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What noise.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_NOISE_H
#define PARATICK_NOISE_H

#include "bpf.h"

/* Bytes of the ring: some 120 000 exits. */
#define NOISE_RING	0x1000000

/* Flags of an absence. */
#define ABSENCE_HEAVY	(1u << 0)	/* it left KVM_RUN */
#define ABSENCE_HELD	(1u << 1)	/* taken off its CPU for nobody: a quota */
#define ABSENCE_AUDITED	(1u << 2)	/* it began while an emulator counted, too */

/*
 * A vCPU was out of its guest, from an exit to the next entry. The parts add up
 * to the whole, to the nanosecond.
 */
struct absence {
	__u64 began_ns;		/* CLOCK_MONOTONIC */
	__u64 ended_ns;
	__u64 kvm_ns;		/* in the kernel */
	__u64 vmm_ns;		/* in the VMM, outside KVM_RUN */
	__u64 blocked_ns;	/* the thread slept */
	__u64 waited_ns;	/* it could have run, and another one did */
	__u64 interrupted_ns;	/* the host's interrupts and softirqs, in its context */
	__u64 taker_low;	/* who ran before it came back, in its longest wait: 16 bytes */
	__u64 taker_high;
	__u64 detail;		/* as facts say, in exits.h */
	__u32 taker;		/* … and its number; 0: nobody */
	__u32 tgid;
	__u32 vcpu;
	__u32 isa;
	__u32 reason;
	__u32 facts;		/* as in exits.h */
	__u32 exit_cpu;
	__u32 entry_cpu;
	__u32 flags;
	__u32 pad;
};

/* Slots of the `state` array. */
enum {
	NOISE_EXITS,		/* of threads that are known */
	NOISE_AUDITED,		/* exits in the audited window */
	NOISE_OPEN,		/* whether that is open */
	NOISE_WANTED,		/* what the next exit is to do with it, as below */
	NOISE_LEAST,		/* ns; absences that keep a vCPU from less have no record */
	NOISE_OPENED,		/* when the audited window was opened: CLOCK_MONOTONIC */
	NOISE_CLOSED,
	NOISE_STATE_SIZE,
};

/* An exit opens and closes the audited window, and does not count itself. */
enum {
	AUDIT_LEAVE,
	AUDIT_OPEN,
	AUDIT_CLOSE,
};

#endif
