/* SPDX-License-Identifier: GPL-2.0-only */
/* Which of the timers of exits.h has a function. */
#ifndef PARATICK_WHICH_H
#define PARATICK_WHICH_H

#include "exits.h"

/* Functions of this kernel, written by the loader; 0 where it has none. */
const volatile __u64 timer_apic, timer_pv_tick, timer_stimer, timer_xen;
const volatile __u64 timer_pit, timer_preemption, timer_host_tick, timer_hrtick;

static __always_inline __u32 which_timer(__u64 function)
{
	if (function == timer_apic)
		return TIMER_APIC;
	if (function == timer_host_tick)
		return TIMER_HOST_TICK;
	if (function == timer_pv_tick)
		return TIMER_PV_TICK;
	if (function == timer_stimer)
		return TIMER_STIMER;
	if (function == timer_xen)
		return TIMER_XEN;
	if (function == timer_pit)
		return TIMER_PIT;
	if (function == timer_preemption)
		return TIMER_PREEMPTION;
	if (function == timer_hrtick)
		return TIMER_HRTICK;
	return TIMER_NONE;
}

static __always_inline int is_vcpu_timer(__u32 which)
{
	return which != TIMER_NONE && which < TIMER_HOST_TICK;
}

#endif
