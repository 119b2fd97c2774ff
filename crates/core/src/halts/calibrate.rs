// SPDX-License-Identifier: GPL-2.0-only
//! What it costs to block and to wake up, from halts that a timer ended.

use super::recording::{Halt, Halts, Waker};

/// Fewer halts say too little.
const LEAST: usize = 10;

/// How much later half of the halts end after the timer was due that ends them, where the vCPU
/// blocked than where it was polled for; without enough of the latter, than when the timer was due.
/// None without enough of the former.  In ns.
///
/// This is the latency of a wake-up.  What switching the thread out costs is not in it.
pub fn calibrate(halts: &Halts) -> Option<u32> {
    let late = |waited: bool| {
        let all = halts.vcpus.iter().flat_map(|vcpu| &vcpu.halts);
        let those = all.filter(|halt| halt.waker == Waker::Timer && halt.waited == waited);
        median(those.filter_map(lateness).collect())
    };
    let blocked = late(true)?;
    let cost = blocked.saturating_sub(late(false).unwrap_or(0));
    u32::try_from(cost).ok().filter(|cost| *cost > 0)
}

fn lateness(halt: &Halt) -> Option<u64> {
    halt.ns.checked_sub(halt.deadline_ns?)
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    (values.len() >= LEAST).then(|| values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halts::{Side, VcpuHalts};

    fn recorded(halts: Vec<Halt>) -> Halts {
        let (side, rule) = (Side::Host, None);
        let (process, thread, from_start, lost) = (None, None, false, 0);
        let vcpu = VcpuHalts { side, vcpu: 0, process, thread, rule, from_start, lost, halts };
        Halts { window_ns: 1_000_000, vcpus: vec![vcpu] }
    }

    fn ended_by_timer(late_ns: u64, waited: bool) -> Halt {
        let waker = Waker::Timer;
        let deadline_ns = Some(50_000);
        Halt { waker, deadline_ns, waited, ..Halt::blocked(0, 50_000 + late_ns) }
    }

    #[test]
    fn a_block_costs_by_how_much_later_it_ends_than_a_poll() {
        let mut halts = vec![ended_by_timer(9_000, true); 20];
        assert_eq!(calibrate(&recorded(halts.clone())), Some(9_000));
        halts.extend(vec![ended_by_timer(2_000, false); 20]);
        assert_eq!(calibrate(&recorded(halts)), Some(7_000));
    }

    #[test]
    fn without_enough_timers_nothing_is_said() {
        assert_eq!(calibrate(&recorded(vec![ended_by_timer(9_000, true); 9])), None);
        let other = Halt { waker: Waker::Ipi, ..ended_by_timer(9_000, true) };
        assert_eq!(calibrate(&recorded(vec![other; 100])), None);
        // Something else was earlier than the timer.
        let early = Halt { ns: 10, ..ended_by_timer(0, true) };
        assert_eq!(calibrate(&recorded(vec![early; 100])), None);
    }
}
