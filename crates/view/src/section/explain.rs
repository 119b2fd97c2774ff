// SPDX-License-Identifier: GPL-2.0-only
//! Why the averages are what they are, beside the paper's.

use crate::{
    change::{Metric, Versus, TICKLESS_STOP},
    number,
    set::{cost_ns, Set},
};
use paratick_core::{
    cause::Cause,
    results::{Cell, Figure},
    stats::Verdict,
};

const CAUSES: usize = 3;

/// A paragraph on the averages of each of our modes against the paper's baseline; none where they
/// cannot be explained.
pub fn averages(set: &Set) -> Vec<String> {
    let all = Versus::against(TICKLESS_STOP).into_iter();
    all.filter_map(|versus| averages_of(set, versus)).collect()
}

fn averages_of(set: &Set, versus: Versus) -> Option<String> {
    let exits = set.average(Metric::Exits, versus)?;
    let printed = set.printed(Metric::Exits, versus);
    let (both, paper) = match printed.map(number::printed) {
        Some(exits) => ("Here and in the paper, ", format!("in the paper by {exits}, ")),
        None => ("", String::new()),
    };
    let mut text = number::capital(&format!(
        "{both}{}: against `{}`, `{}` changes VM exits on average {paper}here by {}.",
        set.name(),
        versus.baseline,
        versus.mode,
        exits.text()
    ));
    let pairs = set.pairs(versus);
    text += &causes(&pairs);
    if let Some(work) = work(set, versus, &pairs) {
        text += &work;
    }
    Some(text)
}

/// A sentence for every workload in which one of our modes has more exits than a baseline.
pub fn losses(set: &Set) -> Vec<String> {
    let in_versus = |versus: Versus| {
        let told = move |pair: Pair| {
            let change = Metric::Exits.of(pair.1, versus.baseline);
            let change = change.filter(|change| change.verdict == Verdict::More)?;
            let grown = match moved(&[pair]).1 {
                none if none.is_empty() => "no cause is known to have grown".into(),
                more => number::list(&more),
            };
            Some(format!(
                "`{}` has more VM exits in `{}` than in `{}`: {} (medians: {grown}).",
                pair.0,
                versus.mode,
                versus.baseline,
                change.text()
            ))
        };
        set.pairs(versus).into_iter().filter_map(told)
    };
    Versus::all().flat_map(in_versus).collect()
}

/// Of a set of programs, what they are not.
pub fn stand_ins(sets: &[&Set]) -> Option<&'static str> {
    let mut planned = sets.iter().flat_map(|set| &set.main().plan.workloads);
    let stands = planned.any(|w| {
        let program = w.program.as_ref();
        program.is_some_and(|program| program.stands_for.is_some())
    });
    stands.then_some(
        "The paper ran PARSEC; these programs stand in for PARSEC's \
        (`docs/programs.md`), so the averages may differ.",
    )
}

/// Cells of a mode of ours and of the baseline, with their workload.
type Pair<'a> = (&'a str, &'a Cell, &'a Cell);

/// The causes with the largest differences, over all pairs: those of which our mode has less, and
/// those of which it has more.
fn moved(pairs: &[Pair]) -> (Vec<String>, Vec<String>) {
    let difference = |cause| -> f64 {
        let of = |cell: &Cell| cell.median(Figure::Cause(cause));
        let both = pairs.iter().filter_map(|(_, mode, base)| of(mode).zip(of(base)));
        both.map(|(mode, base)| mode - base).sum()
    };
    let mut all: Vec<(Cause, f64)> = Cause::ALL.map(|cause| (cause, difference(cause))).to_vec();
    // Half an exit may be between two medians, and says nothing.
    all.retain(|(_, difference)| difference.abs() >= 1.0);
    all.sort_by(|(_, a), (_, b)| b.abs().total_cmp(&a.abs()));
    let words = |(cause, difference): &(Cause, f64)| {
        let sign = if *difference < 0.0 { "−" } else { "+" };
        format!("`{cause}` {sign}{}", number::count(difference.abs()))
    };
    let (less, more): (Vec<_>, Vec<_>) = all.iter().partition(|(_, d)| *d < 0.0);
    let first = |some: Vec<&(Cause, f64)>| some.into_iter().take(CAUSES).map(words).collect();
    (first(less), first(more))
}

fn causes(pairs: &[Pair]) -> String {
    let (less, more) = moved(pairs);
    let mut text = String::new();
    if !less.is_empty() {
        text =
            format!(" Saved most, over all workloads (sums of medians): {}.", number::list(&less));
    }
    if !more.is_empty() {
        text += &format!(" More than in the baseline: {}.", number::list(&more));
    }
    text
}

