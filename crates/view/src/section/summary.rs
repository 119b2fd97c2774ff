// SPDX-License-Identifier: GPL-2.0-only
//! What was found, in a paragraph and a table, computed from the data.

use super::{clock, commands};
use crate::{
    change::{self, Change, Metric, Outcome, Versus, PARATICK_TICKS, TICKLESS_STOP},
    input::Input,
    number,
    page::{Block, Section},
    samples,
    set::{Selection, Set},
    tables::averages,
};
use paratick_core::stats::Verdict;

pub fn section(input: &Input, selection: &Selection) -> Section {
    let mut section = Section::new("summary", "Summary");
    if let Some(text) = clock::lead(selection) {
        section.blocks.push(Block::Lead { text });
    }
    let sets = summed_up(selection);
    let verdicts: Vec<_> = Versus::all().filter_map(|versus| verdict(&sets, versus)).collect();
    if !verdicts.is_empty() {
        for (text, by_metric) in verdicts {
            section.blocks.push(Block::Lead { text });
            section.list(by_metric);
        }
        section.table(averages::averages(&sets));
        section.text(change::SIGNS);
        section.text(
            "Averages are geometric means of the ratios of all workloads in a set; their \
            intervals follow from the workloads' own. By chance, a few in a hundred workloads seem \
            to differ although they do not: believe a small change of a single one only when \
            another run shows it too.",
        );
        if let Some(text) = samples::of_means(&averages_of(&sets)) {
            section.text(text);
        }
    } else {
        section.text(
            "No averages: these files have no programs, and no small workloads, in paratick or \
            paratick-ticks and in another mode.",
        );
    }
    section.text(format!(
        "A change is that of `paratick-ticks`, virtual ticks alone, which is nearest to the \
         paper's paratick, or of `paratick`, which adds halt-until, against the baseline named. {}",
        samples::intervals(selection)
    ));
    let missing: Vec<String> = commands::missing(input, selection)
        .map(|source| format!("{} (`{}`)", source.what, source.command))
        .collect();
    if !missing.is_empty() {
        section.text(format!("Not in this report: {}.", number::list(&missing)));
    }
    let left_out = input.left_out.iter();
    section.list(left_out.map(|what| format!("Left out: {what}")).collect());
    section
}

/// The paper's sets; where there are none, the small workloads.
fn summed_up<'s, 'a>(selection: &'s Selection<'a>) -> Vec<&'s Set<'a>> {
    let sets = selection.evaluated();
    match sets.is_empty() {
        true => selection.of("quick").collect(),
        false => sets,
    }
}

/// Of every set, in every metric, of every mode of ours against every baseline.
fn averages_of(sets: &[&Set]) -> Vec<Option<Change>> {
    let of = |set: &&Set| {
        let of = |versus| Metric::ALL.map(|metric| set.average(metric, versus));
        Versus::all().flat_map(of).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of).collect()
}

#[derive(Default)]
struct Tally {
    wins: usize,
    ties: usize,
    open: usize,
    /// By name, the change with it.
    losses: Vec<String>,
}

impl Tally {
    /// `place` tells the workload from one of the same name in another set.
    fn count(&mut self, metric: Metric, changes: &[(&str, Option<Change>)], place: &str) {
        for (name, change) in changes {
            match (metric.outcome(*change), change) {
                (Outcome::Wins, _) => self.wins += 1,
                (Outcome::Ties, _) => self.ties += 1,
                (Outcome::Loses, Some(change)) => {
                    let change = number::change(change.ratio);
                    self.losses.push(format!("{name}{place} ({change})"));
                }
                _ => self.open += 1,
            }
        }
    }

    fn all(&self) -> usize {
        self.wins + self.ties + self.losses.len() + self.open
    }

