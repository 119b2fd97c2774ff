/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading fields of classic tracepoints whose offsets are known only at load
 * time, from tracefs `format` files: a kernel needs no BTF for that.
 *
 * The verifier accepts only constant offsets into a tracepoint's context.
 * So each possible offset has its own load, and the loader writes the real
 * one into .rodata: the verifier sees a constant there and removes every
 * other load, with its jump. In assembly, or the compiler makes a tree of
 * comparisons, whose sums stay.
 */
#ifndef PARATICK_TRACEPOINT_H
#define PARATICK_TRACEPOINT_H

#include "bpf.h"

#define LOAD_IF(type, at)						\
	"if %[offset] != " #at " goto +1\n\t"				\
	"%[value] = *(" type " *)(%[ctx] + " #at ")\n\t"

#define LOAD(loads)							\
	asm volatile(loads : [value] "+r"(value)			\
		     : [offset] "r"(offset), [ctx] "r"(ctx))

/* Fields start after the 8 bytes that all tracepoints have in common. */
static __always_inline __u32 field_u32(void *ctx, __u32 offset)
{
	__u64 value = 0;

	LOAD(LOAD_IF("u32", 8)
	     LOAD_IF("u32", 12)
	     LOAD_IF("u32", 16)
	     LOAD_IF("u32", 20)
	     LOAD_IF("u32", 24)
	     LOAD_IF("u32", 28)
	     LOAD_IF("u32", 32)
	     LOAD_IF("u32", 36)
	     LOAD_IF("u32", 40)
	     LOAD_IF("u32", 44)
	     LOAD_IF("u32", 48)
	     LOAD_IF("u32", 52)
	     LOAD_IF("u32", 56)
	     LOAD_IF("u32", 60)
	     LOAD_IF("u32", 64)
	     LOAD_IF("u32", 68));
	return value;
}

static __always_inline __u64 field_u64(void *ctx, __u32 offset)
{
	__u64 value = 0;

	LOAD(LOAD_IF("u64", 8)
	     LOAD_IF("u64", 16)
	     LOAD_IF("u64", 24)
	     LOAD_IF("u64", 32)
	     LOAD_IF("u64", 40)
	     LOAD_IF("u64", 48)
	     LOAD_IF("u64", 56)
	     LOAD_IF("u64", 64));
	return value;
}

#endif
