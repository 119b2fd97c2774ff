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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_KINDS);
	__type(key, struct kind);
	__type(value, struct spent);
} counts SEC(".maps");

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

static __noinline int add_kind(const struct kind *kind)
{
	struct spent none = {};

	if (!kind)
		return -1;
	return bpf_map_update_elem(&counts, kind, &none, BPF_NOEXIST);
}

static __always_inline struct spent *of_kind(struct vcpu *vcpu, struct kind *kind)
{
	struct spent *spent = bpf_map_lookup_elem(&counts, kind);

	if (spent)
		return spent;
	if (vcpu->kinds >= KINDS_OF_ONE && kind->detail) {
		/* Whoever has so many may want others to find no room. */
		kind->facts = FACT_MANY;
		kind->detail = 0;
		spent = bpf_map_lookup_elem(&counts, kind);
		if (spent)
			return spent;
	}
	if (add_kind(kind))
		return 0;
	vcpu->kinds++;
	return bpf_map_lookup_elem(&counts, kind);
}

static __always_inline void exit_begins(struct vcpu *vcpu)
{
}

static __always_inline void exit_ends(struct vcpu *vcpu, __u32 pid)
{
	const struct absence *absence = &vcpu->absence;
	struct kind kind = {
		.pid = pid,
		.tgid = absence->tgid,
		.vcpu = absence->vcpu,
		.isa = absence->isa,
		.reason = vcpu->noted.reason,
		.facts = vcpu->noted.facts,
		.detail = vcpu->noted.detail,
	};
	struct spent *spent = of_kind(vcpu, &kind);

	if (!spent) {
		vcpu->lost++;
		lose(absence->tgid);
		return;
	}
	spent->count++;
	spent->kvm_ns += absence->kvm_ns;
	spent->vmm_ns += absence->vmm_ns;
	spent->blocked_ns += absence->blocked_ns;
	spent->waited_ns += absence->waited_ns;
	spent->interrupted_ns += absence->interrupted_ns;
	spent->last_ns = vcpu->since_ns;
	spent->took[bucket(vcpu->since_ns - absence->began_ns) & (BUCKETS - 1)]++;
}

static __always_inline void exit_is_left(struct vcpu *vcpu, __u32 pid)
{
	enter(vcpu, IN_GUEST);
	exit_ends(vcpu, pid);
}
