// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts every VM exit of every vCPU on this host, exactly, inside windows
 * that guests open and close; and notes the facts from which user space
 * decides each exit's cause. docs/measuring.md tells the rules.
 *
 * The path of an exit must stay short, since it is part of what is measured:
 * one hash lookup for the thread, one for the counter.
 */
#include "bpf.h"
#include "exits.h"
#include "marks.h"
#include "tracepoint.h"
#include "told.h"
#include "expire.h"

char _license[] SEC("license") = "GPL";

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 cpuid_function_at, cpuid_index_at;
const volatile __u32 tick_what_at;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VMS);
	__type(key, __u32);
	__type(value, __u32);
} vm_of_tgid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_VMS);
	__type(key, __u32);
	__type(value, struct vm);
} vms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_WINDOWS);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COUNTS);
	__type(key, struct key);
	__type(value, __u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline struct thread *this_thread(void)
{
	__u32 pid = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &pid);
}

static __always_inline struct thread *open_exit(void)
{
	struct thread *thread = this_thread();

	return thread && (thread->window || thread->early) ? thread : 0;
}

static __always_inline __u64 *slot(__u32 index)
{
	return bpf_map_lookup_elem(&state, &index);
}

static __always_inline void bump(__u32 index)
{
	__u64 *value = slot(index);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline void count(const struct key *key)
{
	__u64 one = 1, *value = bpf_map_lookup_elem(&counts, key);

	/* Only the vCPU's own thread counts under this key: no atomic needed. */
	if (value)
		*value += 1;
	else if (bpf_map_update_elem(&counts, key, &one, BPF_NOEXIST))
		bump(STATE_LOST);
}

/* The thread's last exit has met all that could tell its cause. */
static __always_inline void settle(const struct thread *thread)
{
	struct key key = {
		.window = thread->window,
		.vcpu = thread->vcpu,
		.reason = thread->reason,
		.facts = thread->facts,
		.detail = thread->detail,
	};

	count(&key);
}

static __noinline int vm_index(__u32 tgid)
{
	__u32 *known = bpf_map_lookup_elem(&vm_of_tgid, &tgid);
	struct vm vm = { .tgid = tgid };
	__u64 *next;
	__u32 index;

	if (known)
		return *known;
	next = slot(STATE_VMS);
	if (!next)
		return -1;
	index = __sync_fetch_and_add(next, 1);
	if (index >= MAX_VMS)
		return -1;
	if (!bpf_map_update_elem(&vm_of_tgid, &tgid, &index, BPF_NOEXIST)) {
		bpf_map_update_elem(&vms, &index, &vm, BPF_ANY);
		return index;
	}
	/* Another vCPU of the guest was faster: its slot is the guest's. */
	known = bpf_map_lookup_elem(&vm_of_tgid, &tgid);
	return known ? (int)*known : -1;
}

/* A vCPU thread's first exit, or one of a new thread with an old number. */
static __always_inline struct thread *meet(void *ctx, __u32 pid, __u32 tgid)
{
	struct thread fresh = { .tgid = tgid };
	int vm = vm_index(tgid);

	if (vm < 0)
		return 0;
	fresh.vm = vm;
	fresh.vcpu = field_u32(ctx, exit_vcpu_at);
	fresh.isa = field_u32(ctx, exit_isa_at);
	if (bpf_map_update_elem(&threads, &pid, &fresh, BPF_ANY))
		return 0;
	return bpf_map_lookup_elem(&threads, &pid);
}

SEC("tracepoint/kvm/kvm_exit")
int kvm_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id, tgid = id >> 32, open;
	struct thread *thread = bpf_map_lookup_elem(&threads, &pid);
	struct vm *vm;

	if (thread) {
		/* From here on a handler that interrupts this one settles nothing. */
		*(volatile __u32 *)&thread->in_guest = 0;
		if (*(volatile __u32 *)&thread->window)
			settle(thread);
	}
	if (!thread || thread->tgid != tgid)
		thread = meet(ctx, pid, tgid);
	if (!thread) {
		bump(STATE_LOST);
		return RECORD_TOO;
	}
	vm = bpf_map_lookup_elem(&vms, &thread->vm);
	if (!vm)
		return RECORD_TOO;
	open = load_flag(MARK_SEEN, &vm->open);
	thread->window = open;
	if (open && tells_late)
		note_late_exit(thread, field_u32(ctx, exit_reason_at), ctx, thread->early);
	else if (open)
		note_exit(thread, field_u32(ctx, exit_reason_at), ctx);
	thread->early = 0;
	return RECORD_TOO;
}

/* Attached only where KVM may tell late: a hook more is part of what is measured. */
SEC("raw_tracepoint/kvm_entry")
int kvm_entry(void *ctx)
{
	struct thread *thread = this_thread();

	if (thread) {
		thread->in_guest = 1;
		/* What nobody tells of was no exit. */
		thread->early = 0;
	}
	return 0;
}

