// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record each time that a timer expires for which a thread of timerlat
 * waits: when it was due, when the interrupt began in which it expires, and when
 * its turn came there. What the kernel's tracer measures then is in its own
 * trace; a program that waits instead tells when it ran.
 */
#include "bpf.h"
#include "timerlat.h"
#include "tracepoint.h"

char _license[] SEC("license") = "GPL";

/* Field offsets and addresses of this kernel, written by the loader. */
const volatile __u32 start_timer_at, start_function_at, start_expires_at;
const volatile __u32 expire_timer_at, expire_function_at;
/* What the timer calls. */
const volatile __u64 timer_fn;
/* Whether a program waits, and not the tracer. */
const volatile __u64 by_program;

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

static __always_inline void output(struct expiry *expiry)
{
	__u32 slot = TIMERLAT_LOST;
	__u64 *lost;

	if (!bpf_ringbuf_output(&records, expiry, sizeof(*expiry), BPF_RB_NO_WAKEUP))
		return;
	lost = bpf_map_lookup_elem(&state, &slot);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* The timer stays on the CPU on which it is started. */
SEC("tracepoint/timer/hrtimer_start")
int hrtimer_start(void *ctx)
{
	struct cpu *cpu;

	if (field_u64(ctx, start_function_at) != timer_fn)
		return RECORD_TOO;
	cpu = this_cpu();
	/* Every program that sleeps has a timer with this function. */
	if (!cpu || (by_program && cpu->waiter != bpf_get_current_pid_tgid()))
		return RECORD_TOO;
	cpu->timer = field_u64(ctx, start_timer_at);
	cpu->deadline_ns = field_u64(ctx, start_expires_at);
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct expiry expiry = {};
	struct cpu *cpu;

	if (field_u64(ctx, expire_function_at) != timer_fn)
		return RECORD_TOO;
	cpu = this_cpu();
	if (!cpu || cpu->timer != field_u64(ctx, expire_timer_at))
		return RECORD_TOO;
	cpu->timer = 0;
	expiry.deadline_ns = cpu->deadline_ns;
	expiry.expire_ns = now;
	expiry.irq_ns = cpu->irq_ns ? cpu->irq_ns : now;
	expiry.via = cpu->irq_ns ? cpu->via : VIA_OTHER;
	expiry.cpu = bpf_get_smp_processor_id();
	expiry.number = ++cpu->number;
	if (by_program)
		cpu->expired = expiry;
	else
		output(&expiry);
	return RECORD_TOO;
}

/*
 * Nothing calls these two but a program that waits, by BPF_PROG_TEST_RUN: once,
 * so that its timer is known, …
 */
SEC("raw_tracepoint/waits")
int waits(void *ctx)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->waiter = bpf_get_current_pid_tgid();
	return 0;
}

/* … and each time that it has run. Its arguments are deadline, when it ran. */
SEC("raw_tracepoint/ran")
int ran(__u64 *ctx)
{
	struct expiry expiry = { .deadline_ns = ctx[0] };
	struct cpu *cpu = this_cpu();

	if (cpu && cpu->expired.deadline_ns == ctx[0])
		expiry = cpu->expired;
	else
		expiry.cpu = bpf_get_smp_processor_id();
	expiry.thread_ns = ctx[1];
	output(&expiry);
	return 0;
}
