/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What kept.bpf.c shares with user space; see exits.h for what may stand here.
 */
#ifndef PARATICK_KEPT_H
#define PARATICK_KEPT_H

#include "bpf.h"

/* Of one VM. */
struct kept {
	__u64 entries;		/* at which the next ones were read */
	__u64 ever;		/* why AVIC or APICv was inhibited at any of them */
	__u64 not_always;	/* … and was not, at any */
	__u64 clocks;		/* entries of vCPUs with a page of kvm-clock */
	__u64 changes;		/* of those reasons */
	__u64 writes;		/* of the pages of kvm-clock */
	__u64 pulses;		/* of the timers' line, by the VMM */
	__u64 level;		/* of that line */
	__u64 unmasked;		/* … which a PIC or IO-APIC let through */
};

#endif
