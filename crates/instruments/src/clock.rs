// SPDX-License-Identifier: GPL-2.0-only
//! The clock of BPF's timestamps.

use paratick_core::noise::Instant;

/// CLOCK_MONOTONIC, in ns.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC and the TSC at the same moment: of some tries, the one that took least.
pub fn with_tsc() -> Instant {
    let try_once = |_| {
        let before = tsc();
        let ns = now_ns();
        let after = tsc();
        (after.wrapping_sub(before), Instant { tsc: before + (after - before) / 2, ns })
    };
    let tries = (0..16).map(try_once);
    tries.min_by_key(|(took, _)| *took).map(|(_, instant)| instant).unwrap_or_default()
}

pub fn tsc() -> u64 {
    // SAFETY: every processor with virtualization has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_on() {
        let (first, then) = (with_tsc(), with_tsc());
        assert!(first.tsc < then.tsc && first.ns < then.ns, "{first:?} {then:?}");
    }
}
