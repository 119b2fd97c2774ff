// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record for every halt of every vCPU on this host. It begins where KVM
 * says how long the halt took, and is complete when the guest is entered again:
 * by then the interrupt that ended it is known.
 */
#include "bpf.h"
#include "exits.h"
#include "halts.h"
#include "tracepoint.h"
#include "which.h"

char _license[] SEC("license") = "GPL";

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 entry_vcpu_at;
const volatile __u32 start_timer_at, start_function_at, start_expires_at;
const volatile __u32 cancel_timer_at;
const volatile __u32 waking_pid_at;
const volatile __u32 cpuid_function_at, cpuid_index_at;
/* In struct kvm_vcpu and struct kvm; used only where BTF tells them. */
const volatile __u32 vcpu_kvm_at, kvm_max_at;
const volatile __u32 kvm_override_at;	/* 0: each VM has a maximum of its own */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HALT_THREADS);
	__type(key, __u32);
	__type(value, struct halting);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HALT_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HALT_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline void lost(void)
{
	__u32 slot = HALT_LOST;
	__u64 *value = bpf_map_lookup_elem(&state, &slot);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline void emit(const struct record *record)
{
	if (bpf_ringbuf_output(&records, record, sizeof(*record), BPF_RB_NO_WAKEUP))
		lost();
}

static __always_inline struct halting *this_thread(void)
{
	__u32 pid = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &pid);
}

/* A thread is a vCPU's from its first entry on. */
static __always_inline void meet(void)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct halting fresh = { .tgid = id >> 32 };
	__u32 pid = id;

	if (bpf_map_update_elem(&threads, &pid, &fresh, BPF_ANY))
		lost();
}

/* Nothing more is to come of the thread's last halt, if it is not told yet. */
static __always_inline void tell(struct halting *thread)
{
	struct record record = {
		.ended_ns = thread->ended_ns,
		.ns = thread->ns,
		.slept_at_ns = thread->slept_at_ns,
		.woken_at_ns = thread->woken_at_ns,
		.woken_by = thread->woken_by,
		.deadline_ns = thread->deadline_at_ns,
		.kind = RECORD_HALT,
		.tgid = thread->tgid,
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.vcpu = thread->vcpu,
		.flags = thread->flags,
		.old = thread->old,
		.new = thread->new,
		.vector = thread->vector,
		.switches = thread->switches,
		.limit = thread->limit,
		.maximum = thread->maximum,
	};

	emit(&record);
	thread->ended_ns = 0;
	thread->slept_at_ns = 0;
	thread->woken_at_ns = 0;
	thread->flags = 0;
	thread->vector = 0;
	thread->switches = 0;
}

SEC("tracepoint/kvm/kvm_entry")
int kvm_entry(void *ctx)
{
	struct halting *thread = this_thread();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!thread || thread->tgid != tgid) {
		meet();
		return RECORD_TOO;
	}
	thread->vcpu = field_u32(ctx, entry_vcpu_at);
	if (thread->ended_ns)
		tell(thread);
	/* What follows belongs to the next halt. */
	thread->flags = 0;
	thread->slept_at_ns = 0;
	thread->woken_at_ns = 0;
	return RECORD_TOO;
}

/* Attached where BTF tells the fields above. Its first argument is the vCPU. */
SEC("raw_tracepoint/kvm_entry")
int kvm_entry_vcpu(__u64 *ctx)
{
	struct halting *thread = this_thread();

	if (thread)
		thread->kvm_vcpu = ctx[0];
	return 0;
}

/* As kvm_vcpu_max_halt_poll_ns() reads it. */
static __always_inline void note_maximum(struct halting *thread)
{
	__u64 kvm;
	__u32 maximum;
	__u8 own = 1;

	if (!thread->kvm_vcpu ||
	    bpf_probe_read_kernel(&kvm, sizeof(kvm), (void *)(thread->kvm_vcpu + vcpu_kvm_at)))
		return;
	if (kvm_override_at &&
	    bpf_probe_read_kernel(&own, sizeof(own), (void *)(kvm + kvm_override_at)))
		return;
	if (bpf_probe_read_kernel(&maximum, sizeof(maximum), (void *)(kvm + kvm_max_at)))
		return;
	thread->maximum = maximum;
	thread->flags |= HALT_MAXIMUM;
	if (own)
		thread->flags |= HALT_OWN;
}

