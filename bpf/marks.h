/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Markers for an emulator that counts world switches itself: the x86 JIT
 * emits `r1 = imm` as the bytes bf imm32. Each stands right beside the access
 * to the window flag that it is about, so that both counts put an exit on the
 * same side of the window's edge.
 */
#ifndef PARATICK_MARKS_H
#define PARATICK_MARKS_H

#include "bpf.h"

#define MARK_OPEN	0x50544b01
#define MARK_CLOSE	0x50544b02
#define MARK_SEEN	0x50544b03

#define store_flag(mark, flag, value)					\
	asm volatile("r1 = %[m]\n\t*(u32 *)(%[p] + 0) = %[v]"		\
		     : : [m] "i"(mark), [p] "r"(flag), [v] "r"(value)	\
		     : "r1", "memory")

#define load_flag(mark, flag)						\
({									\
	__u32 __value;							\
	asm volatile("r1 = %[m]\n\t%[v] = *(u32 *)(%[p] + 0)"		\
		     : [v] "=r"(__value) : [m] "i"(mark), [p] "r"(flag)	\
		     : "r1", "memory");					\
	__value;							\
})

#endif
