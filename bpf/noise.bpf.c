// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record for every exit of every vCPU on this host, made when the guest is
 * entered again: for how long it was away, and where that time went.
 */
#include "bpf.h"
#include "exits.h"
#include "marks.h"
#include "noise.h"
#include "away.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, NOISE_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NOISE_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline __u64 *slot(__u32 index)
{
	return bpf_map_lookup_elem(&state, &index);
}

static __always_inline void count(__u32 index)
{
	__u64 *value = slot(index);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline void note_time(__u32 index)
{
	__u64 *value = slot(index);

	if (value)
		*value = bpf_ktime_get_ns();
}

/* Whether an emulator that counts world switches counts this exit (marks.h). */
static __always_inline __u32 audited(void)
{
	__u64 *open = slot(NOISE_OPEN), *wanted = slot(NOISE_WANTED);
	__u32 yes = 1, no = 0, is_open;

	if (!open || !wanted)
		return 0;
	is_open = load_flag(MARK_SEEN, open);
	if (*wanted == AUDIT_LEAVE)
		return is_open;
	switch (__sync_lock_test_and_set(wanted, AUDIT_LEAVE)) {
	case AUDIT_OPEN:
		store_flag(MARK_OPEN, open, yes);
		note_time(NOISE_OPENED);
		return 0;
	case AUDIT_CLOSE:
		note_time(NOISE_CLOSED);
		store_flag(MARK_CLOSE, open, no);
		return 0;
	default:
		/* Another CPU was faster. */
		return is_open;
	}
}

static __always_inline void exit_begins(struct vcpu *vcpu)
{
	struct absence *absence = &vcpu->absence;

	absence->flags &= ~ABSENCE_AUDITED;
	if (audited()) {
		absence->flags |= ABSENCE_AUDITED;
		count(NOISE_AUDITED);
	}
	count(NOISE_EXITS);
	if (!vcpu->early)
		absence->exit_cpu = bpf_get_smp_processor_id();
}

/* Neither sleep nor a poll for the end of a halt keeps a vCPU from anything. */
static __always_inline __u64 kept_ns(const struct vcpu *vcpu)
{
	const struct absence *absence = &vcpu->absence;
	__u32 reason = vcpu->noted.reason;
	int halts = vcpu->noted.isa == ISA_SVM ?
		    reason == SVM_HLT || reason == SVM_IDLE_HLT : reason == VMX_HLT;

	if (halts)
		return absence->waited_ns + absence->interrupted_ns;
	return vcpu->since_ns - absence->began_ns - absence->blocked_ns;
}

static __always_inline void exit_ends(struct vcpu *vcpu, int only_kvm)
{
	struct absence *absence = &vcpu->absence;
	__u64 *least = slot(NOISE_LEAST);

	if (least && *least && kept_ns(vcpu) < *least)
		return;
	absence->ended_ns = vcpu->since_ns;
	absence->isa = vcpu->noted.isa;
	absence->entry_cpu = bpf_get_smp_processor_id();
	absence->reason = vcpu->noted.reason;
	absence->detail = vcpu->noted.detail;
	absence->facts = vcpu->noted.facts;
	if (bpf_ringbuf_output(&records, absence, sizeof(*absence), BPF_RB_NO_WAKEUP))
		lose(absence->tgid);
}

/* There is no absence without an end. */
static __always_inline void exit_is_left(struct vcpu *vcpu)
{
}
