// SPDX-License-Identifier: GPL-2.0-only
//! Tick rates: a guest gets the ticks that its own kernel asks for, whatever its host's are.

use crate::{
    series::said,
    support::{check_tick_rate, host_spec, kernel, pair},
};
use paratick_build::kernel::{ensure_changed, Changes, Variant, DEFAULT_BASE};
use std::path::PathBuf;

/// The image whose tick is this fast.
pub fn kernel_at(hz: u32) -> PathBuf {
    match hz {
        250 => kernel(),
        hz => {
            let changes = Changes { hz: Some(hz), ..Changes::default() };
            let image = ensure_changed(DEFAULT_BASE, Variant::Patched, &changes, &mut |_| {});
            image.expect("a kernel with another tick rate").bzimage
        }
    }
}

#[test]
#[ignore = "builds two kernels with other tick rates, 20 minutes"]
fn a_busy_vcpu_gets_the_ticks_of_its_own_rate_on_a_host_of_another() {
    for (host_hz, rates) in [(1000, &[1000, 250][..]), (250, &[1000, 100])] {
        let spec = host_spec(kernel_at(host_hz), 1, &[]);
        for hz in rates {
            let (host, guest) = pair(spec.clone(), kernel_at(*hz), 1, "paratick", &[]);
            let named = said(&guest, "uname -r").ends_with(&format!("-hz{hz}"));
            assert_eq!(named, *hz != 250);
            assert_eq!(check_tick_rate(&host, &guest), u64::from(*hz), "{host_hz}");
            guest.shutdown().unwrap();
        }
    }
}