/* As begin_early() of away.h: the handler is of an exit that was not told yet. */
static __always_inline void leave_untold(void)
{
	struct thread *thread = this_thread();

	if (!thread || !thread->in_guest)
		return;
	if (thread->window)
		settle(thread);
	thread->window = 0;
	begin_untold(thread);
	thread->in_guest = 0;
	thread->early = 1;
}

static __always_inline void open_window(struct vm *vm, __u32 id)
{
	__u64 *next = slot(STATE_WINDOWS);
	struct window *window;
	__u32 sequence, index;

	if (!next)
		return;
	/* Sequence numbers start at 1: 0 means that no window is open. */
	sequence = __sync_fetch_and_add(next, 1) + 1;
	index = sequence % MAX_WINDOWS;
	window = bpf_map_lookup_elem(&windows, &index);
	if (!window)
		return;
	window->sequence = sequence;
	window->tgid = vm->tgid;
	window->id = id;
	window->closed_ns = 0;
	window->opened_ns = bpf_ktime_get_ns();
	store_flag(MARK_OPEN, &vm->open, sequence);
}

static __always_inline void close_window(struct vm *vm, __u32 id)
{
	__u32 index = vm->open % MAX_WINDOWS, none = 0;
	struct window *window = bpf_map_lookup_elem(&windows, &index);

	if (!vm->open || !window || window->id != id) {
		bump(STATE_STRAY);
		return;
	}
	store_flag(MARK_CLOSE, &vm->open, none);
	window->closed_ns = bpf_ktime_get_ns();
}

/*
 * Of every guest that may run.  The emulator's window is from the last of them
 * to open to the first to close: exact where the vCPUs of all guests share the
 * marking vCPU's pCPU, or sleep meanwhile.
 */
static __noinline int mark_all(__u32 what, __u32 id)
{
	__u64 *oldest = slot(STATE_OLDEST), *next = slot(STATE_VMS);
	__u32 index, end;
	struct vm *vm;

	if (!oldest || !next)
		return 0;
	end = *next;
	if (end > *oldest + MAX_TOGETHER)
		bump(STATE_LOST);
	for (__u32 nth = 0; nth < MAX_TOGETHER; nth++) {
		index = *oldest + nth;
		if (index >= end)
			break;
		vm = bpf_map_lookup_elem(&vms, &index);
		if (!vm)
			break;
		if (what == MARKER_OPEN_ALL)
			open_window(vm, id);
		else
			close_window(vm, id);
	}
	return 0;
}

SEC("tracepoint/kvm/kvm_cpuid")
int kvm_cpuid(void *ctx)
{
	struct thread *thread;
	struct vm *vm;
	__u32 index, what;

	if (field_u32(ctx, cpuid_function_at) != MARKER_LEAF)
		return RECORD_TOO;
	index = field_u32(ctx, cpuid_index_at);
	thread = this_thread();
	if (!thread)
		return RECORD_TOO;
	vm = bpf_map_lookup_elem(&vms, &thread->vm);
	if (!vm)
		return RECORD_TOO;
	what = index & 0xff;
	if (what == MARKER_OPEN)
		open_window(vm, index >> 8);
	else if (what == MARKER_CLOSE)
		close_window(vm, index >> 8);
	else if (what == MARKER_OPEN_ALL || what == MARKER_CLOSE_ALL)
		mark_all(what, index >> 8);
	else
		bump(STATE_STRAY);
	/* The closing marker's own exit does not count. */
	if (!vm->open)
		thread->window = 0;
	return RECORD_TOO;
}

static __always_inline int handler(__u32 fact)
{
	struct thread *thread;

	if (tells_late)
		leave_untold();
	thread = open_exit();
	if (thread)
		note_handler(thread, fact);
	return 0;
}

SEC("raw_tracepoint/local_timer_entry")
int local_timer_entry(void *ctx)
{
	return handler(FACT_TIMER);
}

SEC("raw_tracepoint/reschedule_entry")
int reschedule_entry(void *ctx)
{
	return handler(FACT_IPI);
}

SEC("raw_tracepoint/call_function_entry")
int call_function_entry(void *ctx)
{
	return handler(FACT_IPI);
}

SEC("raw_tracepoint/call_function_single_entry")
int call_function_single_entry(void *ctx)
{
	return handler(FACT_IPI);
}

SEC("raw_tracepoint/irq_work_entry")
int irq_work_entry(void *ctx)
{
	return handler(FACT_IPI);
}

SEC("raw_tracepoint/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	return handler(FACT_DEVICE);
}

/* On kernels with the series: one event per decision about a virtual tick. */
SEC("tracepoint/kvm/kvm_pv_tick")
int kvm_pv_tick(void *ctx)
{
	struct thread *thread = this_thread();
	struct key key = { .facts = FACT_TICK };
	struct vm *vm;

	if (!thread)
		return RECORD_TOO;
	vm = bpf_map_lookup_elem(&vms, &thread->vm);
	if (!vm || !vm->open)
		return RECORD_TOO;
	key.window = vm->open;
	key.vcpu = thread->vcpu;
	key.reason = field_u32(ctx, tick_what_at);
	count(&key);
	return RECORD_TOO;
}
