// SPDX-License-Identifier: GPL-2.0-only
//! What the paper printed.  Source of every number here: S. Schildermans, K. Aerts, J. Shan,
//! X. Ding, "Paratick: Reducing Timer Overhead in Virtual Machines", ICPP 2021, Tables 1 to 4.

use crate::change::Metric;
use paratick_core::mode::TickMode;

pub const REFERENCE: &str =
    "S. Schildermans, K. Aerts, J. Shan, X. Ding: Paratick: Reducing Timer \
    Overhead in Virtual Machines. ICPP 2021, https://doi.org/10.1145/3472456.3472510";

/// Averages over a set of benchmarks, against the paper's baseline, as changes in per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averages {
    pub exits: f64,
    pub throughput: f64,
    pub time: f64,
}

impl Averages {
    pub fn of(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Exits => self.exits,
            Metric::Throughput => self.throughput,
            Metric::Time => self.time,
        }
    }
}

const fn averages(exits: f64, throughput: f64, time: f64) -> Averages {
    Averages { exits, throughput, time }
}

/// Tables 2, 3 (by the guest's vCPUs) and 4; none for a set that the paper did not measure.
pub fn averages_of(bench: &str, vcpus: u32) -> Option<Averages> {
    Some(match (bench, vcpus) {
        ("sequential", 1) => averages(-50.0, 7.0, -2.0),
        ("multithreaded", 4) => averages(-42.0, 12.0, -1.0),
        ("multithreaded", 16) => averages(-47.0, 13.0, -3.0),
        ("multithreaded", 64) => averages(-44.0, 16.0, -1.0),
        ("io", 1) => averages(-34.0, 20.0, -18.0),
        _ => return None,
    })
}

/// Table 1 is for so many vCPUs in each VM, and so long.
pub const TABLE1_VCPUS: f64 = 16.0;
pub const TABLE1_SECONDS: f64 = 10.0;

/// One row's setting in Table 1: its name, the VMs side by side, what runs in them.
pub const TABLE1: [(&str, f64, &str); 4] = [
    ("W1", 1.0, "an idle VM with 16 vCPUs"),
    ("W2", 4.0, "four idle VMs with 16 vCPUs each"),
    ("W3", 1.0, "16 threads that block and wake 1000 times a second, in a VM with 16 vCPUs"),
    ("W4", 4.0, "four copies of W3, each in a VM with 16 vCPUs"),
];

/// Exits as printed in Table 1.  Its "tickless" stops the tick at every idle entry.
pub fn table1(workload: &str, tick: TickMode) -> Option<f64> {
    Some(match (tick, workload) {
        (TickMode::Periodic, "W1" | "W3") => 40_000.0,
        (TickMode::Periodic, "W2" | "W4") => 160_000.0,
        (TickMode::TicklessStop, "W1" | "W2") => 0.0,
        (TickMode::TicklessStop, "W3") => 60_000.0,
        (TickMode::TicklessStop, "W4") => 240_000.0,
        _ => return None,
    })
}

/// The same of one vCPU in one second.
pub fn table1_rate(workload: &str, tick: TickMode) -> Option<f64> {
    let (_, vms, _) = TABLE1.iter().find(|(name, ..)| *name == workload)?;
    Some(table1(workload, tick)? / (vms * TABLE1_VCPUS * TABLE1_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_vms_have_the_rate_of_one() {
        for tick in [TickMode::Periodic, TickMode::TicklessStop] {
            assert_eq!(table1_rate("W1", tick), table1_rate("W2", tick));
            assert_eq!(table1_rate("W3", tick), table1_rate("W4", tick));
        }
        assert_eq!(table1_rate("W1", TickMode::Periodic), Some(250.0));
        assert_eq!(table1_rate("W3", TickMode::TicklessStop), Some(375.0));
        assert_eq!(table1_rate("W1", TickMode::Paratick), None);
    }
}