/// How much of the baseline's work its exits are, which bounds what throughput can gain.
fn work(set: &Set, versus: Versus, pairs: &[Pair]) -> Option<String> {
    let sum = |figure| pairs.iter().map(|(.., base)| base.median(figure)).sum::<Option<f64>>();
    // Only in the lab is an instruction a nanosecond, and only elsewhere are there cycles.
    if sum(Figure::Cycles).is_some() {
        return None;
    }
    let (exits, instructions) = (sum(Figure::Exits)?, sum(Figure::Instructions)?);
    let (host, cpu) = (sum(Figure::HostInstructions)?, sum(Figure::CpuNs)?);
    if instructions <= 0.0 || cpu <= 0.0 {
        return None;
    }
    let switches = f64::from(cost_ns(set.main())) * exits;
    let share = 100.0 * (host + switches) / cpu;
    let mut text = format!(
        " The baseline has {} exits in a million instructions. World switches and all that the \
         host executes are {} % of its CPU time",
        number::decimal(exits / instructions * 1e6),
        number::decimal(share)
    );
    let left: Option<f64> = pairs.iter().map(|(_, mode, _)| mode.median(Figure::Exits)).sum();
    if let Some(saved) = left.map(|left| exits - left).filter(|saved| *saved > 0.0) {
        let cost = f64::from(cost_ns(set.main()));
        text += &format!(
            "; the world switches that `{}` saves are {} %",
            versus.mode,
            number::decimal(100.0 * saved * cost / cpu)
        );
    }
    text += ".";
    let here = set.average(Metric::Throughput, versus);
    let printed = set.printed(Metric::Throughput, versus);
    if let Some((here, printed)) = here.zip(printed) {
        let percent = (here.ratio - 1.0) * 100.0;
        if percent < printed {
            text += &format!(
                " Throughput moves less than in the paper ({} instead of {})",
                number::change(here.ratio),
                number::printed(printed)
            );
            text += match share < printed {
                true => {
                    ": the baseline has so few exits for its work that all of them together \
                    take less of its CPU time than the paper's guests gained."
                }
                false => ".",
            };
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{BASELINES, PARATICK, PARATICK_TICKS};
    use paratick_core::{
        cause::Cause::{Arm, Halt},
        results::{Plan, PlannedWorkload, Results, Sample},
    };

    /// One workload in four boots, with `arm` and `halt` exits in virtual ticks alone and in both
    /// baselines; ours has none but its halts.
    fn results(ticks: [u64; 2], baseline: [u64; 2]) -> Results {
        let planned = PlannedWorkload::new("pigz", 1, "runs");
        let subjects = [BASELINES[0], BASELINES[1], PARATICK_TICKS, PARATICK];
        let plan = Plan::new(1, subjects, [planned.clone()], 4, 1);
        let mut results = Results::new("sequential", plan);
        for (mode, [arm, halt]) in [
            (BASELINES[0], baseline),
            (BASELINES[1], baseline),
            (PARATICK_TICKS, ticks),
            (PARATICK, [0, 20]),
        ] {
            for round in 1..=4 {
                let sample = Sample {
                    round,
                    exits: Some(paratick_core::exits::Counts {
                        total: arm + halt,
                        by_cause: [(Arm, arm), (Halt, halt)].into(),
                        ..Default::default()
                    }),
                    host_instructions: Some(100_000),
                    guest_instructions: Some(900_000),
                    cpu_ns: Some(1_000_000),
                    duration_ns: Some(1_000_000),
                    ..Sample::default()
                };
                results.add(&planned, mode, sample);
            }
        }
        results.summarize();
        results
    }

    #[test]
    fn what_was_saved_is_named_with_how_much_there_was() {
        let results = results([10, 40], [60, 40]);
        let [text, ours] = &averages(&Set::alone(&results))[..] else { panic!("two modes") };
        for part in [
            "on average in the paper by −50\u{202f}%, here by −50\u{202f}%",
            "`arm` −50.",
            "100 exits in a million instructions",
            "are 10.0 % of its CPU time",
            "Throughput moves less than in the paper (0\u{202f}% instead of +7\u{202f}%).",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(ours.contains("`paratick` changes VM exits on average here by −80"), "{ours}");
        assert!(!ours.contains("paper"), "{ours}");
        assert!(losses(&Set::alone(&results)).is_empty());
    }

    #[test]
    fn every_loss_is_told_with_what_grew() {
        let results = results([50, 70], [60, 40]);
        let losses = losses(&Set::alone(&results));
        assert_eq!(losses.len(), 2);
        for (text, baseline) in losses.iter().zip(BASELINES) {
            let words = format!("in `paratick-ticks` than in `{baseline}`: +20\u{202f}%");
            assert!(text.contains(&words), "{text}");
            assert!(text.contains("`halt` +30") && !text.contains("`arm`"), "{text}");
        }
    }
}
