// SPDX-License-Identifier: GPL-2.0-only
//! What `bench noise` measures.

use super::sets::{self, CpuTime, Scale, Set};
use crate::{
    isolation::Isolation,
    mode::TickMode,
    results::{Plan, PlannedWorkload},
    size::Size,
};

/// CPUs of a host that `bench noise` has: as in the thesis, and with two more.
pub const HOSTS: [u32; 2] = [4, 6];
/// vCPUs of its guest: as in the thesis.
pub const VCPUS: u32 = 3;
/// For how long the guest's noise is recorded, in ms, and quickly.
const WINDOW: [u64; 2] = [2000, 500];
/// CPU time of one recording, in seconds.
const TAKES: f64 = 20.0;

/// A guest that osnoise keeps busy, on hosts of each size, with CPUs isolated on either side: "the
/// osnoise tracer for virtualized systems" (Milan, 2023, section 4.3.2), a set for each.
pub fn sets(vcpus: u32, hosts: &[u32], isolations: &[Isolation], scale: Scale) -> Vec<Set> {
    use TickMode::*;
    let (ticks, window, rounds): (&[TickMode], _, _) = match scale {
        Scale::Quick => (&[Tickless, Paratick], WINDOW[1], 1),
        Scale::Full => (&[Periodic, Tickless, TicklessStop, ParatickTicks, Paratick], WINDOW[0], 4),
    };
    let planned = PlannedWorkload::new("osnoise", window, "ms");
    let set = |host_cpus: u32, isolation: Isolation| {
        let plan = Plan::new(vcpus, sets::modes(ticks), [planned.clone()], rounds, 1);
        let plan = Plan { isolation: Some(isolation), host_cpus: Some(host_cpus), ..plan };
        let takes = (vcpus == VCPUS).then(|| CpuTime::of(30.0, TAKES));
        let name = format!("noise-{host_cpus}-{isolation}");
        Set { takes, parallel_clock: true, ..Set::new("noise", name, plan, Size::mib(512)) }
    };
    let all = hosts.iter().flat_map(|host| isolations.iter().map(move |one| (*host, *one)));
    all.map(|(host, isolation)| set(host, isolation)).collect()
}
