/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a vCPU's thread is between an exit and the next entry, for programs
 * that record that and programs that count it. The thread is in one of the
 * states below at any moment; each change of state adds the time since the last
 * one to the state that ends, so nothing is counted twice or left out.
 *
 * Who includes this says in exit_begins(), exit_ends() and exit_is_left() what
 * becomes of an exit.
 */
#ifndef PARATICK_AWAY_H
#define PARATICK_AWAY_H

#include "vcpu.h"
#include "tracepoint.h"
#include "told.h"
#include "expire.h"

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 prev_pid_at, prev_state_at, prev_comm_at, next_pid_at;
const volatile __u32 waking_pid_at, wakeup_pid_at;

/* Of a task's states, those in which it sleeps (TASK_REPORT). */
#define TASK_SLEEPS	0xff

/* By thread; one that ends is removed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VCPUS);
	__type(key, __u32);
	__type(value, struct vcpu);
} vcpus SEC(".maps");

/* How many exits of each VM found no room; 0 is for VMs that found none themselves. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LIVE_VMS);
	__type(key, __u32);
	__type(value, __u64);
} vms SEC(".maps");

static __always_inline void exit_begins(struct vcpu *vcpu);
/* The guest is entered again, by this thread. */
static __always_inline void exit_ends(struct vcpu *vcpu, __u32 pid);
/* It never will be, or that was not seen. */
static __always_inline void exit_is_left(struct vcpu *vcpu, __u32 pid);

static __always_inline void lose(__u32 tgid)
{
	__u32 others = 0;
	__u64 *lost = bpf_map_lookup_elem(&vms, &tgid);

	if (!lost)
		lost = bpf_map_lookup_elem(&vms, &others);
	if (lost)
		__sync_fetch_and_add(lost, 1);
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

	return vcpu && vcpu->state != IN_GUEST ? &vcpu->noted : 0;
}

static __always_inline void enter(struct vcpu *vcpu, __u32 next)
{
	struct absence *absence = &vcpu->absence;
	__u64 now, ns;

	*(volatile __u32 *)&vcpu->busy = 1;
	now = bpf_ktime_get_ns();
	ns = now - vcpu->since_ns;
	switch (vcpu->state) {
	case IN_KVM:
		absence->kvm_ns += ns;
		break;
	case IN_VMM:
		absence->vmm_ns += ns;
		break;
	case BLOCKED:
		absence->blocked_ns += ns;
		break;
	case WAITING:
		absence->waited_ns += ns;
		break;
	case INTERRUPTED:
		absence->interrupted_ns += ns;
		break;
	}
	*(volatile __u64 *)&vcpu->since_ns = now;
	*(volatile __u32 *)&vcpu->state = next;
	*(volatile __u32 *)&vcpu->busy = 0;
}

static __noinline int meet(__u32 pid, __u32 tgid)
{
	struct vcpu fresh = { .noted.tgid = tgid };
	__u64 none = 0;

	bpf_map_update_elem(&vms, &tgid, &none, BPF_NOEXIST);
	return bpf_map_update_elem(&vcpus, &pid, &fresh, BPF_ANY);
}

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id, tgid = id >> 32;
	struct vcpu *vcpu = of_thread(pid);

	if (vcpu && vcpu->state != IN_GUEST)
		exit_is_left(vcpu, pid);
	if (!vcpu || vcpu->noted.tgid != tgid) {
		if (meet(pid, tgid)) {
			lose(tgid);
			return 0;
		}
		vcpu = of_thread(pid);
		if (!vcpu)
			return 0;
	}
	vcpu->since_ns = bpf_ktime_get_ns();
	vcpu->state = IN_KVM;
	vcpu->depth = 0;
	vcpu->longest_ns = 0;
	vcpu->exits++;
	vcpu->noted.isa = field_u32(ctx, exit_isa_at);
	vcpu->absence = (struct absence){
		.began_ns = vcpu->since_ns,
		.tgid = tgid,
		.vcpu = field_u32(ctx, exit_vcpu_at),
		.isa = vcpu->noted.isa,
		.exit_cpu = bpf_get_smp_processor_id(),
	};
	note_exit(&vcpu->noted, field_u32(ctx, exit_reason_at), ctx);
	exit_begins(vcpu);
	return 0;
}

SEC("raw_tracepoint/kvm_entry")
int kvm_entry(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct vcpu *vcpu = of_thread(pid);

	/* A thread's first entry that is seen ends nothing. */
	if (!vcpu || vcpu->state == IN_GUEST)
		return 0;
	enter(vcpu, IN_GUEST);
	exit_ends(vcpu, pid);
	return 0;
}

SEC("raw_tracepoint/sched_process_exit")
int sched_process_exit(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct vcpu *vcpu = of_thread(pid);

	if (!vcpu)
		return 0;
	if (vcpu->state != IN_GUEST)
		exit_is_left(vcpu, pid);
	bpf_map_delete_elem(&vcpus, &pid);
	return 0;
}

