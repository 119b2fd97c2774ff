/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every recording of gaps has: its records, and what no kernel tells apart
 * from an interrupt. Whoever includes it says in SAMPLER how the names of the
 * threads begin that sample, in 8 bytes.
 */
#ifndef PARATICK_GAPS_H
#define PARATICK_GAPS_H

#include "bpf.h"
#include "osnoise.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, OSNOISE_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OSNOISE_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

/* When this CPU began to stop or to start its tick. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tick SEC(".maps");

static __always_inline int output(void *ring, void *record, __u64 size)
{
	__u32 slot = OSNOISE_LOST;
	__u64 *lost;

	if (!bpf_ringbuf_output(ring, record, size, BPF_RB_NO_WAKEUP))
		return 0;
	lost = bpf_map_lookup_elem(&state, &slot);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

static __always_inline int tell(struct noise *noise)
{
	noise->told_ns = bpf_ktime_get_ns();
	noise->cpu = bpf_get_smp_processor_id();
	return output(&records, noise, sizeof(*noise));
}

static __always_inline int is_sampler(void)
{
	__u64 comm[2] = {};

	bpf_get_current_comm(comm, sizeof(comm));
	return comm[0] == *(const __u64 *)SAMPLER;
}

/* With nohz_full=, an interrupt is told before its CPU looks at its tick again. */
SEC("kprobe/tick_nohz_irq_exit")
int tick_nohz_irq_exit(void *ctx)
{
	__u32 slot = 0;
	__u64 *begun = bpf_map_lookup_elem(&tick, &slot);

	if (begun)
		*begun = is_sampler() ? bpf_ktime_get_ns() : 0;
	return 0;
}

SEC("kretprobe/tick_nohz_irq_exit")
int tick_nohz_irq_exit_ends(void *ctx)
{
	struct noise noise = { .kind = OSNOISE_TICK };
	__u32 slot = 0;
	__u64 *begun = bpf_map_lookup_elem(&tick, &slot);

	if (!begun || !*begun)
		return 0;
	noise.ns = bpf_ktime_get_ns() - *begun;
	*begun = 0;
	return tell(&noise);
}

/*
 * Each time that the scheduler looks for another thread to run, it tells RCU
 * first. If it finds none, no other tracepoint tells of it. The argument is a
 * text of kernel/rcu/, of which "Start context switch" is the only one that
 * begins so.
 */
SEC("raw_tracepoint/rcu_utilization")
int rcu_utilization(__u64 *ctx)
{
	struct noise noise = { .kind = OSNOISE_SCHED };
	__u64 text = 0;

	bpf_probe_read_kernel(&text, sizeof(text), (void *)ctx[0]);
	if (text != *(const __u64 *)"Start co" || !is_sampler())
		return 0;
	return tell(&noise);
}

/* TICK_DEFER_IRQ of include/linux/tick.h, with the series halt-until. */
#define DEFER_IRQ 2

static __always_inline int on_the_way_out(__u32 kind)
{
	struct noise noise = { .kind = kind };

	return is_sampler() ? tell(&noise) : 0;
}

/*
 * With virtual ticks, a CPU may look at its deadline on the way out of an
 * interrupt, and write it then. Its arguments are why, deadline.
 */
SEC("raw_tracepoint/tick_deadline_write")
int tick_deadline_write(__u64 *ctx)
{
	return (__u32)ctx[0] == DEFER_IRQ ? on_the_way_out(OSNOISE_DEADLINE) : 0;
}

/*
 * With PREEMPT_RT or threadirqs, an interrupt wakes threads on its way out, one
 * for softirqs among them. They may run much later.
 */
SEC("raw_tracepoint/sched_wakeup")
int sched_wakeup(void *ctx)
{
	return on_the_way_out(OSNOISE_WAKE);
}

#endif
