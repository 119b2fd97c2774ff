// SPDX-License-Identifier: GPL-2.0-only
/*
 * The same records as of osnoise.bpf.c where a program samples: one for each
 * gap, which the program itself tells, and for each interrupt, softirq and
 * thread on its CPU, by tracepoints that every kernel has.
 */
#include "bpf.h"
#include "osnoise.h"
#include "tracepoint.h"

#define SAMPLER "sampler/"
#include "gaps.h"

char _license[] SEC("license") = "GPL";

/* Field offsets of this kernel, written by the loader. */
const volatile __u32 next_comm_at, next_pid_at, irq_name_at;
/* Variables of this kernel: KVM's clock of steal; 0 where it is not known. */
const volatile __u64 steal_time_at, cpu_offsets_at;

/* What began on a CPU, and has not ended. */
struct here {
	__u64 irq;
	__u64 softirq;
	__u64 thread;
	__u64 irq_name[2];
	__u64 comm[2];
	__u64 steal;
	__u32 pid;
	__u32 samples;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct here);
} here SEC(".maps");

/* None where nobody samples. */
static __always_inline struct here *this_cpu(void)
{
	__u32 slot = 0;
	struct here *cpu = bpf_map_lookup_elem(&here, &slot);

	return cpu && cpu->samples ? cpu : 0;
}

/* The beginning of struct kvm_steal_time (arch/x86/include/uapi/asm/kvm_para.h). */
struct steal {
	__u64 ns;
	__u32 version;
	__u32 flags;
};

/*
 * How long this CPU's vCPU could have run, and did not. The host counts the
 * version up as it writes.
 */
static __always_inline int stolen(__u64 *ns)
{
	__u64 cpu = bpf_get_smp_processor_id();
	struct steal steal = {};
	__u64 offset = 0;

	if (!steal_time_at || !cpu_offsets_at)
		return 0;
	bpf_probe_read_kernel(&offset, sizeof(offset), (void *)(cpu_offsets_at + 8 * cpu));
	bpf_probe_read_kernel(&steal, sizeof(steal), (void *)(steal_time_at + offset));
	*ns = steal.ns;
	return steal.version > 0;
}

/*
 * Nothing calls it but the program that samples, by BPF_PROG_TEST_RUN. Its
 * arguments are start, duration, and how long it took to tell of the last one.
 */
SEC("raw_tracepoint/sampled")
int sampled(__u64 *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_GAP,
		.start_ns = ctx[0],
		.ns = ctx[1],
		.name_high = ctx[2],
	};
	__u32 slot = 0;
	struct here *cpu = bpf_map_lookup_elem(&here, &slot);
	__u64 now = 0;

	if (cpu && stolen(&now)) {
		/* The first is no difference. */
		noise.name_low = cpu->steal ? now + 1 - cpu->steal + 1 : 1;
		cpu->steal = now + 1;
	}
	return tell(&noise);
}

static __always_inline void begins(__u64 *begun)
{
	*begun = bpf_ktime_get_ns();
}

static __always_inline int ends(__u64 *begun, struct noise *noise)
{
	if (!*begun)
		return 0;
	noise->start_ns = *begun;
	noise->ns = bpf_ktime_get_ns() - *begun;
	*begun = 0;
	return tell(noise);
}

/* A name of 16 bytes, or fewer and zeros. */
#define NAME_LOW(name) (*(const __u64 *)(name "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"))
#define NAME_HIGH(name) (*(const __u64 *)((name "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0") + 8))

