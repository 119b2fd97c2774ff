/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The little of the BPF world that our programs need, so that clang alone
 * compiles them: no libbpf headers, no vmlinux.h, no kernel headers.
 * Helper numbers are part of the kernel's ABI (include/uapi/linux/bpf.h).
 */
#ifndef PARATICK_BPF_H
#define PARATICK_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))

/* Definitions in the .maps section, as libbpf and aya read them from BTF. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
/* Nobody waits for records: without it, some commits interrupt their CPU in vain. */
enum { BPF_RB_NO_WAKEUP = 1 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key,
				   const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static __u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_map_push_elem)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_get_current_comm)(void *buf, __u32 size) = (void *)16;
static long (*bpf_get_stackid)(void *ctx, void *map, __u64 flags) = (void *)27;
static long (*bpf_probe_read_kernel)(void *dst, __u32 size, const void *address) = (void *)113;
static long (*bpf_ringbuf_output)(void *ringbuf, const void *data, __u64 size,
				  __u64 flags) = (void *)130;

#endif
