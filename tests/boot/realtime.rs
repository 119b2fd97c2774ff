// SPDX-License-Identifier: GPL-2.0-only
//! Guests with PREEMPT_RT, where that image was built: `paratick kernel build --rt` takes long.

use crate::support::{busy_ticks, guest_on, host_for, kernel};
use std::path::PathBuf;

#[test]
fn a_real_time_guest_has_virtual_ticks() {
    let Some(image) = std::env::var_os("PARATICK_TEST_RT_KERNEL").map(PathBuf::from) else {
        println!("skipped: PARATICK_TEST_RT_KERNEL names no image");
        return;
    };
    let host = host_for(kernel(), 2, &[]);
    let guest = guest_on(&host, image, 2, "paratick", &[]);
    let measured = busy_ticks(&host, &guest);
    let due = measured.report("hz") as f64 * measured.report("duration_ns") as f64 / 1e9;
    let rate = measured.report("virtual_ticks") as f64 / due;
    assert!((0.97..=1.03).contains(&rate), "{rate}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