#define INTERRUPT(event, name)						\
	SEC("raw_tracepoint/" #event "_entry")				\
	int event##_entry(void *ctx)					\
	{								\
		struct here *cpu = this_cpu();				\
									\
		if (cpu)						\
			begins(&cpu->irq);				\
		return 0;						\
	}								\
									\
	SEC("raw_tracepoint/" #event "_exit")				\
	int event##_exit(void *ctx)					\
	{								\
		struct here *cpu = this_cpu();				\
		struct noise noise = {					\
			.kind = OSNOISE_IRQ,				\
			.name_low = NAME_LOW(name),			\
			.name_high = NAME_HIGH(name),			\
		};							\
									\
		return cpu ? ends(&cpu->irq, &noise) : 0;		\
	}

/* As osnoise names them (arch/x86/kernel/trace.c). */
INTERRUPT(local_timer, "local_timer")
INTERRUPT(reschedule, "reschedule")
INTERRUPT(call_function, "call_function")
INTERRUPT(call_function_single, "call_function_single")
INTERRUPT(irq_work, "irq_work")
INTERRUPT(x86_platform_ipi, "x86_platform_ipi")
INTERRUPT(thermal_apic, "thermal_apic")
INTERRUPT(threshold_apic, "threshold_apic")
INTERRUPT(deferred_error_apic, "deferred_error")
INTERRUPT(error_apic, "error_apic")
INTERRUPT(spurious_apic, "spurious_apic")
INTERRUPT(virtual_tick, "virtual_tick")
INTERRUPT(kvm_asyncpf, "kvm_asyncpf")

SEC("tracepoint/irq/irq_handler_entry")
int irq_handler_entry(void *ctx)
{
	struct here *cpu = this_cpu();
	__u64 name[2] = {};

	if (!cpu)
		return RECORD_TOO;
	/* The low half of a __data_loc is where the text begins. */
	bpf_probe_read_kernel(name, sizeof(name), ctx + (field_u32(ctx, irq_name_at) & 0xffff));
	cpu->irq_name[0] = name[0];
	cpu->irq_name[1] = name[1];
	begins(&cpu->irq);
	return RECORD_TOO;
}

/* Its first argument is the number. */
SEC("raw_tracepoint/irq_handler_exit")
int irq_handler_exit(__u64 *ctx)
{
	struct here *cpu = this_cpu();
	struct noise noise = { .kind = OSNOISE_IRQ, .number = ctx[0] };

	if (!cpu)
		return 0;
	noise.name_low = cpu->irq_name[0];
	noise.name_high = cpu->irq_name[1];
	return ends(&cpu->irq, &noise);
}

SEC("raw_tracepoint/softirq_entry")
int softirq_entry(void *ctx)
{
	struct here *cpu = this_cpu();

	if (cpu)
		begins(&cpu->softirq);
	return 0;
}

/* Its argument is the softirq's number. */
SEC("raw_tracepoint/softirq_exit")
int softirq_exit(__u64 *ctx)
{
	struct here *cpu = this_cpu();
	struct noise noise = { .kind = OSNOISE_SOFTIRQ, .number = ctx[0] };

	return cpu ? ends(&cpu->softirq, &noise) : 0;
}

/* One of the handlers of an NMI has ended. Its arguments are handler, duration, handled. */
SEC("raw_tracepoint/nmi_handler")
int nmi_handler(__u64 *ctx)
{
	struct here *cpu = this_cpu();
	struct noise noise = { .kind = OSNOISE_NMI, .ns = ctx[1] };

	if (!cpu)
		return 0;
	noise.start_ns = bpf_ktime_get_ns() - ctx[1];
	return tell(&noise);
}

/* From the switch away from the program that samples to the one back to it. */
SEC("tracepoint/sched/sched_switch")
int sched_switch(void *ctx)
{
	struct noise noise = { .kind = OSNOISE_THREAD };
	__u32 slot = 0;
	struct here *cpu = bpf_map_lookup_elem(&here, &slot);

	if (!cpu)
		return RECORD_TOO;
	noise.number = cpu->pid;
	noise.name_low = cpu->comm[0];
	noise.name_high = cpu->comm[1];
	ends(&cpu->thread, &noise);
	if (field_u64(ctx, next_comm_at) == *(const __u64 *)SAMPLER) {
		cpu->samples = 1;
	} else if (cpu->samples) {
		cpu->pid = field_u32(ctx, next_pid_at);
		cpu->comm[0] = field_u64(ctx, next_comm_at);
		cpu->comm[1] = field_u64(ctx, next_comm_at + 8);
		begins(&cpu->thread);
	}
	return RECORD_TOO;
}