    /// `In execution time it wins on 12 and ties on 1`, or that nothing can be said.
    fn words(&self, metric: Metric) -> String {
        let all = self.all();
        if self.open == all {
            return format!("In {} nothing can be concluded", lower(metric));
        }
        let counts = [
            (self.wins, "wins on"),
            (self.ties, "ties on"),
            (self.losses.len(), "loses on"),
            (self.open, "nothing can be concluded on"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = counts
            .map(|(count, verb)| match count == all {
                true => format!("{verb} all"),
                false => format!("{verb} {count}"),
            })
            .collect();
        format!("In {} it {}", lower(metric), number::list(&words))
    }
}

fn lower(metric: Metric) -> String {
    metric.name().to_lowercase().replace("vm ", "VM ")
}

const NAMED: usize = 5;

/// What there is to say of one mode against one baseline, and in every metric; none where it was
/// not measured.
fn verdict(sets: &[&Set], versus: Versus) -> Option<(String, Vec<String>)> {
    let mut tallies = Vec::new();
    for metric in Metric::ALL {
        let mut tally = Tally::default();
        for set in sets {
            let of_bench = sets.iter().filter(|other| other.bench() == set.bench());
            let place = match of_bench.count() {
                1 => String::new(),
                _ => format!(" on {}", number::plural(set.vcpus() as usize, "vCPU")),
            };
            tally.count(metric, &set.changes(metric, versus), &place);
        }
        tallies.push((metric, tally));
    }
    let all = tallies[0].1.all();
    if all == 0 {
        return None;
    }
    let text = measured(versus, all);
    if tallies.iter().all(|(_, tally)| tally.open == tally.all()) {
        return Some((text + ", and nothing can be concluded in any metric.", Vec::new()));
    }
    let by_metric = tallies.iter().map(|(metric, tally)| {
        let words = tally.words(*metric) + &range(sets, *metric, versus);
        match tally.losses.is_empty() {
            true => format!("{words}."),
            false => format!("{words}. It loses on {}.", names(&tally.losses)),
        }
    });
    Some((text + ".", by_metric.collect()))
}

/// The beginning of a verdict: both modes with what they are.
fn measured(versus: Versus, workloads: usize) -> String {
    let (Versus { mode, baseline }, workloads) = (versus, number::plural(workloads, "workload"));
    let whose = match mode {
        PARATICK_TICKS => "virtual ticks alone",
        _ => "with halt-until",
    };
    let what = match baseline {
        TICKLESS_STOP => {
            "which stops the tick at every idle entry where it can and is the paper's baseline"
        }
        _ => "which is what the base kernel does today",
    };
    format!("Against `{baseline}`, {what}, `{mode}` ({whose}) was measured on {workloads}")
}

/// The averages of all sets, from the least to the greatest, and how many of them show nothing.
/// Nothing where one of them has too few boots behind it.
fn range(sets: &[&Set], metric: Metric, versus: Versus) -> String {
    let mut averages: Vec<Change> =
        sets.iter().filter_map(|set| set.average(metric, versus)).collect();
    averages.sort_unstable_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let (Some(low), Some(high)) = (averages.first(), averages.last()) else { return String::new() };
    let few = |average: &Change| average.verdict == Verdict::TooFewSamples;
    if averages.iter().any(few) {
        return String::new();
    }
    let shown = |average: &&Change| matches!(average.verdict, Verdict::Less | Verdict::More);
    let hidden = averages.len() - averages.iter().filter(shown).count();
    let [low, high] = [low, high].map(|average| number::change(average.ratio));
    let range = if low == high { low } else { format!("{low} to {high}") };
    match (averages.len(), hidden) {
        (1, 0) => format!(" ({range} on average)"),
        (1, _) => " (no difference shown on average)".into(),
        (_, 0) => format!(" (averages of the sets: {range})"),
        (all, _) if all == hidden => {
            format!(" (averages of the sets: {range}, no difference shown in any)")
        }
        (all, _) => {
            format!(" (averages of the sets: {range}, no difference shown in {hidden} of {all})")
        }
    }
}

fn names(all: &[String]) -> String {
    match all.len() > NAMED {
        true => format!("{} and {} more", all[..NAMED].join(", "), all.len() - NAMED),
        false => number::list(all),
    }
}
