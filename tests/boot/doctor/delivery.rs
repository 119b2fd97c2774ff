// SPDX-License-Identifier: GPL-2.0-only
//! What KVM keeps of a VM: why the processor delivers no interrupts to it, and whether it has
//! kvm-clock.  Debian's kernels have BTF, which says where that is.

use super::{
    by_hand::{costs, start},
    doctor, of, per_second,
};
use crate::support::{host_for, stock};
use paratick_build::kernel::DEFAULT_BASE;

const DISK: &str = "-smp 1 -device virtio-blk-pci,drive=disk";

/// The emulated processor has no AVIC: KVM keeps no other reason.  A guest without kvm-clock is not
/// shown: under SeaBIOS, one with `no-kvmclock` seemed to have it, too.
#[test]
fn what_kvm_keeps_of_avic_and_of_kvm_clock_is_read() {
    let host = host_for(stock(DEFAULT_BASE).bzimage, 1, &[]);
    start(&host, "usual", "", DISK);
    let usual = costs(&doctor(&host, "usual"));
    let avic = of(&usual, "AVIC or APICv");
    let found = avic["found"].as_str().unwrap();
    assert!(found.contains("the processor has no AVIC (KVM: DISABLED)"), "{avic}");
    assert!(avic["state"] == "absent" && avic["mend"] == "" && per_second(avic) > 0.0, "{avic}");
    let clock = of(&usual, "kvm-clock");
    let found = clock["found"].as_str().unwrap();
    assert!(clock["state"] == "unknown" && found.contains("which one it reads"), "{clock}");
    assert!(clock["mend"].as_str().unwrap().contains("echo tsc >"), "{clock}");
    host.shutdown().unwrap();
}
