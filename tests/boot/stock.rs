// SPDX-License-Identifier: GPL-2.0-only
//! Debian's own kernel, as its package has it: as host and guest, and as the host of a guest with
//! the series.

use crate::support::{busy_ticks, guest_on, host_for, kernel, sh, text};
use paratick_build::kernel::{debian, KernelImage, DEFAULT_BASE};
use paratick_core::cause::Cause;

/// Rate of the tick of Debian's kernel and of the lab's.
const HZ: u64 = 250;

fn stock() -> KernelImage {
    debian::ensure(DEFAULT_BASE, &mut |_| {}).expect("Debian's kernel")
}

#[test]
fn a_stock_guest_on_a_stock_host_arms_and_takes_each_of_its_ticks() {
    let stock = stock();
    let host = host_for(stock.bzimage.clone(), 1, &[]);
    let guest = guest_on(&host, stock.bzimage, 1, "tickless", &[]);
    for said in [host.exec(sh("uname -r")), guest.exec(sh("uname -r"))] {
        assert_eq!(text(&said.unwrap().stdout).trim(), stock.release);
    }
    let modules = text(&guest.exec(sh("cat /proc/modules")).unwrap().stdout);
    assert!(modules.contains("9pnet_virtio ") && !modules.contains("kvm "), "{modules}");
    let measured = busy_ticks(&host, &guest);
    for cause in [Cause::Arm, Cause::Expiry] {
        let exits = measured.causes.get(&cause).copied().unwrap_or(0);
        assert!(exits >= HZ * 9 / 10, "{cause:?}: {exits}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn a_guest_with_the_series_arms_its_own_ticks_on_a_stock_host() {
    let host = host_for(stock().bzimage, 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    let measured = busy_ticks(&host, &guest);
    assert!(measured.causes.get(&Cause::Arm).copied().unwrap_or(0) >= HZ * 9 / 10);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
