// SPDX-License-Identifier: GPL-2.0-only
//! Noise with CPUs isolated on the host, in the guest, on both and on neither: what each changes,
//! and whether it is what a thesis of 2023 says (section 5.2; it prints no number).

use super::{Cell, Results, Sample};
use crate::{
    isolation::Isolation,
    mode::Mode,
    noise::NoiseSample,
    stats::{self, Observation, Summary, MIN_VERDICT},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A number of a sample; times and counts are those of one vCPU that samples, in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseFigure {
    Noise,
    Steal,
    /// KVM, the VMM and the host's interrupts.
    Hypervisor,
    /// Both of these.
    Virtualization,
    /// What the guest does to itself.
    Guest,
    /// Nobody knows of it: hardware.
    Hardware,
    Light,
    Heavy,
    Halts,
    /// What osnoise alone calls hardware noise.
    Unknown,
    /// Exits for timers of the guest, and its own timer interrupts.
    GuestTimers,
    HostTicks,
    /// In the sample.
    Longest,
    Available,
}

impl NoiseFigure {
    pub const TIMES: [NoiseFigure; 6] = {
        use NoiseFigure::*;
        [Noise, Steal, Hypervisor, Guest, Hardware, Longest]
    };
    pub const COUNTS: [NoiseFigure; 6] = {
        use NoiseFigure::*;
        [Light, Heavy, Halts, Unknown, GuestTimers, HostTicks]
    };

    pub fn name(self) -> &'static str {
        use NoiseFigure::*;
        match self {
            Noise => "All noise",
            Steal => "Steal",
            Hypervisor => "KVM and VMM",
            Virtualization => "Steal, KVM and VMM",
            Guest => "Guest's own",
            Hardware => "Hardware",
            Light => "Light exits",
            Heavy => "Heavy exits",
            Halts => "Halts",
            Unknown => "Stock's hardware",
            GuestTimers => "Guest's timers",
            HostTicks => "Host's ticks",
            Longest => "Longest",
            Available => "CPU available",
        }
    }

    /// Times in us, shares in per cent.  None where noise was not recorded.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let noise = sample.noise.as_ref()?;
        let us = |ns: u64| noise.per_second(ns) / 1e3;
        Some(match self {
            NoiseFigure::Noise => us(noise.noise_ns),
            NoiseFigure::Steal => us(noise.parts.waited),
            NoiseFigure::Hypervisor => us(noise.hypervisor_ns()),
            NoiseFigure::Virtualization => us(noise.parts.waited + noise.hypervisor_ns()),
            NoiseFigure::Guest => us(noise.guest_ns()),
            NoiseFigure::Hardware => us(noise.unexplained_ns),
            NoiseFigure::Longest => noise.longest_ns as f64 / 1e3,
            NoiseFigure::Available => noise.available(),
            count => noise.per_second(count.count(noise)),
        })
    }

    fn count(self, noise: &NoiseSample) -> u64 {
        match self {
            NoiseFigure::Light => noise.light,
            NoiseFigure::Heavy => noise.heavy,
            NoiseFigure::Halts => noise.halts,
            NoiseFigure::Unknown => noise.unknown_to_guest,
            NoiseFigure::GuestTimers => noise.guest_timer_events(),
            NoiseFigure::HostTicks => noise.cause(crate::cause::Cause::HostTick),
            _ => noise.gaps,
        }
    }

    pub fn observations(self, cell: &Cell) -> Vec<Observation> {
        let observe =
            |sample: &Sample| Some(Observation { round: sample.round, value: self.of(sample)? });
        cell.samples().iter().filter_map(observe).collect()
    }

    pub fn summary(self, cell: &Cell) -> Option<Summary> {
        stats::summarize(&self.observations(cell))
    }
}

/// Measurements on hosts of one size, by what was isolated.
#[derive(Clone, Debug)]
pub struct Factorial<'a> {
    pub host_cpus: u32,
    pub by_isolation: BTreeMap<Isolation, &'a Results>,
}

/// What isolating a side changes, on average of the other side being isolated or not; and how much
/// more both do than each does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effects {
    pub host_cpus: u32,
    pub mode: Mode,
    pub figure: NoiseFigure,
    pub host: Option<Summary>,
    pub guest: Option<Summary>,
    pub interaction: Option<Summary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    Less,
    Same,
    More,
}

