// SPDX-License-Identifier: GPL-2.0-only
//! What everything is compared with: `tickless` in the lab is a kernel with the series that is
//! told to leave it unused, on a host with the series.  Here it is held against the kernel
//! without, on a host without: the same work must cost the same exits, of each cause.

use crate::support::{base_kernel, host_spec, kernel, pair, workload};
use paratick_core::cause::Cause;
use std::{collections::BTreeMap, path::PathBuf};

/// Workload, its work, vCPUs.
const WORK: [(&str, &str, u32); 3] =
    [("cpu", "50", 1), ("sleep", "1000", 1), ("pingpong", "1000", 2)];
/// Each is run so often in one guest; medians are compared.
const RUNS: usize = 5;

/// The median of the exits of each cause, for each workload.
type Medians = BTreeMap<(&'static str, Cause), u64>;

/// On a host and in guests with this kernel.
fn exits_with(image: PathBuf) -> Medians {
    let spec = host_spec(image.clone(), 2, &[]);
    let mut medians = Medians::new();
    for vcpus in [1, 2] {
        let (host, guest) = pair(spec.clone(), image.clone(), vcpus, "tickless", &[]);
        for (name, work, _) in WORK.into_iter().filter(|(.., on)| *on == vcpus) {
            let runs: Vec<_> = (0..RUNS)
                .map(|_| workload(&host, &guest, name, &["--work", work]).causes)
                .collect();
            for cause in Cause::ALL {
                let mut counts: Vec<u64> =
                    runs.iter().map(|run| run.get(&cause).copied().unwrap_or(0)).collect();
                counts.sort();
                medians.insert((name, cause), counts[RUNS / 2]);
            }
        }
        guest.shutdown().unwrap();
    }
    medians
}

/// How far medians may be apart.  Of the kernel without the series in several boots: `cpu` 50 or 51
/// of each; `sleep` 2021 to 2039 to arm, 1022 halts, and 0 to 14 of the host's ticks, by how those
/// fall between the sleeps; `pingpong` 31 to 34 to arm, 2002 and 2003 halts, 2000 IPIs, others 3
/// apart at most.  With the series: 50 of each; 2023 and 2024, 1022 and 1023, 0 to 8.
fn tolerance(name: &str, cause: Cause) -> u64 {
    match (name, cause) {
        ("cpu", _) => 2,
        ("sleep", Cause::Arm) => 30,
        ("sleep", Cause::HostTick) => 25,
        ("sleep", _) => 12,
        (_, Cause::Arm) => 15,
        _ => 8,
    }
}

#[test]
fn tickless_in_the_lab_costs_the_exits_of_the_kernel_without_the_series() {
    let base = exits_with(base_kernel());
    let lab = exits_with(kernel());
    for ((name, cause), stock) in base {
        let tickless = lab[&(name, cause)];
        let apart = tickless.abs_diff(stock);
        assert!(apart <= tolerance(name, cause), "{name}, {cause:?}: {stock} and {tickless}");
    }
}
