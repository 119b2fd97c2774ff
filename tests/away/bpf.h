/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine for bpf/vcpu.bpf.c in user space: its maps, its clock and its
 * current thread. Programs are functions here; what a kernel does with several
 * CPUs happens one after the other.
 */
#ifndef PARATICK_BPF_H
#define PARATICK_BPF_H
/* Fields are loaded without BPF's assembly. */
#define PARATICK_TRACEPOINT_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;

#define SEC(name) __attribute__((used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK = 23,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

#define RECORD_TOO	1
#define CPUS	4

/* Slots of a hash are searched one by one, from where its key would be. */
struct map {
	void *name;
	__u32 type, most, key, value, used;
	char *keys, *values, *there;
};

static struct map maps[16];
static __u32 n_maps, this_cpu;
static __u64 this_id, now_ns = 1000;
/* Comes while a program loads a field, or reads the clock, for the next time. */
static void (*interrupts)(void), (*interrupts_clock)(void);

static struct map *map_of(void *name)
{
	__u32 i;

	for (i = 0; i < n_maps; i++)
		if (maps[i].name == name)
			return &maps[i];
	abort();
}

static void add_map(void *name, __u32 type, __u32 most, __u32 key, __u32 value)
{
	__u32 slots = type == BPF_MAP_TYPE_PERCPU_ARRAY ? CPUS : most;

	maps[n_maps++] = (struct map){
		.name = name, .type = type, .most = most, .key = key, .value = value,
		.keys = calloc(slots, key), .values = calloc(slots, value),
		.there = calloc(slots, 1),
	};
}

#define NUMBER(map, what)	(sizeof(*(map).what) / sizeof(int))
#define MAP(map)	add_map(&map, NUMBER(map, type), NUMBER(map, max_entries),	\
				sizeof(*(map).key), sizeof(*(map).value))
#define STACK(map)	add_map(&map, NUMBER(map, type), NUMBER(map, max_entries), 1,	\
				sizeof(*(map).value))

/* Where the key is, or else where it may be put; the number of slots if nowhere. */
static __u32 slot_of(struct map *map, const void *key)
{
	__u32 i, hash = 0, slot, first = map->most;

	for (i = 0; i + 4 <= map->key; i += 4)
		hash = (hash ^ *(__u32 *)((char *)key + i)) * 0x9e3779b1;
	for (i = 0; i < map->most; i++) {
		slot = (hash + i) % map->most;
		if (map->there[slot] == 1 &&
		    !memcmp(map->keys + slot * map->key, key, map->key))
			return slot;
		if (map->there[slot] != 1 && first == map->most)
			first = slot;
		/* Never used: the key is not behind it. */
		if (!map->there[slot])
			break;
	}
	return first;
}

static void *bpf_map_lookup_elem(void *name, const void *key)
{
	struct map *map = map_of(name);
	__u32 slot = *(__u32 *)key;

	if (map->type == BPF_MAP_TYPE_PERCPU_ARRAY)
		slot = this_cpu;
	else if (map->type == BPF_MAP_TYPE_HASH)
		slot = slot_of(map, key);
	if (slot >= map->most && map->type != BPF_MAP_TYPE_PERCPU_ARRAY)
		return NULL;
	if (map->type == BPF_MAP_TYPE_HASH && map->there[slot] != 1)
		return NULL;
	return map->values + slot * map->value;
}

static long bpf_map_update_elem(void *name, const void *key, const void *value, __u64 flags)
{
	struct map *map = map_of(name);
	__u32 slot = slot_of(map, key);

	if (slot >= map->most || (flags == BPF_NOEXIST && map->there[slot] == 1))
		return -1;
	map->used += map->there[slot] != 1;
	map->there[slot] = 1;
	memcpy(map->keys + slot * map->key, key, map->key);
	memcpy(map->values + slot * map->value, value, map->value);
	return 0;
}

static long bpf_map_delete_elem(void *name, const void *key)
{
	struct map *map = map_of(name);
	__u32 slot = slot_of(map, key);

	if (slot >= map->most || map->there[slot] != 1)
		return -1;
	map->there[slot] = 2;
	map->used--;
	return 0;
}

static long bpf_map_push_elem(void *name, const void *value, __u64 flags)
{
	struct map *map = map_of(name);

	assert(!flags);
	if (map->used >= map->most)
		return -1;
	memcpy(map->values + map->used++ * map->value, value, map->value);
	return 0;
}

static long bpf_map_pop_elem(void *name, void *value)
{
	struct map *map = map_of(name);

	memset(value, 0, map->value);
	if (!map->used)
		return -1;
	memcpy(value, map->values + --map->used * map->value, map->value);
	return 0;
}

static void be_interrupted(void (**by)(void))
{
	void (*interrupt)(void) = *by;

	*by = NULL;
	if (interrupt)
		interrupt();
}

static __u64 bpf_ktime_get_ns(void)
{
	be_interrupted(&interrupts_clock);
	return now_ns;
}

static __u64 bpf_get_current_pid_tgid(void)
{
	return this_id;
}

static __u32 bpf_get_smp_processor_id(void)
{
	return this_cpu;
}

static long bpf_probe_read_kernel(void *to, __u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

static inline __u32 field_u32(void *ctx, __u32 offset)
{
	be_interrupted(&interrupts);
	return *(__u32 *)((char *)ctx + offset);
}

static inline __u64 field_u64(void *ctx, __u32 offset)
{
	__u64 value;

	memcpy(&value, (char *)ctx + offset, sizeof(value));
	return value;
}

#endif
