// SPDX-License-Identifier: GPL-2.0-only
//! Why the averages are what they are, beside the paper's.

use crate::{
    change::{Metric, BASELINES, PARATICK, TICKLESS_STOP},
    number, paper,
    set::{cost_ns, Set},
};
use paratick_core::{
    cause::Cause,
    mode::Mode,
    results::{Cell, Figure},
    stats::Verdict,
};

/// Causes that are named.
const CAUSES: usize = 3;

/// A paragraph on the averages; none where they cannot be explained.
pub fn averages(set: &Set) -> Option<String> {
    let exits = set.average(Metric::Exits, TICKLESS_STOP)?;
    let printed = paper::averages_of(set.bench(), set.vcpus());
    let (both, paper) = match printed.map(|printed| number::printed(printed.exits)) {
        Some(exits) => ("Here and in the paper, ", format!("in the paper by {exits}, ")),
        None => ("", String::new()),
    };
    let mut text = number::capital(&format!(
        "{both}{}: against `{TICKLESS_STOP}`, paratick changes VM exits on average {paper}here by \
         {}.",
        set.name(),
        exits.text()
    ));
    let pairs = pairs(set, TICKLESS_STOP);
    text += &causes(&pairs);
    if let Some(work) = work(set, &pairs) {
        text += &work;
    }
    Some(text)
}

/// A sentence for every workload in which paratick has more exits than a baseline.
pub fn losses(set: &Set) -> Vec<String> {
    let against = |baseline: Mode| {
        let more = set.changes(Metric::Exits, baseline).into_iter();
        let more = more.filter_map(|(name, change)| Some((name, change?)));
        more.filter(|(_, change)| change.verdict == Verdict::More)
            .map(move |(name, change)| {
                let pair: Vec<_> = pairs(set, baseline)
                    .into_iter()
                    .filter(|(mode, _)| mode.workload == name)
                    .collect();
                let (_, more) = moved(&pair);
                let grown = match more.is_empty() {
                    true => "no cause is known to have grown".into(),
                    false => number::list(&more),
                };
                format!(
                    "`{name}` has more VM exits than in `{baseline}`: {} (medians: {grown}).",
                    change.text()
                )
            })
            .collect::<Vec<_>>()
    };
    BASELINES.into_iter().flat_map(against).collect()
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

type Pair<'a> = (&'a Cell, &'a Cell);

/// Cells of paratick and of the baseline.
fn pairs<'a>(set: &Set<'a>, baseline: Mode) -> Vec<Pair<'a>> {
    let results = set.main();
    let workloads = set.workloads().into_iter();
    workloads
        .filter_map(|(name, _)| {
            Some((results.cell(name, PARATICK)?, results.cell(name, baseline)?))
        })
        .collect()
}

/// The causes with the largest differences, over all pairs: those of which paratick has less, and
/// those of which it has more.
fn moved(pairs: &[Pair]) -> (Vec<String>, Vec<String>) {
    let difference = |cause| -> f64 {
        let of = |cell: &Cell| cell.summary(Figure::Cause(cause)).map(|s| s.median);
        let both = pairs.iter().filter_map(|(mode, base)| of(mode).zip(of(base)));
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

/// Which exits were saved, and which were added.
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
fn work(set: &Set, pairs: &[Pair]) -> Option<String> {
    let sum = |figure| -> Option<f64> {
        let medians = pairs.iter().map(|(_, base)| base.summary(figure));
        medians.map(|summary| Some(summary?.median)).sum()
    };
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
    let modes = pairs.iter().map(|(mode, _)| mode.summary(Figure::Exits));
    let left: Option<f64> = modes.map(|summary| Some(summary?.median)).sum();
    if let Some(saved) = left.map(|left| exits - left).filter(|saved| *saved > 0.0) {
        let cost = f64::from(cost_ns(set.main()));
        text += &format!(
            "; the world switches that paratick saves are {} %",
            number::decimal(100.0 * saved * cost / cpu)
        );
    }
    text += ".";
    let here = set.average(Metric::Throughput, TICKLESS_STOP);
    let printed = paper::averages_of(set.bench(), set.vcpus());
    if let Some((here, printed)) = here.zip(printed) {
        let percent = (here.ratio - 1.0) * 100.0;
        if percent < printed.throughput {
            text += &format!(
                " Throughput moves less than in the paper ({} instead of {})",
                number::change(here.ratio),
                number::printed(printed.throughput)
            );
            text += match share < printed.throughput {
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
    use paratick_core::{
        cause::Cause::{Arm, Halt},
        results::{Environment, Plan, PlannedWorkload, Results, Sample, SCHEMA},
    };

    /// One workload in four boots, with `arm` and `halt` exits in paratick and in both baselines.
    fn results(paratick: [u64; 2], baseline: [u64; 2]) -> Results {
        let planned = PlannedWorkload {
            workload: "pigz".into(),
            work: 1,
            unit: "runs".into(),
            program: None,
        };
        let mut results = Results {
            schema: SCHEMA.into(),
            tool_version: String::new(),
            command: Vec::new(),
            bench: "sequential".into(),
            started: String::new(),
            plan: Plan {
                vcpus: 1,
                guests: 1,
                subjects: [BASELINES[0], BASELINES[1], PARATICK].map(Into::into).to_vec(),
                workloads: vec![planned.clone()],
                rounds: 4,
                rounds_at_most: None,
                precision: None,
                repeats: 1,
                idle_entries: false,
            },
            environment: Environment::default(),
            cells: Vec::new(),
            problems: Vec::new(),
        };
        for (mode, [arm, halt]) in
            [(BASELINES[0], baseline), (BASELINES[1], baseline), (PARATICK, paratick)]
        {
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
        let text = averages(&Set::alone(&results)).unwrap();
        for part in [
            "on average in the paper by −50\u{202f}%, here by −50\u{202f}%",
            "`arm` −50.",
            "100 exits in a million instructions",
            "are 10.0 % of its CPU time",
            "Throughput moves less than in the paper (0\u{202f}% instead of +7\u{202f}%).",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(losses(&Set::alone(&results)).is_empty());
    }

    #[test]
    fn every_loss_is_told_with_what_grew() {
        let results = results([50, 70], [60, 40]);
        let losses = losses(&Set::alone(&results));
        assert_eq!(losses.len(), 2);
        for (text, baseline) in losses.iter().zip(BASELINES) {
            assert!(text.contains(&format!("than in `{baseline}`: +20\u{202f}%")));
            assert!(text.contains("`halt` +30") && !text.contains("`arm`"), "{text}");
        }
    }
}
