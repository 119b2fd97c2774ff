// SPDX-License-Identifier: GPL-2.0-only
/*
 * What KVM keeps of a VM and no exit tells: why it may not use AVIC or APICv,
 * whether the guest has asked for the page of kvm-clock, and whether the VMM
 * raises a line that the guest has masked.
 */
#include "bpf.h"
#include "kept.h"

/* The line of the PIT and of an HPET in its place, as interrupt controllers number it. */
#define LINE		0
#define PIC_PIN		0
#define IOAPIC_PIN	2
#define IOAPIC_MASKED	(1 << 16)

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

/*
 * The VMM's own: KVM's PIT is a thread of the kernel, and no process of a VM.
 * Its arguments are the line, the level and who sets it. QEMU sets each level
 * twice, for the PIC and for the IO-APIC.
 */
SEC("raw_tracepoint/kvm_set_irq")
int kvm_set_irq(__u64 *ctx)
{
	struct kept *kept = its();

	__u64 level = !!(__u32)ctx[1];

	if (!kept || (__u32)ctx[0] != LINE)
		return 0;
	if (level && !kept->level)
		__sync_fetch_and_add(&kept->pulses, 1);
	kept->level = level;
	return 0;
}

/* The chip, the pin, which of its lines keep their level, and which are masked. */
SEC("raw_tracepoint/kvm_pic_set_irq")
int kvm_pic_set_irq(__u64 *ctx)
{
	struct kept *kept = its();

	if (kept && !(__u8)ctx[0] && (__u8)ctx[1] == PIC_PIN && !(ctx[3] >> PIC_PIN & 1))
		__sync_fetch_and_add(&kept->unmasked, 1);
	return 0;
}

/* The entry of the pin, and the pin. */
SEC("raw_tracepoint/kvm_ioapic_set_irq")
int kvm_ioapic_set_irq(__u64 *ctx)
{
	struct kept *kept = its();

	if (kept && (__u32)ctx[1] == IOAPIC_PIN && !(ctx[0] & IOAPIC_MASKED))
		__sync_fetch_and_add(&kept->unmasked, 1);
	return 0;
}
