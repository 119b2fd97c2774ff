// SPDX-License-Identifier: GPL-2.0-only
//! Guests and hosts with PREEMPT_RT.

use crate::{
    noise::{quiet_pair, sampled},
    series::said,
    support::{check_tick_rate, host_spec, kernel, pair},
};
use paratick_build::kernel::{ensure_changed, Changes, Extra, Variant, DEFAULT_BASE};
use std::path::PathBuf;

fn realtime_kernel() -> PathBuf {
    let changes = Changes { extras: [Extra::Rt].into(), ..Changes::default() };
    let image = ensure_changed(DEFAULT_BASE, Variant::Patched, &changes, &mut |_| {});
    image.expect("a kernel with PREEMPT_RT").bzimage
}

#[test]
#[ignore = "builds a PREEMPT_RT kernel, 20 minutes"]
fn a_real_time_guest_has_virtual_ticks() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), realtime_kernel(), 2, "paratick", &[]);
    assert!(said(&guest, "uname -v").contains("PREEMPT_RT"));
    check_tick_rate(&host, &guest);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
#[ignore = "builds a PREEMPT_RT kernel, 20 minutes"]
fn a_real_time_host_gives_virtual_ticks_and_its_noise_adds_up() {
    let (host, guest) = pair(host_spec(realtime_kernel(), 2, &[]), kernel(), 2, "paratick", &[]);
    check_tick_rate(&host, &guest);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
    for mode in ["tickless", "paratick"] {
        let (host, guest) = quiet_pair(realtime_kernel(), 1, mode, None);
        assert!(said(&guest, "uname -v").contains("PREEMPT_RT"));
        let (recorded, book) = sampled(&host, &guest, 2);
        assert!(recorded.host.unwrap().audit.unwrap().world_switches.is_some());
        assert_eq!(book.unexplained(), 0, "{mode}");
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}
