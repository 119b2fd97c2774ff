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

/* The first place of an array is none. */
#define NOWHERE		0

/* Of a task's states, those in which it sleeps (TASK_REPORT). */
#define TASK_SLEEPS	0xff

/* The place of each thread's vCPU; a thread that ends is removed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VCPUS);
	__type(key, __u32);
	__type(value, __u32);
} threads SEC(".maps");

/* By place; NOWHERE is never used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_VCPUS);
	__type(key, __u32);
	__type(value, struct vcpu);
} vcpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_VCPUS);
	__type(value, __u32);
} left_vcpus SEC(".maps");

/* So many places were ever given away, of each array; and what else changed, how often. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GIVEN_SIZE);
	__type(key, __u32);
	__type(value, __u32);
} given SEC(".maps");

/*
 * The place of the thread that runs on each CPU: no search at each event. Every
 * switch sets it, and the first exit of a thread. No switch is seen while a
 * reader of maps is preempted, whose place is none: nothing is added to others.
 */
struct running running[MAX_CPUS];

/* How many exits of each VM found no room; 0 is for VMs that found none themselves. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LIVE_VMS);
	__type(key, __u32);
	__type(value, __u64);
} vms SEC(".maps");

static __always_inline void exit_begins(struct vcpu *vcpu);
/* The guest is entered again, by this thread; and whether all the time was KVM's. */
static __always_inline void exit_ends(struct vcpu *vcpu, int only_kvm);
/* It never will be, or that was not seen. */
static __always_inline void exit_is_left(struct vcpu *vcpu);

/* After what it counts: who reads the number first and then looks misses nothing. */
static __always_inline void one_more(__u32 slot)
{
	__u32 *so_far = bpf_map_lookup_elem(&given, &slot);

	if (so_far)
		__sync_fetch_and_add(so_far, 1);
}

static __always_inline void lose(__u32 tgid)
{
	__u32 others = 0;
	__u64 *lost = bpf_map_lookup_elem(&vms, &tgid);

	if (!lost)
		lost = bpf_map_lookup_elem(&vms, &others);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	one_more(LOSSES);
}

/* A place that was left, or else a new one; NOWHERE if there is none. */
static __always_inline __u32 find_place(void *left, __u32 which, __u32 places)
{
	__u32 place = NOWHERE, *so_far;

	if (!bpf_map_pop_elem(left, &place))
		return place;
	so_far = bpf_map_lookup_elem(&given, &which);
	if (!so_far || *so_far >= places - 1)
		return NOWHERE;
	place = __sync_fetch_and_add(so_far, 1) + 1;
	return place < places ? place : NOWHERE;
}

static __always_inline struct vcpu *at(__u32 place)
{
	return place == NOWHERE ? 0 : bpf_map_lookup_elem(&vcpus, &place);
}

static __always_inline __u32 place_of(__u32 pid)
{
	__u32 *place = bpf_map_lookup_elem(&threads, &pid);

	return place ? *place : NOWHERE;
}

static __always_inline __u32 *running_here(void)
{
	return &running[bpf_get_smp_processor_id() & (MAX_CPUS - 1)].place;
}

/* At NOWHERE is one that is always in its guest, and no thread's. */
static __always_inline struct vcpu *this_vcpu(void)
{
	return bpf_map_lookup_elem(&vcpus, running_here());
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
	vcpu->changed = 1;
	now = bpf_ktime_get_ns();
	ns = now - vcpu->since_ns;
	/* Where NTP slows this clock down, it may go back by some ns. */
	if ((long long)ns < 0) {
		now = vcpu->since_ns;
		ns = 0;
	}
	if (vcpu->state == IN_KVM)
		absence->kvm_ns += ns;
	else if (vcpu->state == IN_VMM)
		absence->vmm_ns += ns;
	else if (vcpu->state == BLOCKED)
		absence->blocked_ns += ns;
	else if (vcpu->state == WAITING)
		absence->waited_ns += ns;
	else if (vcpu->state == INTERRUPTED)
		absence->interrupted_ns += ns;
	*(volatile __u64 *)&vcpu->since_ns = now;
	*(volatile __u32 *)&vcpu->state = next;
	*(volatile __u32 *)&vcpu->busy = 0;
}