/* Only of the series halt-polling: vcpu_id, limit, why, deadline. A halt begins. */
SEC("raw_tracepoint/kvm_halt_poll_window")
int kvm_halt_poll_window(__u64 *ctx)
{
	struct halting *thread = this_thread();
	__u32 why = ctx[2];

	if (!thread)
		return 0;
	if (thread->ended_ns)
		tell(thread);
	if (why == POLL_WHY_NONE || why == POLL_WHY_DEADLINE)
		return 0;
	thread->limit = ctx[1];
	thread->flags |= HALT_LIMIT;
	return 0;
}

/* Its arguments are grow, vcpu_id, new, old; it comes before the wake-up's. */
SEC("raw_tracepoint/kvm_halt_poll_ns")
int kvm_halt_poll_ns(__u64 *ctx)
{
	struct halting *thread = this_thread();

	if (!thread)
		return 0;
	/* Another halt, and no entry before it: the guest was not to be run yet. */
	if (thread->ended_ns)
		tell(thread);
	thread->new = ctx[2];
	thread->old = ctx[3];
	thread->flags |= HALT_CHANGED;
	return 0;
}

/* Its arguments are ns, waited, valid. */
SEC("raw_tracepoint/kvm_vcpu_wakeup")
int kvm_vcpu_wakeup(__u64 *ctx)
{
	struct halting *thread = this_thread();

	if (!thread)
		return 0;
	if (thread->ended_ns)
		tell(thread);
	thread->ended_ns = bpf_ktime_get_ns();
	thread->ns = ctx[0];
	if (ctx[1] & 0xff)
		thread->flags |= HALT_WAITED;
	if (ctx[2] & 0xff)
		thread->flags |= HALT_VALID;
	note_maximum(thread);
	/* Armed since a halt long ago: only what was armed before this one began. */
	thread->deadline_at_ns = thread->deadline_ns;
	if (thread->deadline_ns > thread->ended_ns - thread->ns)
		thread->flags |= HALT_DEADLINE;
	return 0;
}

/* Its arguments are vector, soft, reinjected. */
SEC("raw_tracepoint/kvm_inj_virq")
int kvm_inj_virq(__u64 *ctx)
{
	struct halting *thread = this_thread();

	if (thread && thread->ended_ns && !thread->vector)
		thread->vector = ctx[0];
	return 0;
}

/* The thread that gives its CPU away still is the current one. */
SEC("raw_tracepoint/sched_switch")
int sched_switch(void *ctx)
{
	struct halting *thread = this_thread();

	if (!thread)
		return 0;
	/* It sleeps in another halt, or is preempted: then what it was woken by is not known. */
	if (thread->ended_ns)
		tell(thread);
	thread->switches++;
	if (!thread->slept_at_ns)
		thread->slept_at_ns = bpf_ktime_get_ns();
	return 0;
}

/* In the context of whoever wakes the thread. */
SEC("tracepoint/sched/sched_waking")
int sched_waking(void *ctx)
{
	__u32 pid = field_u32(ctx, waking_pid_at);
	struct halting *thread = bpf_map_lookup_elem(&threads, &pid);

	if (thread && !thread->ended_ns) {
		thread->woken_at_ns = bpf_ktime_get_ns();
		thread->woken_by = (__u32)bpf_get_current_pid_tgid();
	}
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_start")
int hrtimer_start(void *ctx)
{
	struct halting *thread;

	if (!is_vcpu_timer(which_timer(field_u64(ctx, start_function_at))))
		return RECORD_TOO;
	thread = this_thread();
	if (!thread)
		return RECORD_TOO;
	thread->timer = field_u64(ctx, start_timer_at);
	thread->deadline_ns = field_u64(ctx, start_expires_at);
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_cancel")
int hrtimer_cancel(void *ctx)
{
	struct halting *thread = this_thread();

	if (thread && field_u64(ctx, cancel_timer_at) == thread->timer)
		thread->deadline_ns = 0;
	return RECORD_TOO;
}

SEC("tracepoint/kvm/kvm_cpuid")
int kvm_cpuid(void *ctx)
{
	struct record mark = { .kind = RECORD_MARK };

	if (field_u32(ctx, cpuid_function_at) != MARKER_LEAF)
		return RECORD_TOO;
	mark.ended_ns = bpf_ktime_get_ns();
	mark.tgid = bpf_get_current_pid_tgid() >> 32;
	mark.vector = field_u32(ctx, cpuid_index_at);
	emit(&mark);
	return RECORD_TOO;
}
