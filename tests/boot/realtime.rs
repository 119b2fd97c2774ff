// SPDX-License-Identifier: GPL-2.0-only
//! Guests with PREEMPT_RT.

use crate::{
    series::said,
    support::{check_tick_rate, guest_on, host_for, kernel},
};
use paratick_build::kernel::{ensure_changed, Changes, Variant, DEFAULT_BASE};

#[test]
#[ignore = "builds a PREEMPT_RT kernel, 20 minutes"]
fn a_real_time_guest_has_virtual_ticks() {
    let changes = Changes { rt: true, ..Changes::default() };
    let image = ensure_changed(DEFAULT_BASE, Variant::Patched, &changes, &mut |_| {});
    let image = image.expect("a kernel with PREEMPT_RT").bzimage;
    let host = host_for(kernel(), 2, &[]);
    let guest = guest_on(&host, image, 2, "paratick", &[]);
    assert!(said(&guest, "uname -v").contains("PREEMPT_RT"));
    check_tick_rate(&host, &guest);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