/* KVM_RUN returns to the VMM. */
SEC("raw_tracepoint/kvm_userspace_exit")
int kvm_userspace_exit(void *ctx)
{
	struct vcpu *vcpu = this_vcpu();

	if (vcpu && vcpu->state == IN_KVM) {
		enter(vcpu, IN_VMM);
		vcpu->absence.flags |= ABSENCE_HEAVY;
	}
	return 0;
}

/* The VMM calls KVM_RUN again. */
SEC("kprobe/kvm_arch_vcpu_ioctl_run")
int kvm_arch_vcpu_ioctl_run(void *ctx)
{
	struct vcpu *vcpu = this_vcpu();

	if (vcpu && vcpu->state == IN_VMM)
		enter(vcpu, IN_KVM);
	return 0;
}

/* It comes back after a wait: who ran meanwhile is who ran last. */
static __always_inline void wait_ends(struct vcpu *vcpu, void *ctx, __u32 prev)
{
	__u64 ns = bpf_ktime_get_ns() - vcpu->since_ns;
	struct absence *absence = &vcpu->absence;

	if (!prev || ns < vcpu->longest_ns)
		return;
	vcpu->longest_ns = ns;
	absence->taker = prev;
	absence->taker_low = field_u64(ctx, prev_comm_at);
	absence->taker_high = field_u64(ctx, prev_comm_at + 8);
}

SEC("tracepoint/sched/sched_switch")
int sched_switch(void *ctx)
{
	__u32 prev = field_u32(ctx, prev_pid_at), next = field_u32(ctx, next_pid_at);
	struct vcpu *vcpu = of_thread(prev);

	if (vcpu && vcpu->state != IN_GUEST) {
		/* What an interrupt has interrupted is not switched before it ends. */
		vcpu->depth = 0;
		vcpu->paused = vcpu->state == INTERRUPTED ? vcpu->beneath : vcpu->state;
		if (field_u64(ctx, prev_state_at) & TASK_SLEEPS) {
			enter(vcpu, BLOCKED);
		} else {
			enter(vcpu, WAITING);
			/* It could run, and the CPU idles instead. */
			if (!next)
				vcpu->absence.flags |= ABSENCE_HELD;
		}
	}
	vcpu = of_thread(next);
	if (vcpu && (vcpu->state == WAITING || vcpu->state == BLOCKED)) {
		if (vcpu->state == WAITING)
			wait_ends(vcpu, ctx, prev);
		enter(vcpu, vcpu->paused);
	}
	return 0;
}

static __always_inline int woken(__u32 pid)
{
	struct vcpu *vcpu = of_thread(pid);

	if (vcpu && vcpu->state == BLOCKED)
		enter(vcpu, WAITING);
	return 0;
}

/* In the context of whoever wakes the thread. */
SEC("tracepoint/sched/sched_waking")
int sched_waking(void *ctx)
{
	return woken(field_u32(ctx, waking_pid_at));
}

/* The first may come before the thread is off its CPU; this one comes when it can run. */
SEC("tracepoint/sched/sched_wakeup")
int sched_wakeup(void *ctx)
{
	return woken(field_u32(ctx, wakeup_pid_at));
}

static __always_inline void interrupt(void)
{
	struct vcpu *vcpu = this_vcpu();

	if (!vcpu || vcpu->state == IN_GUEST || vcpu->busy)
		return;
	if (!vcpu->depth++) {
		vcpu->beneath = vcpu->state;
		enter(vcpu, INTERRUPTED);
	}
}

static __always_inline int interrupt_ends(void)
{
	struct vcpu *vcpu = this_vcpu();

	if (vcpu && !vcpu->busy && vcpu->depth && !--vcpu->depth)
		enter(vcpu, vcpu->beneath);
	return 0;
}

/* The first handler that runs after an interrupt exit tells why it happened. */
static __always_inline int handler(__u32 fact)
{
	struct vcpu *vcpu = this_vcpu();

	if (vcpu && vcpu->state != IN_GUEST)
		note_handler(&vcpu->noted, fact);
	interrupt();
	return 0;
}

#define HANDLER(event, fact)			\
	SEC("raw_tracepoint/" #event "_entry")	\
	int event##_entry(void *ctx)		\
	{					\
		return handler(fact);		\
	}					\
						\
	SEC("raw_tracepoint/" #event "_exit")	\
	int event##_exit(void *ctx)		\
	{					\
		return interrupt_ends();	\
	}

HANDLER(local_timer, FACT_TIMER)
HANDLER(reschedule, FACT_IPI)
HANDLER(call_function, FACT_IPI)
HANDLER(call_function_single, FACT_IPI)
HANDLER(irq_work, FACT_IPI)
HANDLER(irq_handler, FACT_DEVICE)

SEC("raw_tracepoint/softirq_entry")
int softirq_entry(void *ctx)
{
	interrupt();
	return 0;
}

SEC("raw_tracepoint/softirq_exit")
int softirq_exit(void *ctx)
{
	return interrupt_ends();
}

#endif
