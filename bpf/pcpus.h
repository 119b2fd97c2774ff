/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What pcpus.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_PCPUS_H
#define PARATICK_PCPUS_H

#include "bpf.h"

#define MAX_PCPUS	256

/* What is counted of each pCPU. */
enum {
	PCPU_WAKE_UPS,		/* it left idle */
	PCPU_VCPU_TIMERS,	/* timers of vCPUs that expired */
	PCPU_LOCAL_TIMER,	/* interrupts, from here on */
	PCPU_RESCHEDULE,
	PCPU_CALL_FUNCTION,
	PCPU_CALL_FUNCTION_SINGLE,
	PCPU_IRQ_WORK,
	PCPU_DEVICE,
	PCPU_COUNTS,
};

/* Slots of the `state` array. */
enum {
	PCPU_OPEN,		/* a window of all guests is open */
	PCPU_OPENED_NS,
	PCPU_CLOSED_NS,		/* 0: not closed yet */
	PCPU_STATE_SIZE,
};

#endif
