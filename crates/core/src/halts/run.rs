// SPDX-License-Identifier: GPL-2.0-only
//! What the halts of one run come to: what results keep of a recording.

use super::{
    calibrate::calibrate,
    recording::{Halts, Waker},
    tally::Tally,
};
use crate::stats::at_most;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The vCPUs' halts, as the host saw them, in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunHalts {
    /// How long the run was, on the host's clock.
    pub window_ns: u64,
    /// What they come to.
    pub tally: Tally,
    /// Halts by what ended them: `timer`, `ipi`, `device`, …
    pub wakers: BTreeMap<Waker, u64>,
    /// Half of the halts were at most so long; `null`: no halt.
    pub half_ns: Option<u64>,
    /// The same of 90 %.
    pub nine_tenths_ns: Option<u64>,
    /// From being woken to the end, in half at most.
    pub wake_up_ns: Option<u32>,
}

impl RunHalts {
    pub fn of(halts: &Halts) -> RunHalts {
        let all = || halts.vcpus.iter().flat_map(|vcpu| &vcpu.halts);
        let mut wakers = BTreeMap::new();
        all().for_each(|halt| *wakers.entry(halt.waker).or_default() += 1);
        let mut lengths: Vec<u64> = all().map(|halt| halt.ns).collect();
        lengths.sort_unstable();
        RunHalts {
            window_ns: halts.window_ns,
            tally: Tally::of_all(halts),
            wakers,
            half_ns: at_most(&lengths, 50),
            nine_tenths_ns: at_most(&lengths, 90),
            wake_up_ns: calibrate(halts),
        }
    }

    /// Which part of the halts began with this limit in force; none where that is not known.
    pub fn share_at(&self, limit: u32) -> Option<f64> {
        let known = self.tally.halts - self.tally.limits_unknown;
        let there = self.tally.limits.get(&limit).copied().unwrap_or(0);
        (known > 0).then(|| there as f64 / known as f64)
    }

    pub fn per_second(&self, times: u64) -> Option<f64> {
        (self.window_ns > 0).then(|| times as f64 * 1e9 / self.window_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        recording::{Halt, Side},
        streams::vcpu,
    };
    use super::*;

    #[test]
    fn a_recording_comes_to_counts_and_lengths() {
        let halt = |ns, limit, waker| Halt { limit_ns: limit, waker, ..Halt::blocked(0, ns) };
        let halts = Halts {
            window_ns: 2_000_000_000,
            vcpus: vec![
                vcpu(
                    Side::Host,
                    vec![halt(10, Some(0), Waker::Ipi), halt(30, Some(10), Waker::Timer)],
                ),
                vcpu(Side::Host, vec![halt(20, None, Waker::Timer)]),
            ],
            ..Halts::default()
        };
        let run = RunHalts::of(&halts);
        assert_eq!(run.wakers, BTreeMap::from([(Waker::Timer, 2), (Waker::Ipi, 1)]));
        assert_eq!((run.half_ns, run.nine_tenths_ns, run.wake_up_ns), (Some(20), Some(30), None));
        assert_eq!((run.share_at(10), run.share_at(20)), (Some(0.5), Some(0.0)));
        assert_eq!(run.per_second(run.tally.blocks), Some(1.5));
        let text = serde_json::to_string(&run).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::from_value::<RunHalts>(value).unwrap(), run);
        let none = RunHalts::default();
        assert_eq!((none.share_at(0), none.per_second(1)), (None, None));
        assert_eq!(RunHalts::of(&Halts::default()), none);
    }
}
