// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what guests cost each pCPU of this host while a window of all guests
 * is open: interrupts by kind, expired timers of vCPUs, and how often it left
 * idle.
 */
#include "bpf.h"
#include "exits.h"
#include "pcpus.h"
#include "tracepoint.h"
#include "which.h"

char _license[] SEC("license") = "GPL";

/* Of cpu_idle, where a CPU leaves idle (include/trace/events/power.h). */
#define PWR_EVENT_EXIT	0xffffffff

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 cpuid_function_at, cpuid_index_at;
const volatile __u32 hrtimer_function_at;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PCPUS * PCPU_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PCPU_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline __u64 *slot(__u32 index)
{
	return bpf_map_lookup_elem(&state, &index);
}

static __always_inline int count(__u32 what)
{
	__u64 *open = slot(PCPU_OPEN), *value;
	__u32 index;

	if (!open || !*open)
		return 0;
	index = bpf_get_smp_processor_id() * PCPU_COUNTS + what;
	value = bpf_map_lookup_elem(&counts, &index);
	/* Only this CPU writes here, and none of these interrupts another. */
	if (value)
		*value += 1;
	return 0;
}

static __always_inline void mark(__u32 at, __u64 open)
{
	__u64 *flag = slot(PCPU_OPEN), *time = slot(at);

	if (!flag || !time)
		return;
	*time = bpf_ktime_get_ns();
	*flag = open;
}

/* Its arguments are state, cpu_id. */
SEC("raw_tracepoint/cpu_idle")
int cpu_idle(__u64 *ctx)
{
	return (__u32)ctx[0] == PWR_EVENT_EXIT ? count(PCPU_WAKE_UPS) : 0;
}

SEC("raw_tracepoint/local_timer_entry")
int local_timer_entry(void *ctx)
{
	return count(PCPU_LOCAL_TIMER);
}

SEC("raw_tracepoint/reschedule_entry")
int reschedule_entry(void *ctx)
{
	return count(PCPU_RESCHEDULE);
}

SEC("raw_tracepoint/call_function_entry")
int call_function_entry(void *ctx)
{
	return count(PCPU_CALL_FUNCTION);
}

SEC("raw_tracepoint/call_function_single_entry")
int call_function_single_entry(void *ctx)
{
	return count(PCPU_CALL_FUNCTION_SINGLE);
}

SEC("raw_tracepoint/irq_work_entry")
int irq_work_entry(void *ctx)
{
	return count(PCPU_IRQ_WORK);
}

SEC("raw_tracepoint/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	return count(PCPU_DEVICE);
}

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	__u64 function = field_u64(ctx, hrtimer_function_at);

	if (is_vcpu_timer(which_timer(function)))
		count(PCPU_VCPU_TIMERS);
	return RECORD_TOO;
}

SEC("tracepoint/kvm/kvm_cpuid")
int kvm_cpuid(void *ctx)
{
	__u32 what = field_u32(ctx, cpuid_index_at) & 0xff;

	if (field_u32(ctx, cpuid_function_at) != MARKER_LEAF)
		return RECORD_TOO;
	if (what == MARKER_OPEN_ALL)
		mark(PCPU_OPENED_NS, 1);
	else if (what == MARKER_CLOSE_ALL)
		mark(PCPU_CLOSED_NS, 0);
	return RECORD_TOO;
}
