// SPDX-License-Identifier: GPL-2.0-only
//! What the paper printed.  Source of every number here: S. Schildermans, K. Aerts, J. Shan,
//! X. Ding, "Paratick: Reducing Timer Overhead in Virtual Machines", ICPP 2021, Tables 1 to 4.

use crate::change::Metric;
use paratick_core::{
    mode::TickMode,
    model::table1::{self, SCENARIOS},
};

pub const REFERENCE: &str =
    "S. Schildermans, K. Aerts, J. Shan, X. Ding: Paratick: Reducing Timer \
    Overhead in Virtual Machines. ICPP 2021, https://doi.org/10.1145/3472456.3472510";

/// The average of Tables 2, 3 (by the guest's vCPUs) and 4 over a set of benchmarks, against the
/// paper's baseline, as a change in per cent; none for a set that the paper did not measure.
pub fn average(bench: &str, vcpus: u32, metric: Metric) -> Option<f64> {
    let [exits, throughput, time] = match (bench, vcpus) {
        ("sequential", 1) => [-50.0, 7.0, -2.0],
        ("multithreaded", 4) => [-42.0, 12.0, -1.0],
        ("multithreaded", 16) => [-47.0, 13.0, -3.0],
        ("multithreaded", 64) => [-44.0, 16.0, -1.0],
        ("io", 1) => [-34.0, 20.0, -18.0],
        _ => return None,
    };
    Some(match metric {
        Metric::Exits => exits,
        Metric::Throughput => throughput,
        Metric::Time => time,
    })
}

/// What its abstract says of its best cases, as changes in per cent of exits, throughput and time:
/// with blocking synchronization, and with I/O.
pub const MOST: [[f64; 3]; 2] = [[-80.0, 125.0, -15.0], [-45.0, 30.0, -25.0]];

/// Exits as printed in Table 1.  Its "tickless" stops the tick at every idle entry.
pub fn table1(workload: &str, tick: TickMode) -> Option<f64> {
    let scenario = SCENARIOS.iter().find(|one| one.name == workload)?;
    match tick {
        TickMode::Periodic => Some(scenario.periodic.into()),
        TickMode::TicklessStop => Some(scenario.tickless.into()),
        _ => None,
    }
}

/// The same of one vCPU in one second.
pub fn table1_rate(workload: &str, tick: TickMode) -> Option<f64> {
    let scenario = SCENARIOS.iter().find(|one| one.name == workload)?;
    let vcpus = f64::from(scenario.vms * table1::VCPUS);
    Some(table1(workload, tick)? / (vcpus * table1::TIME.seconds()))
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
