// SPDX-License-Identifier: GPL-2.0-only
/*
 * One record for each gap that osnoise finds in its sampling, and for each
 * interrupt, softirq and thread that it knows to have disturbed it. The latter
 * come first: the kernel tells them as they end.
 */
#include "bpf.h"
#include "osnoise.h"
#include "tracepoint.h"

#define SAMPLER "osnoise/"
#include "gaps.h"

char _license[] SEC("license") = "GPL";

/* Field offsets of this kernel, written by the loader. */
const volatile __u32 thread_comm_at, thread_pid_at, thread_start_at, thread_duration_at;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, OSNOISE_PARTS_RING);
} parts SEC(".maps");

/* Its arguments are start, duration, interference. */
SEC("raw_tracepoint/sample_threshold")
int sample_threshold(__u64 *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_GAP,
		.start_ns = ctx[0],
		.ns = ctx[1],
		.number = ctx[2],
	};

	return tell(&noise);
}

/* It comes right after the one above. Its argument is a struct like ours. */
SEC("raw_tracepoint/sample_parts")
int sample_parts(__u64 *ctx)
{
	struct parts split = {};

	bpf_probe_read_kernel(&split, __builtin_offsetof(struct parts, cpu), (void *)ctx[0]);
	split.cpu = bpf_get_smp_processor_id();
	return output(&parts, &split, sizeof(split));
}

/* Its arguments are start, duration. */
SEC("raw_tracepoint/nmi_noise")
int nmi_noise(__u64 *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_NMI,
		.start_ns = ctx[0],
		.ns = ctx[1],
	};

	return tell(&noise);
}

/* Its arguments are vector, desc, start, duration. */
SEC("raw_tracepoint/irq_noise")
int irq_noise(__u64 *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_IRQ,
		.number = ctx[0],
		.start_ns = ctx[2],
		.ns = ctx[3],
	};

	bpf_probe_read_kernel(&noise.name_low, 16, (void *)ctx[1]);
	return tell(&noise);
}

/* Its arguments are vector, start, duration. */
SEC("raw_tracepoint/softirq_noise")
int softirq_noise(__u64 *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_SOFTIRQ,
		.number = ctx[0],
		.start_ns = ctx[1],
		.ns = ctx[2],
	};

	return tell(&noise);
}

SEC("tracepoint/osnoise/thread_noise")
int thread_noise(void *ctx)
{
	struct noise noise = {
		.kind = OSNOISE_THREAD,
		.number = field_u32(ctx, thread_pid_at),
		.start_ns = field_u64(ctx, thread_start_at),
		.ns = field_u64(ctx, thread_duration_at),
		.name_low = field_u64(ctx, thread_comm_at),
		.name_high = field_u64(ctx, thread_comm_at + 8),
	};

	tell(&noise);
	return RECORD_TOO;
}
