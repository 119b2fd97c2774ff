/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What exits.bpf.c shares with user space. crates/instruments/build makes Rust
 * of it, and takes only what stands here: numbers, structs of __u32 and __u64
 * without padding, and enums that count from 0.
 */
#ifndef PARATICK_EXITS_H
#define PARATICK_EXITS_H

#include "bpf.h"

/* CPUID leaf of the window markers; ECX is (window << 8) | what. */
#define MARKER_LEAF	0x50415241
#define MARKER_OPEN	1
#define MARKER_CLOSE	2
/* The same of all guests at once. */
#define MARKER_OPEN_ALL	3
#define MARKER_CLOSE_ALL	4

/* The number of the hypercall that halts until a deadline (kvm_para.h). */
#define HC_HALT_UNTIL	20

/* Kinds of processors, as kvm_exit names them. */
#define ISA_VMX		1
#define ISA_SVM		2

#define MAX_VMS		4096
#define MAX_THREADS	4096
#define MAX_WINDOWS	4096
#define MAX_COUNTS	32768
/* Guests whose windows one marker opens. */
#define MAX_TOGETHER	64

/* Facts of one exit; user space decides the cause from them. */
#define FACT_MSR	(1u << 0)	/* the MSR is known */
#define FACT_WRITE	(1u << 1)	/* it was written */
#define FACT_NONZERO	(1u << 2)	/* with a value other than 0 */
#define FACT_MMIO	(1u << 3)	/* nested page fault on an MMIO page */
#define FACT_APIC_REG	(1u << 4)	/* msr holds an APIC page offset */
#define FACT_TIMER	(1u << 5)	/* first handler: the local timer */
#define FACT_VCPU_TIMER	(1u << 6)	/* … and KVM's timer of the vCPU was in it */
#define FACT_IPI	(1u << 7)	/* first handler: an IPI's */
#define FACT_DEVICE	(1u << 8)	/* first handler: a device's */
#define FACT_HALT	(1u << 9)	/* the hypercall is a halt */
#define FACT_TICK	(1u << 31)	/* not an exit: a virtual tick, reason = what */

struct thread {
	__u32 tgid;
	__u32 vcpu;
	__u32 isa;
	__u32 vm;		/* index into vms */
	/* The exit whose cause is still open; none if window is 0. */
	__u32 window;
	__u32 reason;
	__u32 msr;
	__u32 facts;
	__u32 wait;		/* no handler has run yet after an interrupt exit */
	__u32 in_timer;		/* the first handler was the timer and is the latest */
};

struct vm {
	__u32 open;		/* sequence number of the open window; 0: none */
	__u32 tgid;
};

struct window {
	__u32 sequence;
	__u32 tgid;
	__u32 id;		/* as the workload gave it */
	__u32 pad;
	__u64 opened_ns;
	__u64 closed_ns;	/* 0: still open, or abandoned */
};

struct key {
	__u32 window;		/* sequence number */
	__u32 vcpu;
	__u32 reason;
	__u32 msr;
	__u32 facts;
};

/* Arguments of kvm_exit. */
struct arguments {
	__u64 info1;
	__u64 info2;
	__u64 intr_info;
};

/* Slots of the `state` array. */
enum {
	STATE_WINDOWS,		/* windows opened so far */
	STATE_VMS,		/* slots of vms handed out so far */
	STATE_LOST,		/* exits that found no room in a map */
	STATE_STRAY,		/* markers without sense: close of a window not open, … */
	STATE_OLDEST,		/* the first slot of vms whose guest may still run */
	STATE_SIZE,
};

#endif
