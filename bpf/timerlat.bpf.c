// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record each time that the timer of the kernel's timerlat tracer expires:
 * when it was due, when the interrupt began in which it expires, and when its
 * turn came there. What timerlat measures then is in its own trace.
 */
#include "bpf.h"
#include "timerlat.h"
#include "tracepoint.h"

char _license[] SEC("license") = "GPL";

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 start_function_at, start_expires_at, expire_function_at;
const volatile __u64 timerlat_fn;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMERLAT_CPUS);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TIMERLAT_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMERLAT_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline int interrupt(__u64 via)
{
	__u64 now = bpf_ktime_get_ns();
	struct cpu *cpu = this_cpu();

	if (cpu) {
		cpu->irq_ns = now;
		cpu->via = via;
	}
	return 0;
}

static __always_inline int interrupt_ends(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->irq_ns = 0;
	return 0;
}

SEC("raw_tracepoint/local_timer_entry")
int local_timer_entry(void *ctx)
{
	return interrupt(VIA_TIMER);
}

SEC("raw_tracepoint/local_timer_exit")
int local_timer_exit(void *ctx)
{
	return interrupt_ends();
}

SEC("raw_tracepoint/virtual_tick_entry")
int virtual_tick_entry(void *ctx)
{
	return interrupt(VIA_TICK);
}

SEC("raw_tracepoint/virtual_tick_exit")
int virtual_tick_exit(void *ctx)
{
	return interrupt_ends();
}

/* The timer stays on the CPU on which it is started. */
SEC("tracepoint/timer/hrtimer_start")
int hrtimer_start(void *ctx)
{
	struct cpu *cpu;

	if (field_u64(ctx, start_function_at) != timerlat_fn)
		return RECORD_TOO;
	cpu = this_cpu();
	if (cpu)
		cpu->deadline_ns = field_u64(ctx, start_expires_at);
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), *lost;
	__u32 slot = TIMERLAT_LOST;
	struct expiry expiry = {};
	struct cpu *cpu;

	if (field_u64(ctx, expire_function_at) != timerlat_fn)
		return RECORD_TOO;
	cpu = this_cpu();
	if (!cpu)
		return RECORD_TOO;
	expiry.deadline_ns = cpu->deadline_ns;
	expiry.expire_ns = now;
	expiry.irq_ns = cpu->irq_ns ? cpu->irq_ns : now;
	expiry.via = cpu->irq_ns ? cpu->via : VIA_OTHER;
	expiry.cpu = bpf_get_smp_processor_id();
	expiry.number = ++cpu->number;
	if (!bpf_ringbuf_output(&records, &expiry, sizeof(expiry), BPF_RB_NO_WAKEUP))
		return RECORD_TOO;
	lost = bpf_map_lookup_elem(&state, &slot);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return RECORD_TOO;
}
