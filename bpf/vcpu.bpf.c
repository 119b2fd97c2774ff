// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts every exit of every vCPU on this host, by what it was about: how many,
 * and where their time went. Memory does not grow with exits or time: what finds
 * no room is counted as lost, by VM.
 */
#include "bpf.h"
#include "exits.h"
#include "noise.h"
#include "away.h"

char _license[] SEC("license") = "GPL";

/* The place of the counts of each kind. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_KINDS);
	__type(key, struct kind);
	__type(value, __u32);
} kinds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_KINDS);
	__type(key, __u32);
	__type(value, struct spent);
} counts SEC(".maps");

/* User space gives back what it has taken. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_KINDS);
	__type(value, __u32);
} left_counts SEC(".maps");

static __always_inline __u32 bucket(__u64 ns)
{
	__u32 log = 0, rest;

	ns >>= FIRST_BUCKET - 1;
	if (ns >> 32)
		return BUCKETS - 1;
	rest = ns;
	if (rest >> 16) {
		rest >>= 16;
		log += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		log += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		log += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		log += 2;
	}
	return log + (rest >> 1);
}

static __noinline __u32 add_kind(const struct kind *kind)
{
	__u32 place = find_place(&left_counts, PLACES_OF_COUNTS, MAX_KINDS);
	struct spent *spent = bpf_map_lookup_elem(&counts, &place);

	if (place == NOWHERE || !spent || !kind)
		return NOWHERE;
	*spent = (struct spent){};
	if (!bpf_map_update_elem(&kinds, kind, &place, BPF_NOEXIST)) {
		one_more(KINDS_ADDED);
		return place;
	}
	bpf_map_push_elem(&left_counts, &place, BPF_ANY);
	return NOWHERE;
}

static __always_inline __u64 reason_and_facts(const __u32 *reason)
{
	__u64 both;

	__builtin_memcpy(&both, __builtin_assume_aligned(reason, 8), sizeof(both));
	return both;
}

/* As the upper bits of a product with 2^64 / golden ratio, which are well mixed. */
static __always_inline struct recent *recent_of(struct vcpu *vcpu)
{
	__u64 mixed = (reason_and_facts(&vcpu->noted.reason) + vcpu->noted.detail) *
		      0x9e3779b97f4a7c15;

	return &vcpu->recent[mixed >> (64 - RECENT_BITS)];
}

/* Where the exit's kind has its counts; the next of its kind will know. */
static __noinline __u32 search(struct vcpu *vcpu)
{
	struct kind kind = {};
	__u32 *known, place;

	if (!vcpu)
		return NOWHERE;
	kind.thread = vcpu->thread;
	kind.tgid = vcpu->absence.tgid;
	kind.vcpu = vcpu->absence.vcpu;
	kind.isa = vcpu->noted.isa;
	kind.reason = vcpu->noted.reason;
	kind.facts = vcpu->noted.facts;
	kind.detail = vcpu->noted.detail;
	known = bpf_map_lookup_elem(&kinds, &kind);
	if (!known && vcpu->kinds >= KINDS_OF_ONE && kind.detail) {
		/* Whoever has so many may want others to find no room. */
		kind.facts = FACT_MANY;
		kind.detail = 0;
		known = bpf_map_lookup_elem(&kinds, &kind);
	}
	if (known) {
		place = *known;
	} else {
		place = add_kind(&kind);
		if (place == NOWHERE)
			return NOWHERE;
		vcpu->kinds++;
	}
	*recent_of(vcpu) = (struct recent){
		.reason = vcpu->noted.reason,
		.facts = vcpu->noted.facts,
		.detail = vcpu->noted.detail,
		.place = place,
	};
	return place;
}

static __always_inline void exit_begins(struct vcpu *vcpu)
{
	int i;

	if (vcpu->noted.vcpu == vcpu->absence.vcpu)
		return;
	/* The thread runs another vCPU. */
	vcpu->noted.vcpu = vcpu->absence.vcpu;
	for (i = 0; i < RECENT; i++)
		vcpu->recent[i].place = NOWHERE;
}

static __always_inline void exit_ends(struct vcpu *vcpu, int only_kvm)
{
	const struct absence *absence = &vcpu->absence;
	const struct thread *noted = &vcpu->noted;
	struct recent *recent = recent_of(vcpu);
	__u64 ns = only_kvm ? absence->kvm_ns : vcpu->since_ns - absence->began_ns;
	struct spent *spent = 0;
	__u32 was;

	if ((reason_and_facts(&recent->reason) == reason_and_facts(&noted->reason) &&
	     recent->detail == noted->detail && recent->place != NOWHERE) ||
	    search(vcpu) != NOWHERE)
		spent = bpf_map_lookup_elem(&counts, &recent->place);
	if (!spent) {
		vcpu->lost++;
		lose(absence->tgid);
		return;
	}
	spent->count++;
	spent->kvm_ns += absence->kvm_ns;
	if (!only_kvm) {
		spent->vmm_ns += absence->vmm_ns;
		spent->blocked_ns += absence->blocked_ns;
		spent->waited_ns += absence->waited_ns;
		spent->interrupted_ns += absence->interrupted_ns;
	}
	spent->last_ns = vcpu->since_ns;
	was = recent->bucket & (BUCKETS - 1);
	if (ns >> (was + FIRST_BUCKET - 1) != 1) {
		was = bucket(ns) & (BUCKETS - 1);
		recent->bucket = was;
	}
	spent->took[was]++;
}

static __always_inline void exit_is_left(struct vcpu *vcpu)
{
	enter(vcpu, IN_GUEST);
	*(volatile __u32 *)&vcpu->busy = 1;
	exit_ends(vcpu, 0);
	*(volatile __u32 *)&vcpu->busy = 0;
}
