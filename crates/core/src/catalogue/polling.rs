// SPDX-License-Identifier: GPL-2.0-only
//! Halt polling: what is measured of it, and what was printed, to be held against that.  The
//! article's figures were pictures without values, so of Graphs 1 to 5 only the text's words and
//! numbers are here.

use crate::subject::Subject;

/// What `bench polling` measures.  The host's rules and the guests' are not mixed: `+poll` switches
/// the host's polling off.
///
/// Those that share a host's settings stand together: to change them, a host is booted.
const SUBJECTS: [&str; 13] = [
    "tickless",
    "tickless+poll-0",
    "tickless+poll",
    "tickless+poll-50k",
    "paratick+nopoll",
    "paratick+poll-0",
    "paratick+poll",
    "paratick",
    "tickless halt-poll=2021",
    "tickless halt-poll=paper",
    "tickless halt-poll=paper-floor",
    "tickless halt-poll=default",
    "tickless halt-poll=learned",
];

pub fn subjects() -> Vec<Subject> {
    SUBJECTS.iter().map(|name| name.parse().expect("a test parses it")).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// J. Rajendran, P. Kodali, B. Banerjee, "Improving the Performance of VM Workloads by
    /// Optimizing Polling Time", Intel, ID 749041, © 2021, updated 30 September 2022.
    Article,
    /// The commit that made the host's limit dynamic, aca6ff29c406, 2015.
    Dynamic,
    /// The commit of the governor `haltpoll`, 2cffe9f6b96f, 2019.
    Governor,
    /// The cover letter of "KVM: x86: shrink halt polling" by the article's team, 2 November 2023,
    /// 20231102154628.2120-1-parshuram.sangle@intel.com.
    Shrink,
}

/// What is claimed; whoever measures has to say what came of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    ExitMix,
    MostAtZero,
    FewestAtMaximum,
    ZeroOptimized,
    HostTime,
    HostSwitches,
    HostHalts,
    GuestTime,
    GuestHalts,
    GuestCycles,
    Power,
    NativeGap,
    IdleCost,
    Network,
    PingPong,
    ShrinkTime,
    ShrinkPower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    pub claim: Claim,
    pub source: Source,
    pub what: &'static str,
    /// In the source's words and units.
    pub value: &'static str,
}

const fn row(claim: Claim, source: Source, what: &'static str, value: &'static str) -> Printed {
    Printed { claim, source, what, value }
}

/// Everything that was printed, in the order of the sources.
pub const PRINTED: [Printed; 17] = {
    use Claim::*;
    use Source::*;
    [
        row(ExitMix, Article, "exits for HLT, timers and IPIs, of all", "“significantly higher”"),
        row(
            MostAtZero,
            Article,
            "Graph 1, halts at a limit of 0 ns",
            "“the maximum number of counts”",
        ),
        row(FewestAtMaximum, Article, "Graph 1, halts at 200000 ns", "“a very minimal count”"),
        row(
            ZeroOptimized,
            Article,
            "Graph 2, halts at 0 ns, by both readings of the floor",
            "“reduce polling for 0ns”",
        ),
        row(HostTime, Article, "performance, by the host's new limits", "+2 to +5 %"),
        row(
            HostSwitches,
            Article,
            "context switches, by the host's new limits",
            "−18 % on average",
        ),
        row(HostHalts, Article, "exits for HLT, by the host's polling", "“reduced”"),
        row(
            GuestTime,
            Article,
            "performance of storage and productivity, by the guest's polling",
            "+7 to +10 %",
        ),
        row(GuestHalts, Article, "exits for HLT, by the guest's polling", "−10 % on average"),
        row(GuestCycles, Article, "cycles per second, by the guest's polling", "−19 %"),
        row(Power, Article, "power, by the guest's polling", "−10 % on average"),
        row(
            NativeGap,
            Article,
            "performance below native, and by how much less with both",
            "5 to 20 %, 2 to 4 points",
        ),
        row(
            IdleCost,
            Dynamic,
            "CPU time of an idle tickless vCPU: never, always, by the rule",
            "0.15, 0.3, 0.2 %",
        ),
        row(Network, Dynamic, "TCP_RR: never, always, by the rule", "34, 27, 26.7 µs"),
        row(
            PingPong,
            Governor,
            "ping-pong: on the host itself, polled for by the host, by the guest",
            "31.33, 33.40, 32.73",
        ),
        row(
            ShrinkTime,
            Shrink,
            "performance with shrink 2 for 0, of seven benchmarks",
            "+1 to +6 %",
        ),
        row(ShrinkPower, Shrink, "power with shrink 2 for 0", "at most ±0.8 %"),
    ]
};

impl Source {
    pub const ALL: [Source; 4] =
        [Source::Article, Source::Dynamic, Source::Governor, Source::Shrink];

    pub fn name(self) -> &'static str {
        match self {
            Source::Article => "the article (Intel, 2021)",
            Source::Dynamic => "dynamic halt polling in KVM (aca6ff29c406, 2015)",
            Source::Governor => "the guest's governor haltpoll (2cffe9f6b96f, 2019)",
            Source::Shrink => "shrinking by default (the article's team, 2 November 2023)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_is_measured_once() {
        let subjects: BTreeSet<_> = subjects().into_iter().collect();
        assert_eq!(subjects.len(), SUBJECTS.len());
    }

    #[test]
    fn every_claim_is_printed_once_and_by_source() {
        let claims: BTreeSet<_> = PRINTED.iter().map(|printed| printed.claim).collect();
        assert_eq!(claims.len(), PRINTED.len());
        assert!(PRINTED.is_sorted_by_key(|printed| printed.source));
    }
}
