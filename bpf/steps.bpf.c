// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record for each step that a vCPU's thread takes between an exit and the
 * next entry, and for each time that KVM's timer for the vCPU expires, on
 * whatever CPU and in whoever's context that is.
 */
#include "bpf.h"
#include "exits.h"
#include "steps.h"
#include "tracepoint.h"
#include "told.h"

char _license[] SEC("license") = "GPL";

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 start_timer_at, start_function_at;
const volatile __u32 expire_timer_at, expire_function_at;
const volatile __u32 prev_pid_at, next_pid_at, waking_pid_at;

struct vcpu {
	struct thread noted;
	__u32 in_guest;
	__u32 off;		/* its thread is off its CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEPS_THREADS);
	__type(key, __u32);
	__type(value, struct vcpu);
} vcpus SEC(".maps");

/* The thread of the vCPU that a timer is for, by the timer's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEPS_TIMERS);
	__type(key, __u64);
	__type(value, __u32);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STEPS_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STEPS_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline void lost(void)
{
	__u32 slot = STEPS_LOST;
	__u64 *value = bpf_map_lookup_elem(&state, &slot);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline struct vcpu *of_thread(__u32 pid)
{
	return bpf_map_lookup_elem(&vcpus, &pid);
}

static __always_inline struct vcpu *this_vcpu(void)
{
	return of_thread(bpf_get_current_pid_tgid());
}

static __always_inline struct thread *open_exit(void)
{
	struct vcpu *vcpu = this_vcpu();

	return vcpu && !vcpu->in_guest ? &vcpu->noted : 0;
}

static __noinline int tell(struct vcpu *vcpu, __u32 kind)
{
	struct step step = {};

	if (!vcpu)
		return 0;
	step.at_ns = bpf_ktime_get_ns();
	step.tgid = vcpu->noted.tgid;
	step.vcpu = vcpu->noted.vcpu;
	step.kind = kind;
	step.isa = vcpu->noted.isa;
	if (kind == STEP_ENTRY) {
		step.reason = vcpu->noted.reason;
		step.detail = vcpu->noted.detail;
		step.facts = vcpu->noted.facts;
	}
	if (bpf_ringbuf_output(&records, &step, sizeof(step), BPF_RB_NO_WAKEUP))
		lost();
	return 0;
}

static __noinline int meet(__u32 pid, __u32 tgid)
{
	struct vcpu fresh = { .noted.tgid = tgid };

	return bpf_map_update_elem(&vcpus, &pid, &fresh, BPF_ANY);
}

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id, tgid = id >> 32;
	struct vcpu *vcpu = of_thread(pid);

	if (!vcpu || vcpu->noted.tgid != tgid) {
		if (meet(pid, tgid)) {
			lost();
			return RECORD_TOO;
		}
		vcpu = of_thread(pid);
		if (!vcpu)
			return RECORD_TOO;
	}
	vcpu->in_guest = 0;
	vcpu->off = 0;
	vcpu->noted.isa = field_u32(ctx, exit_isa_at);
	vcpu->noted.vcpu = field_u32(ctx, exit_vcpu_at);
	note_exit(&vcpu->noted, field_u32(ctx, exit_reason_at), ctx);
	tell(vcpu, STEP_EXIT);
	return RECORD_TOO;
}

SEC("raw_tracepoint/kvm_entry")
int kvm_entry(void *ctx)
{
	struct vcpu *vcpu = this_vcpu();

	/* A thread's first entry that is seen ends nothing. */
	if (!vcpu || vcpu->in_guest)
		return 0;
	vcpu->in_guest = 1;
	return tell(vcpu, STEP_ENTRY);
}

SEC("tracepoint/sched/sched_switch")
int sched_switch(void *ctx)
{
	struct vcpu *vcpu = of_thread(field_u32(ctx, prev_pid_at));

	if (vcpu && !vcpu->in_guest) {
		vcpu->off = 1;
		tell(vcpu, STEP_OUT);
	}
	vcpu = of_thread(field_u32(ctx, next_pid_at));
	if (vcpu && vcpu->off) {
		vcpu->off = 0;
		tell(vcpu, STEP_RUNS);
	}
	return RECORD_TOO;
}

/* In the context of whoever wakes the thread. */
SEC("tracepoint/sched/sched_waking")
int sched_waking(void *ctx)
{
	struct vcpu *vcpu = of_thread(field_u32(ctx, waking_pid_at));

	if (vcpu && !vcpu->in_guest)
		tell(vcpu, STEP_WOKEN);
	return RECORD_TOO;
}

/* The first handler that runs after an interrupt exit tells why it happened. */
static __always_inline int handler(__u32 fact)
{
	struct thread *thread = open_exit();

	if (thread)
		note_handler(thread, fact);
	return 0;
}

#define HANDLER(event, fact)			\
	SEC("raw_tracepoint/" #event "_entry")	\
	int event##_entry(void *ctx)		\
	{					\
		return handler(fact);		\
	}

HANDLER(local_timer, FACT_TIMER)
HANDLER(reschedule, FACT_IPI)
HANDLER(call_function, FACT_IPI)
HANDLER(call_function_single, FACT_IPI)
HANDLER(irq_work, FACT_IPI)
HANDLER(irq_handler, FACT_DEVICE)

/* A vCPU's timer is first started by its own thread. */
SEC("tracepoint/timer/hrtimer_start")
int hrtimer_start(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid();
	__u64 timer;

	if (field_u64(ctx, start_function_at) != timer_apic || !of_thread(pid))
		return RECORD_TOO;
	timer = field_u64(ctx, start_timer_at);
	bpf_map_update_elem(&timers, &timer, &pid, BPF_NOEXIST);
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	__u64 function = field_u64(ctx, expire_function_at), timer;
	struct thread *thread = open_exit();
	__u32 *pid;

	if (thread)
		note_timer(thread, which_timer(function), function);
	/* That of virtual ticks has nothing to do with a deadline of the guest's. */
	if (function != timer_apic)
		return RECORD_TOO;
	timer = field_u64(ctx, expire_timer_at);
	pid = bpf_map_lookup_elem(&timers, &timer);
	if (pid)
		tell(of_thread(*pid), STEP_TIMER);
	return RECORD_TOO;
}