/* A thread that becomes a vCPU's, or another VM's than the last of its number; its place. */
static __noinline __u32 meet(__u32 pid, __u32 tgid, __u32 isa)
{
	__u32 *here = running_here(), place = place_of(pid);
	__u32 slot = THREADS_MET, *met = bpf_map_lookup_elem(&given, &slot);
	struct vcpu *vcpu = at(place);
	__u32 is_new = !vcpu;
	__u64 none = 0;

	/* What is counted of a VM that is in no list is never seen. */
	if (!bpf_map_update_elem(&vms, &tgid, &none, BPF_NOEXIST))
		one_more(VMS_ADDED);
	else if (!bpf_map_lookup_elem(&vms, &tgid))
		return NOWHERE;
	if (!met)
		return NOWHERE;
	if (!vcpu || vcpu->absence.tgid != tgid) {
		if (is_new)
			place = find_place(&left_vcpus, PLACES_OF_VCPUS, MAX_VCPUS);
		vcpu = at(place);
		if (!vcpu)
			return NOWHERE;
		*vcpu = (struct vcpu){
			.absence.tgid = tgid,
			.noted.isa = isa,
			.id = (__u64)tgid << 32 | pid,
		};
		vcpu->thread = __sync_fetch_and_add(met, 1);
		if (is_new) {
			if (bpf_map_update_elem(&threads, &pid, &place, BPF_ANY)) {
				bpf_map_push_elem(&left_vcpus, &place, BPF_ANY);
				return NOWHERE;
			}
			one_more(THREADS_ADDED);
		}
	}
	*here = place;
	return place;
}

static __always_inline void absence_begins(struct vcpu *vcpu)
{
	struct absence *absence = &vcpu->absence;

	absence->began_ns = bpf_ktime_get_ns();
	vcpu->since_ns = absence->began_ns;
	absence->kvm_ns = 0;
	if (vcpu->changed) {
		vcpu->changed = 0;
		vcpu->depth = 0;
		vcpu->longest_ns = 0;
		absence->vmm_ns = 0;
		absence->blocked_ns = 0;
		absence->waited_ns = 0;
		absence->interrupted_ns = 0;
		absence->taker = 0;
		absence->flags = 0;
	}
}

/*
 * On AMD, KVM before Linux 6.12 tells of an exit when interrupts have been on
 * for a while: after the handler of the one that it was for, and perhaps after
 * other tasks. A handler or a switch means that the guest has been left, and
 * both are of the exit that KVM tells of next.
 */
static __always_inline void begin_early(struct vcpu *vcpu)
{
	/* No thread's, or in the middle of something. */
	if (!vcpu->id || vcpu->busy)
		return;
	absence_begins(vcpu);
	vcpu->absence.exit_cpu = bpf_get_smp_processor_id();
	begin_untold(&vcpu->noted);
	vcpu->early = 1;
	vcpu->late = 1;
	*(volatile __u32 *)&vcpu->state = IN_KVM;
}

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct vcpu *vcpu = this_vcpu();

	if (!vcpu || vcpu->id != id) {
		vcpu = at(meet(id, id >> 32, field_u32(ctx, exit_isa_at)));
		if (!vcpu) {
			lose(id >> 32);
			return RECORD_TOO;
		}
	}
	/* For readers the guest runs until all is noted, and nothing may begin early. */
	if (vcpu->state != IN_GUEST && !vcpu->early) {
		exit_is_left(vcpu);
		*(volatile __u32 *)&vcpu->state = IN_GUEST;
	} else if (vcpu->early && vcpu->state != IN_KVM) {
		/* Switches were not seen: how long that took is not known. */
		vcpu->early = 0;
		*(volatile __u32 *)&vcpu->state = IN_GUEST;
	}
	*(volatile __u32 *)&vcpu->busy = 1;
	if (!*(volatile __u32 *)&vcpu->early)
		absence_begins(vcpu);
	vcpu->absence.vcpu = field_u32(ctx, exit_vcpu_at);
	if (!vcpu->late)
		note_exit(&vcpu->noted, field_u32(ctx, exit_reason_at), ctx);
	else if (note_late_exit(&vcpu->noted, field_u32(ctx, exit_reason_at), ctx, vcpu->early))
		vcpu->late = vcpu->early;
	exit_begins(vcpu);
	vcpu->early = 0;
	vcpu->exits++;
	asm volatile("" : : : "memory");
	*(volatile __u32 *)&vcpu->state = IN_KVM;
	*(volatile __u32 *)&vcpu->busy = 0;
	return RECORD_TOO;
}

