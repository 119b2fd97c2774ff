// SPDX-License-Identifier: GPL-2.0-only
//! What KVM keeps of a VM: why its interrupts are not delivered by the processor, and whether it has
//! kvm-clock.  Debian's kernels have BTF, which says where that is.

use super::{
    by_hand::{costs, start, APPEND},
    doctor, of, on, per_second,
};
use crate::support::{host_for, stock};
use paratick_build::kernel::DEFAULT_BASE;

const DISK: &str = "-smp 1 -device virtio-blk-pci,drive=disk";

/// The emulated processor has no AVIC, and KVM keeps the reasons all the same.
#[test]
fn reasons_to_inhibit_avic_are_read_and_end_by_their_line_and_so_is_kvm_clock() {
    let host = host_for(stock(DEFAULT_BASE).bzimage, 1, &[]);
    start(&host, "usual", "", DISK);
    let usual = costs(&doctor(&host, "usual"));
    let avic = of(&usual, "AVIC or APICv");
    let found = avic["found"].as_str().unwrap();
    assert!(avic["state"] == "absent" && found.contains("the processor has no AVIC"), "{avic}");
    assert!(per_second(avic) > 0.0 && avic["mend"] == "", "{avic}");
    let mend = "-global kvm-pit.lost_tick_policy=discard";
    assert!(found.contains(&format!("PIT_REINJ (QEMU: {mend})")), "{avic}");
    let clock = of(&usual, "kvm-clock");
    let found = clock["found"].as_str().unwrap();
    assert!(clock["state"] != "free" && found.contains("KVM wrote its page"), "{clock}");
    on(&host, "kill $(cat /tmp/usual.pid)");
    start(&host, "mended", "", &format!("{DISK} {mend} -append '{APPEND} no-kvmclock'"));
    let mended = costs(&doctor(&host, "mended"));
    let avic = of(&mended, "AVIC or APICv");
    assert!(avic["state"] == "absent" && !avic["found"].as_str().unwrap().contains("PIT_REINJ"));
    let clock = of(&mended, "kvm-clock");
    assert_eq!(
        (&clock["state"], &clock["found"]),
        (&"free".into(), &"the guest did not ask for it".into())
    );
    host.shutdown().unwrap();
}
