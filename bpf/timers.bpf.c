// SPDX-License-Identifier: GPL-2.0-only
/*
 * What wakes the CPUs of this system: one record for each interrupt, each timer
 * that expires, each work that is queued and each task that is woken, and for
 * each time that a CPU becomes idle. A timer's expiry tells who started it,
 * which the kernel does not keep.
 */
#include "bpf.h"
#include "timers.h"
#include "tracepoint.h"

char _license[] SEC("license") = "GPL";

/* Field offsets of this kernel, written by the loader. */
const volatile __u32 start_timer_at, start_expires_at, start_flags_at, start_now_at;
/* 0 where the kernel does not tell. */
const volatile __u32 start_bucket_at;
const volatile __u32 expire_timer_at, expire_function_at, expire_now_at;
const volatile __u32 hrstart_timer_at, hrstart_expires_at, hrstart_soft_at;
const volatile __u32 hrexpire_timer_at, hrexpire_function_at, hrexpire_now_at;
const volatile __u32 work_function_at, idle_state_at, irq_number_at, irq_name_at;
const volatile __u32 prev_pid_at, next_pid_at, next_comm_at, waking_pid_at, ipi_cpu_at;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TIMERS_RING);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMERS_STATE_SIZE);
	__type(key, __u32);
	__type(value, __u64);
} state SEC(".maps");

/* By the timer's address; the oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TIMERS_ARMED);
	__type(key, __u64);
	__type(value, struct armed);
} armed SEC(".maps");

/* Who called whom when a timer was started: return addresses. */
struct calls {
	__u64 from[TIMERS_CALLS];
};

/* The kernel keeps each stack once. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, TIMERS_STACKS);
	__type(key, __u32);
	__type(value, struct calls);
} stacks SEC(".maps");

/* The timer of the wheel, and the other one, that expires on each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * TIMERS_CPUS);
	__type(key, __u32);
	__type(value, __u64);
} expiring SEC(".maps");

static __always_inline int tell(struct wake *wake)
{
	__u32 slot = TIMERS_LOST;
	__u64 *lost;

	wake->at_ns = bpf_ktime_get_ns();
	wake->cpu = bpf_get_smp_processor_id();
	if (!bpf_ringbuf_output(&records, wake, sizeof(*wake), BPF_RB_NO_WAKEUP))
		return 0;
	lost = bpf_map_lookup_elem(&state, &slot);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

static __always_inline void name_current(__u64 *low, __u64 *high)
{
	__u64 name[2] = {};

	bpf_get_current_comm(name, sizeof(name));
	*low = name[0];
	*high = name[1];
}

static __always_inline __u64 *this_expiring(int wheel)
{
	__u32 slot = 2 * bpf_get_smp_processor_id() + wheel;

	return bpf_map_lookup_elem(&expiring, &slot);
}

/*
 * A timer that its own callback starts again belongs to who started it first:
 * the task that runs there has nothing to do with it.
 */
static __always_inline int start(void *ctx, __u64 timer, int wheel, struct armed *now)
{
	struct armed *before = bpf_map_lookup_elem(&armed, &timer);
	__u64 *in = this_expiring(wheel);
	long stack;

	if (in && *in == timer) {
		now->pid = before ? before->pid : 0;
		now->name_low = before ? before->name_low : 0;
		now->name_high = before ? before->name_high : 0;
	} else {
		now->pid = bpf_get_current_pid_tgid() >> 32;
		name_current(&now->name_low, &now->name_high);
	}
	if (in && *in == timer && before) {
		now->stack = before->stack;
	} else {
		stack = bpf_get_stackid(ctx, &stacks, 0);
		now->stack = stack < 0 ? 0 : stack + 1;
	}
	bpf_map_update_elem(&armed, &timer, now, BPF_ANY);
	return 0;
}

static __always_inline int expires(__u64 timer, int wheel, struct wake *wake)
{
	struct armed *started = bpf_map_lookup_elem(&armed, &timer);
	__u64 *in = this_expiring(wheel);

	if (in)
		*in = timer;
	wake->timer = timer;
	if (started) {
		wake->known = 1;
		wake->pid = started->pid;
		wake->name_low = started->name_low;
		wake->name_high = started->name_high;
		wake->slack_ns = started->slack_ns;
		wake->expires = started->expires;
		wake->bucket = started->bucket;
		wake->flags = started->flags;
		wake->stack = started->stack;
	}
	return tell(wake);
}

static __always_inline int expired(int wheel)
{
	__u64 *in = this_expiring(wheel);

	if (in)
		*in = 0;
	return 0;
}

/* One that sleeps takes an interrupt, if nothing of its own is due before. */
static __always_inline int set_elsewhere(void *ctx, const struct armed *timer)
{
	struct wake wake = {
		.kind = WAKE_SET,
		.flags = timer->flags,
		.expires = timer->expires,
		.bucket = timer->bucket,
		.now = field_u64(ctx, start_now_at),
	};

	return timer->flags & WHEEL_DEFERRABLE ? 0 : tell(&wake);
}

