// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record for every idle state that a CPU of this guest enters: to poll, or
 * to halt. It is complete when the CPU enters the next one: by then cpuidle has
 * measured it, and the governor haltpoll has drawn its conclusions.
 */
#include "bpf.h"
#include "polls.h"

char _license[] SEC("license") = "GPL";

/* power:cpu_idle says this state when one is left. */
#define STATE_EXIT	0xffffffffu

/*
 * The beginning of struct cpuidle_device (include/linux/cpuidle.h), from 5.7 on
 * at least to 6.12.
 */
struct device {
	__u32 bits;		/* registered, enabled, poll_time_limit */
	__u32 cpu;
	__u64 next_hrtimer;
	__u64 last_state_idx;	/* with padding */
	__u64 last_residency_ns;
	__u64 poll_limit_ns;
};
#define POLL_TIME_LIMIT	(1u << 2)

/* The first argument's place in struct pt_regs (arch/x86/include/asm/ptrace.h), in words. */
#define REGS_DI		14

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POLL_CPUS);
	__type(key, __u32);
	__type(value, struct idling);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, POLL_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POLL_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

static __always_inline void count(__u32 slot)
{
	__u64 *value = bpf_map_lookup_elem(&state, &slot);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline struct idling *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline void tell(struct idling *idling)
{
	if (bpf_ringbuf_output(&records, idling, sizeof(*idling), BPF_RB_NO_WAKEUP))
		count(POLL_LOST);
}

/* Its arguments are state, cpu_id. */
SEC("raw_tracepoint/cpu_idle")
int cpu_idle(__u64 *ctx)
{
	struct idling *idling = this_cpu();
	__u32 at_state = ctx[0];
	__u32 cpu = ctx[1];

	if (!idling) {
		count(POLL_LOST);
		return 0;
	}
	if (at_state == STATE_EXIT) {
		/* One that began before the recording has no beginning, and no end. */
		if (idling->began_ns)
			idling->ended_ns = bpf_ktime_get_ns();
		return 0;
	}
	if (idling->ended_ns)
		tell(idling);
	*idling = (struct idling){
		.began_ns = bpf_ktime_get_ns(),
		.cpu = cpu,
		.state = at_state,
	};
	return 0;
}

/*
 * Its arguments are the CPU's struct cpuidle_device and the state that was left.
 * The limit is the one that was in force: it is changed only now.
 */
SEC("kprobe/haltpoll_reflect")
int haltpoll_reflect(__u64 *regs)
{
	struct idling *idling = this_cpu();
	struct device device = {};

	if (!idling || !idling->ended_ns)
		return 0;
	if (bpf_probe_read_kernel(&device, sizeof(device), (void *)regs[REGS_DI]) ||
	    device.cpu != idling->cpu) {
		count(POLL_STRANGE);
		return 0;
	}
	idling->flags |= IDLE_MEASURED;
	if (device.bits & POLL_TIME_LIMIT)
		idling->flags |= IDLE_TIMED_OUT;
	idling->residency_ns = device.last_residency_ns;
	idling->limit_ns = device.poll_limit_ns;
	idling->deadline_ns = device.next_hrtimer;
	return 0;
}

/* Its arguments are grow, new, old; the governor says it after the state was left. */
SEC("raw_tracepoint/guest_halt_poll_ns")
int guest_halt_poll_ns(__u64 *ctx)
{
	struct idling *idling = this_cpu();

	if (idling && idling->ended_ns) {
		idling->new = ctx[1];
		idling->old = ctx[2];
		idling->flags |= IDLE_CHANGED;
	}
	return 0;
}

SEC("raw_tracepoint/sched_switch")
int sched_switch(void *ctx)
{
	struct idling *idling = this_cpu();

	if (idling)
		idling->ran = 1;
	return 0;
}

/* What comes while the CPU is in an idle state ends it. */
static __always_inline int interrupt(__u32 vector)
{
	struct idling *idling = this_cpu();

	if (idling && idling->began_ns && !idling->ended_ns && !idling->vector)
		idling->vector = vector;
	return 0;
}

/* The first argument of each is the vector. */
#define VECTOR(event)				\
	SEC("raw_tracepoint/" #event)		\
	int event(__u64 *ctx)			\
	{					\
		return interrupt(ctx[0]);	\
	}

VECTOR(local_timer_entry)
VECTOR(reschedule_entry)
VECTOR(call_function_entry)
VECTOR(call_function_single_entry)
VECTOR(virtual_tick_entry)

/* Of a device, whichever. */
SEC("raw_tracepoint/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	return interrupt(DEVICE_VECTOR);
}