impl Sign {
    /// Of an interval of a difference.
    pub fn of(difference: &Summary) -> Sign {
        match () {
            () if difference.high < 0.0 => Sign::Less,
            () if difference.low > 0.0 => Sign::More,
            () => Sign::Same,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Sign::Less => "less",
            Sign::Same => "the same",
            Sign::More => "more",
        }
    }
}

/// What the thesis says of one way to isolate against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub figure: NoiseFigure,
    pub with: Isolation,
    pub against: Isolation,
    pub thesis: Sign,
}

const fn claim(figure: NoiseFigure, with: Isolation, against: Isolation, thesis: Sign) -> Claim {
    Claim { figure, with, against, thesis }
}

/// Section 5.2.
pub const CLAIMS: [Claim; 6] = {
    use Isolation::*;
    [
        claim(NoiseFigure::Steal, Host, None, Sign::Less),
        claim(NoiseFigure::Hypervisor, Host, None, Sign::Less),
        claim(NoiseFigure::Steal, Guest, None, Sign::Same),
        claim(NoiseFigure::Hypervisor, Guest, None, Sign::Less),
        claim(NoiseFigure::Virtualization, Both, Host, Sign::Less),
        claim(NoiseFigure::Virtualization, Both, Guest, Sign::Less),
    ]
};

/// Whether the claim holds in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    pub host_cpus: u32,
    pub mode: Mode,
    pub claim: Claim,
    /// Of the two, round by round.
    pub difference: Option<Summary>,
    /// None where it was not measured.
    pub sign: Option<Sign>,
    /// From enough boots to conclude something.
    pub concluded: bool,
}

impl<'a> Factorial<'a> {
    /// One for each size of the host, the smallest first.
    pub fn all(results: impl IntoIterator<Item = &'a Results>) -> Vec<Factorial<'a>> {
        let mut all: BTreeMap<u32, BTreeMap<Isolation, &Results>> = BTreeMap::new();
        for result in results {
            if let Some(isolation) = result.plan.isolation {
                let cpus = result.plan.host_cpus.unwrap_or(result.plan.vcpus + 1);
                all.entry(cpus).or_default().insert(isolation, result);
            }
        }
        let sizes = all.into_iter();
        sizes.map(|(host_cpus, by_isolation)| Factorial { host_cpus, by_isolation }).collect()
    }

    /// In the order of the files.
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes = Vec::new();
        for cell in self.by_isolation.values().flat_map(|result| &result.cells) {
            if !modes.contains(&cell.subject.mode) {
                modes.push(cell.subject.mode);
            }
        }
        modes
    }

    pub fn cell(&self, isolation: Isolation, mode: Mode) -> Option<&'a Cell> {
        let mut cells = self.by_isolation.get(&isolation)?.cells.iter();
        cells.find(|cell| cell.subject.mode == mode)
    }

    /// The mean of a figure in each round.
    fn by_round(&self, isolation: Isolation, mode: Mode, figure: NoiseFigure) -> Rounds {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let cell = self.cell(isolation, mode);
        for seen in cell.map_or(Vec::new(), |cell| figure.observations(cell)) {
            values.entry(seen.round).or_default().push(seen.value);
        }
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        values.into_iter().map(|(round, values)| (round, mean(values))).collect()
    }

    pub fn effects(&self, mode: Mode, figure: NoiseFigure) -> Effects {
        let [none, host, guest, both] =
            Isolation::ALL.map(|isolation| self.by_round(isolation, mode, figure));
        let each = |effect: &dyn Fn([f64; 4]) -> f64| {
            let of = |(round, none): (&u32, &f64)| {
                let cells = [*none, *host.get(round)?, *guest.get(round)?, *both.get(round)?];
                Some(Observation { round: *round, value: effect(cells) })
            };
            stats::summarize(&none.iter().filter_map(of).collect::<Vec<_>>())
        };
        Effects {
            host_cpus: self.host_cpus,
            mode,
            figure,
            host: each(&|[none, host, guest, both]| (host - none + both - guest) / 2.0),
            guest: each(&|[none, host, guest, both]| (guest - none + both - host) / 2.0),
            interaction: each(&|[none, host, guest, both]| (both - guest) - (host - none)),
        }
    }

    pub fn held(&self, mode: Mode, claim: Claim) -> Held {
        let with = self.by_round(claim.with, mode, claim.figure);
        let against = self.by_round(claim.against, mode, claim.figure);
        let of = |(round, value): (&u32, &f64)| {
            Some(Observation { round: *round, value: value - against.get(round)? })
        };
        let differences: Vec<Observation> = with.iter().filter_map(of).collect();
        let difference = stats::summarize(&differences);
        Held {
            host_cpus: self.host_cpus,
            mode,
            claim,
            sign: difference.as_ref().map(Sign::of),
            difference,
            concluded: stats::rounds(&differences) >= MIN_VERDICT,
        }
    }
}

