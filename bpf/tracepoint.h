/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading fields of classic tracepoints whose offsets are known only at load
 * time, from tracefs `format` files: a kernel needs no BTF for that.
 *
 * The verifier accepts only constant offsets into a tracepoint's context.
 * So each possible offset has its own load, and the loader writes the real
 * one into .rodata: the verifier sees a constant there and removes every
 * other branch. What runs is one load.
 */
#ifndef PARATICK_TRACEPOINT_H
#define PARATICK_TRACEPOINT_H

#include "bpf.h"

/* Hidden from the compiler, which would fold the comparisons into a tree. */
#define hide(variable)	asm volatile("" : "+r"(variable))

#define LOAD_IF(type, at)						\
	if (offset == at)						\
		asm volatile("%0 = *(" type " *)(%1 + " #at ")"		\
			     : "=r"(value) : "r"(ctx))

/* Fields start after the 8 bytes that all tracepoints have in common. */
static __always_inline __u32 field_u32(void *ctx, __u32 offset)
{
	__u32 value = 0;

	hide(offset);
	LOAD_IF("u32", 8);
	else LOAD_IF("u32", 12);
	else LOAD_IF("u32", 16);
	else LOAD_IF("u32", 20);
	else LOAD_IF("u32", 24);
	else LOAD_IF("u32", 28);
	else LOAD_IF("u32", 32);
	else LOAD_IF("u32", 36);
	else LOAD_IF("u32", 40);
	else LOAD_IF("u32", 44);
	else LOAD_IF("u32", 48);
	else LOAD_IF("u32", 52);
	else LOAD_IF("u32", 56);
	else LOAD_IF("u32", 60);
	else LOAD_IF("u32", 64);
	else LOAD_IF("u32", 68);
	return value;
}

static __always_inline __u64 field_u64(void *ctx, __u32 offset)
{
	__u64 value = 0;

	hide(offset);
	LOAD_IF("u64", 8);
	else LOAD_IF("u64", 16);
	else LOAD_IF("u64", 24);
	else LOAD_IF("u64", 32);
	else LOAD_IF("u64", 40);
	else LOAD_IF("u64", 48);
	else LOAD_IF("u64", 56);
	else LOAD_IF("u64", 64);
	return value;
}

#endif