SEC("raw_tracepoint/kvm_entry")
int kvm_entry(void *ctx)
{
	struct vcpu *vcpu = this_vcpu();
	__u64 now, ns;

	/* A thread's first entry that is seen ends nothing. */
	if (!vcpu || vcpu->state == IN_GUEST)
		return 0;
	/* What begins early and is told of by nobody was no exit. */
	if (vcpu->early) {
		vcpu->early = 0;
		*(volatile __u32 *)&vcpu->state = IN_GUEST;
		return 0;
	}
	/* An interrupt from now on changes nothing. */
	*(volatile __u32 *)&vcpu->busy = 1;
	if (*(volatile __u32 *)&vcpu->changed) {
		enter(vcpu, IN_GUEST);
		exit_ends(vcpu, 0);
		return 0;
	}
	/* As enter() would, of an exit that was all KVM's: most are. */
	now = bpf_ktime_get_ns();
	ns = now - vcpu->absence.began_ns;
	if ((long long)ns < 0) {
		now = vcpu->absence.began_ns;
		ns = 0;
	}
	vcpu->absence.kvm_ns = ns;
	vcpu->since_ns = now;
	*(volatile __u32 *)&vcpu->state = IN_GUEST;
	*(volatile __u32 *)&vcpu->busy = 0;
	exit_ends(vcpu, 1);
	return 0;
}

/* The thread that runs, whose number is or was this, is no vCPU's any more. */
static __always_inline int leave(__u32 pid)
{
	__u32 place = place_of(pid), *here = running_here();
	struct vcpu *vcpu = at(place);

	if (!vcpu)
		return 0;
	if (vcpu->state != IN_GUEST && !vcpu->early)
		exit_is_left(vcpu);
	*here = NOWHERE;
	bpf_map_delete_elem(&threads, &pid);
	bpf_map_push_elem(&left_vcpus, &place, BPF_ANY);
	one_more(THREADS_LEFT);
	return 0;
}

SEC("raw_tracepoint/sched_process_exit")
int sched_process_exit(void *ctx)
{
	return leave(bpf_get_current_pid_tgid());
}

/* Its arguments are task, old_pid, bprm: other threads' vCPUs than the first's change number. */
SEC("raw_tracepoint/sched_process_exec")
int sched_process_exec(__u64 *ctx)
{
	return leave(ctx[1]);
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

	if (!prev || (long long)(ns - vcpu->longest_ns) < 0)
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
	__u32 *here = running_here();
	struct vcpu *vcpu;

	vcpu = at(*here);
	if (vcpu && vcpu->state == IN_GUEST)
		begin_early(vcpu);
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
	*here = next ? place_of(next) : NOWHERE;
	vcpu = at(*here);
	if (vcpu && (vcpu->state == WAITING || vcpu->state == BLOCKED)) {
		if (vcpu->state == WAITING)
			wait_ends(vcpu, ctx, prev);
		enter(vcpu, vcpu->paused);
	}
	return RECORD_TOO;
}

static __always_inline void woken(__u32 pid)
{
	struct vcpu *vcpu = at(place_of(pid));

	if (vcpu && vcpu->state == BLOCKED)
		enter(vcpu, WAITING);
}

/* In the context of whoever wakes the thread. */
SEC("tracepoint/sched/sched_waking")
int sched_waking(void *ctx)
{
	woken(field_u32(ctx, waking_pid_at));
	return RECORD_TOO;
}

/* The first may come before the thread is off its CPU; this one comes when it can run. */
SEC("tracepoint/sched/sched_wakeup")
int sched_wakeup(void *ctx)
{
	woken(field_u32(ctx, wakeup_pid_at));
	return RECORD_TOO;
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

	if (vcpu && vcpu->state == IN_GUEST)
		begin_early(vcpu);
	if (vcpu && vcpu->state != IN_GUEST && !vcpu->busy)
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
	struct vcpu *vcpu = this_vcpu();

	if (vcpu && vcpu->state == IN_GUEST)
		begin_early(vcpu);
	interrupt();
	return 0;
}

SEC("raw_tracepoint/softirq_exit")
int softirq_exit(void *ctx)
{
	return interrupt_ends();
}

#endif
