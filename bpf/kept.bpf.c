// SPDX-License-Identifier: GPL-2.0-only
/*
 * What KVM keeps of a VM and no exit tells: why it may not use AVIC or APICv,
 * and whether the guest has asked for the page of kvm-clock.
 */
#include "bpf.h"
#include "kept.h"

char _license[] SEC("license") = "GPL";

/* The VM's. */
const volatile __u32 process;
/* In struct kvm_vcpu and struct kvm, by BTF. */
const volatile __u32 vcpu_kvm_at, kvm_inhibits_at, vcpu_clock_at;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kept);
} all SEC(".maps");

/* None in other processes. */
static __always_inline struct kept *its(void)
{
	__u32 slot = 0;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	return bpf_map_lookup_elem(&all, &slot);
}

/* Its first argument is the vCPU. Attached only where BTF tells the fields. */
SEC("raw_tracepoint/kvm_entry")
int kvm_entry(__u64 *ctx)
{
	struct kept *kept = its();
	__u64 vcpu = ctx[0], kvm, inhibits;
	__u8 has_clock;

	if (!kept ||
	    bpf_probe_read_kernel(&kvm, sizeof(kvm), (void *)(vcpu + vcpu_kvm_at)) ||
	    bpf_probe_read_kernel(&inhibits, sizeof(inhibits), (void *)(kvm + kvm_inhibits_at)) ||
	    bpf_probe_read_kernel(&has_clock, sizeof(has_clock), (void *)(vcpu + vcpu_clock_at)))
		return 0;
	__sync_fetch_and_add(&kept->entries, 1);
	if (inhibits & ~kept->ever)
		__sync_fetch_and_or(&kept->ever, inhibits);
	if (~inhibits & ~kept->not_always)
		__sync_fetch_and_or(&kept->not_always, ~inhibits);
	if (has_clock)
		__sync_fetch_and_add(&kept->clocks, 1);
	return 0;
}

SEC("raw_tracepoint/kvm_apicv_inhibit_changed")
int kvm_apicv_inhibit_changed(void *ctx)
{
	struct kept *kept = its();

	if (kept)
		__sync_fetch_and_add(&kept->changes, 1);
	return 0;
}

SEC("raw_tracepoint/kvm_pvclock_update")
int kvm_pvclock_update(void *ctx)
{
	struct kept *kept = its();

	if (kept)
		__sync_fetch_and_add(&kept->writes, 1);
	return 0;
}