SEC("tracepoint/timer/timer_start")
int timer_start(void *ctx)
{
	struct armed now = {
		.expires = field_u64(ctx, start_expires_at),
		.flags = field_u32(ctx, start_flags_at),
		.bucket = start_bucket_at ? field_u64(ctx, start_bucket_at) : 0,
	};

	start(ctx, field_u64(ctx, start_timer_at), 1, &now);
	if ((now.flags & WHEEL_CPU) != bpf_get_smp_processor_id())
		set_elsewhere(ctx, &now);
	return RECORD_TOO;
}

SEC("tracepoint/timer/timer_expire_entry")
int timer_expire_entry(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_WHEEL,
		.function = field_u64(ctx, expire_function_at),
		.now = field_u64(ctx, expire_now_at),
	};

	expires(field_u64(ctx, expire_timer_at), 1, &wake);
	return RECORD_TOO;
}

SEC("raw_tracepoint/timer_expire_exit")
int timer_expire_exit(void *ctx)
{
	return expired(1);
}

SEC("tracepoint/timer/hrtimer_start")
int hrtimer_start(void *ctx)
{
	struct armed now = {
		.slack_ns = field_u64(ctx, hrstart_expires_at) - field_u64(ctx, hrstart_soft_at),
		.expires = field_u64(ctx, hrstart_soft_at),
	};

	start(ctx, field_u64(ctx, hrstart_timer_at), 0, &now);
	return RECORD_TOO;
}

SEC("tracepoint/timer/hrtimer_expire_entry")
int hrtimer_expire_entry(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_HRTIMER,
		.function = field_u64(ctx, hrexpire_function_at),
		.now = field_u64(ctx, hrexpire_now_at),
	};

	expires(field_u64(ctx, hrexpire_timer_at), 0, &wake);
	return RECORD_TOO;
}

SEC("raw_tracepoint/hrtimer_expire_exit")
int hrtimer_expire_exit(void *ctx)
{
	return expired(0);
}

SEC("tracepoint/workqueue/workqueue_queue_work")
int workqueue_queue_work(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_WORK,
		.function = field_u64(ctx, work_function_at),
	};

	tell(&wake);
	return RECORD_TOO;
}

/* A state of -1 ends it. */
SEC("tracepoint/power/cpu_idle")
int cpu_idle(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_IDLE,
		.number = field_u32(ctx, idle_state_at),
	};

	if (wake.number != ~0u)
		tell(&wake);
	return RECORD_TOO;
}

SEC("tracepoint/sched/sched_waking")
int sched_waking(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_WAKING,
		.number = field_u32(ctx, waking_pid_at),
	};

	name_current(&wake.name_low, &wake.name_high);
	tell(&wake);
	return RECORD_TOO;
}

SEC("tracepoint/sched/sched_switch")
int sched_switch(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_RUN,
		.number = field_u32(ctx, next_pid_at),
		.name_low = field_u64(ctx, next_comm_at),
		.name_high = field_u64(ctx, next_comm_at + 8),
	};

	if (!field_u32(ctx, prev_pid_at))
		tell(&wake);
	return RECORD_TOO;
}

SEC("tracepoint/ipi/ipi_send_cpu")
int ipi_send_cpu(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_IPI,
		.number = field_u32(ctx, ipi_cpu_at),
	};

	tell(&wake);
	return RECORD_TOO;
}

SEC("tracepoint/irq/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	struct wake wake = {
		.kind = WAKE_DEVICE,
		.number = field_u32(ctx, irq_number_at),
	};
	__u64 name[2] = {};

	/* The low half of a __data_loc is where the text begins. */
	bpf_probe_read_kernel(name, sizeof(name), ctx + (field_u32(ctx, irq_name_at) & 0xffff));
	wake.name_low = name[0];
	wake.name_high = name[1];
	tell(&wake);
	return RECORD_TOO;
}

#define INTERRUPT(event, which)						\
	SEC("raw_tracepoint/" #event "_entry")				\
	int event##_entry(void *ctx)					\
	{								\
		struct wake wake = { .kind = WAKE_IRQ, .number = which };	\
									\
		return tell(&wake);					\
	}

INTERRUPT(local_timer, WAKE_IRQ_TIMER)
INTERRUPT(reschedule, WAKE_IRQ_RESCHEDULE)
INTERRUPT(call_function, WAKE_IRQ_CALL)
INTERRUPT(call_function_single, WAKE_IRQ_CALL)
INTERRUPT(irq_work, WAKE_IRQ_WORK)
INTERRUPT(virtual_tick, WAKE_IRQ_TICK)
INTERRUPT(kvm_asyncpf, WAKE_IRQ_ASYNC_PF)