type Rounds = BTreeMap<u32, f64>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        noise::Parts,
        results::{Plan, PlannedWorkload},
    };
    use proptest::prelude::*;

    fn mode() -> Mode {
        "tickless".parse().unwrap()
    }

    /// So much steal in a second of the one vCPU that samples, in us, round by round.
    fn with(isolation: Isolation, steal: &[u64]) -> Results {
        let planned = PlannedWorkload::new("osnoise", 500, "ms");
        let plan = Plan {
            isolation: Some(isolation),
            host_cpus: Some(4),
            ..Plan::new(3, [mode()], [planned.clone()], steal.len() as u32, 1)
        };
        let mut results = Results::new("noise", plan);
        for (round, steal) in (1..).zip(steal) {
            let noise = NoiseSample {
                cpus: 2,
                window_ns: 500_000_000,
                parts: Parts { waited: steal * 1000, ..Parts::default() },
                ..NoiseSample::default()
            };
            let sample = Sample { round, repeat: 1, noise: Some(noise), ..Sample::default() };
            results.add(&planned, mode(), sample);
        }
        results
    }

    #[test]
    fn what_the_host_alone_does_is_its_effect_and_nobody_else_s() {
        let noisy = [900, 1000, 1100, 1000];
        let quiet = [10, 20, 10, 20];
        let files = [
            with(Isolation::None, &noisy),
            with(Isolation::Host, &quiet),
            with(Isolation::Guest, &noisy),
            with(Isolation::Both, &quiet),
        ];
        let [factorial] = &Factorial::all(&files)[..] else { panic!("one size of host") };
        let effects = factorial.effects(mode(), NoiseFigure::Steal);
        let host = effects.host.unwrap();
        assert!(host.high < -880.0 && host.low > -1095.0, "{host:?}");
        assert_eq!((effects.guest.unwrap().median, effects.interaction.unwrap().median), (0., 0.));
        let signs = CLAIMS.map(|claim| {
            let held = factorial.held(mode(), claim);
            assert!(held.concluded);
            (held.sign.unwrap(), claim.figure)
        });
        assert_eq!(signs[0], (Sign::Less, NoiseFigure::Steal));
        assert_eq!(signs[2], (Sign::Same, NoiseFigure::Steal));
        assert_eq!(signs[4], (Sign::Same, NoiseFigure::Virtualization));
        assert_eq!(signs[5], (Sign::Less, NoiseFigure::Virtualization));
    }

    #[test]
    fn without_all_four_there_is_no_effect_and_from_few_boots_nothing_follows() {
        let files = [with(Isolation::None, &[5, 6]), with(Isolation::Host, &[1])];
        let factorial = &Factorial::all(&files)[0];
        assert_eq!(factorial.effects(mode(), NoiseFigure::Steal).host, None);
        let held = factorial.held(mode(), CLAIMS[0]);
        // Only the first round has both.
        assert_eq!(held.difference.unwrap().median, -4.0);
        assert_eq!((held.sign, held.concluded), (Some(Sign::Less), false));
        assert_eq!(factorial.held(mode(), CLAIMS[2]).sign, None);
    }

    proptest! {
        #[test]
        fn effects_add_up_to_the_difference_between_both_and_none(
            values in prop::array::uniform4(0u64..10_000)
        ) {
            let each = Isolation::ALL.iter().zip(values);
            let files: Vec<Results> = each.map(|(one, value)| with(*one, &[value])).collect();
            let factorial = &Factorial::all(&files)[0];
            let effects = factorial.effects(mode(), NoiseFigure::Steal);
            let sum = effects.host.unwrap().median + effects.guest.unwrap().median;
            let whole = values[3] as f64 - values[0] as f64;
            prop_assert!((sum - whole).abs() < 1e-6, "{} {}", sum, whole);
        }
    }
}
