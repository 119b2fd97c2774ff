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
#define FACT_MSR	(1u << 0)	/* detail: an MSR */
#define FACT_WRITE	(1u << 1)	/* it was written, not read; of a port, too */
#define FACT_NONZERO	(1u << 2)	/* with a value other than 0 */
#define FACT_MMIO	(1u << 3)	/* detail: an address of memory-mapped I/O */
#define FACT_APIC_REG	(1u << 4)	/* detail: an offset into the APIC's page */
#define FACT_TIMER	(1u << 5)	/* first handler: the local timer */
#define FACT_VCPU_TIMER	(1u << 6)	/* … and a vCPU's was in it; detail: TIMER_… */
#define FACT_IPI	(1u << 7)	/* first handler: an IPI's */
#define FACT_DEVICE	(1u << 8)	/* first handler: a device's */
#define FACT_HYPERCALL	(1u << 9)	/* detail: KVM's hypercall */
#define FACT_HV_CALL	(1u << 10)	/* detail: one of Hyper-V's */
#define FACT_XEN_CALL	(1u << 11)	/* detail: one of Xen's; above 32 bits its command */
#define FACT_PORT	(1u << 12)	/* detail: a port; above 16 bits PORT_VALUE */
#define FACT_HOST_TICK	(1u << 13)	/* the host's tick was in the timer's handler */
#define FACT_HRTICK	(1u << 14)	/* … the end of a task's slice */
#define FACT_OTHER_TIMER	(1u << 15)	/* … another timer; detail: its function */
#define FACT_NESTED	(1u << 16)	/* of a guest of the guest's */
#define FACT_REFLECTED	(1u << 17)	/* … and handed to its own hypervisor */
#define FACT_VMGEXIT	(1u << 18)	/* the guest itself told why (SEV-ES) */
#define FACT_VALUE	(1u << 19)	/* whether an APIC register was written 0 is known */
#define FACT_MANY	(1u << 20)	/* too many details to keep them apart */
#define FACT_TICK	(1u << 31)	/* not an exit: a virtual tick, reason = what */

/* The timers whose functions the loader looks up, in this order. */
enum {
	TIMER_NONE,
	TIMER_APIC,		/* apic_timer_fn */
	TIMER_PV_TICK,		/* kvm_pv_tick_timer_fn, of the series */
	TIMER_STIMER,		/* stimer_timer_callback: Hyper-V's */
	TIMER_XEN,		/* xen_timer_callback */
	TIMER_PIT,		/* pit_timer_fn */
	TIMER_PREEMPTION,	/* vmx_preemption_timer_fn: of a guest's guest */
	TIMER_HOST_TICK,	/* tick_nohz_handler, tick_sched_timer before 6.8 */
	TIMER_HRTICK,		/* hrtick */
};

struct thread {
	__u32 tgid;
	__u32 vcpu;
	__u32 isa;
	__u32 vm;		/* index into vms */
	/* The exit whose cause is still open; none if window is 0. */
	__u32 reason;		/* with the facts it is read as one number */
	__u32 facts;
	__u32 window;
	__u32 wait;		/* no handler has run yet after an interrupt exit */
	__u32 in_timer;		/* the first handler is the latest, and may be a timer's */
	__u32 cmos;		/* the register of the RTC's that was selected last */
	/* On hosts where KVM tells late. */
	__u32 in_guest;		/* entered, and not left as far as was told */
	__u32 early;		/* it was left, which will be told */
	__u64 detail;		/* what the exit was about; FACT_… say what it is */
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
	__u32 facts;
	__u64 detail;
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
