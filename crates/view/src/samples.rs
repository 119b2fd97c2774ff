// SPDX-License-Identifier: GPL-2.0-only
//! How many samples there are, how their intervals were found, and which of them allow a verdict.

use crate::{
    change::Change,
    number,
    set::{cost_ns, Selection, Set},
};
use paratick_core::{
    results::{Cell, Results, Sample},
    stats::{self, Method, MIN_BOOTSTRAP, MIN_VERDICT},
};

/// What an interval is in these results.
pub fn intervals(selection: &Selection) -> String {
    let range = format!("the range of all samples, of which there are fewer than {MIN_BOOTSTRAP}");
    match methods(selection) {
        (false, false) => "There are no intervals.".into(),
        (true, false) => format!("An interval holds {}.", confidence()),
        (false, true) => format!("Every interval is {range}."),
        (true, true) => format!(
            "An interval holds {}; with fewer than {MIN_BOOTSTRAP} samples it is the range of all.",
            confidence()
        ),
    }
}

/// The same in detail, with the rounds and what they allow to conclude.
pub fn method(selection: &Selection) -> Vec<String> {
    let mut items = Vec::new();
    let counts = by_words(selection, |results| Some(Set::alone(results).samples()));
    if !counts.is_empty() {
        items.push(format!(
            "In each round a fresh guest is booted in every mode, in rotating order, and runs each \
             workload. In each mode: {}.",
            counts.join("; ")
        ));
    }
    if let (true, _) = methods(selection) {
        items.push(format!(
            "From {MIN_BOOTSTRAP} samples on, an interval holds {}: a bootstrap of {} resamples, \
             which draw rounds first and then runs within each; where two modes are compared, each \
             one's rounds for themselves.",
            confidence(),
            stats::RESAMPLES
        ));
    }
    if let (_, true) = methods(selection) {
        items.push(format!(
            "With fewer than {MIN_BOOTSTRAP} samples an interval is the range from the smallest to \
             the largest; of two modes compared, from the smallest ratio that their samples allow \
             to the largest."
        ));
    }
    let few = by_words(selection, |results| {
        let rounds = results.plan.rounds;
        (rounds < MIN_VERDICT as u32).then(|| number::plural(rounds as usize, "round"))
    });
    let verdict = format!(
        "Nothing is concluded from fewer than {MIN_VERDICT} rounds of either \
        mode, however many runs they have"
    );
    items.push(match few.is_empty() {
        true => format!("{verdict}."),
        false => format!("{verdict}. Fewer were measured: {}.", few.join("; ")),
    });
    if selection.results().any(|results| results.plan.rounds == 1) {
        items.push(
            "Where there was one round only, differences from boot to boot are in no interval."
                .into(),
        );
    }
    items
}

/// What averages of these changes cannot say, if anything.
pub fn of_means<'a>(averages: impl IntoIterator<Item = &'a Option<Change>>) -> Option<String> {
    let mut averages = averages.into_iter().flatten();
    let range = averages.any(|average| average.method == Method::Range);
    range.then(|| {
        "Where the workloads' intervals are ranges, the average's is made of them as if \
        they held 95 %; as they need not, that is not claimed of it."
            .into()
    })
}

/// Results for which `words` has the same to say, named together.
fn by_words(selection: &Selection, words: impl Fn(&Results) -> Option<String>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for set in &selection.sets {
        for results in &set.by_cost {
            let name = match set.by_cost.len() {
                1 => set.name(),
                _ => format!("{} at {} ns", set.name(), cost_ns(results)),
            };
            let Some(words) = words(results) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == words) {
                Some((_, names)) => names.push(name),
                None => groups.push((words, vec![name])),
            }
        }
    }
    let words = groups.into_iter();
    words.map(|(words, names)| format!("{words} ({})", names.join("; "))).collect()
}

/// Whether there are bootstrap intervals, and ranges.
fn methods(selection: &Selection) -> (bool, bool) {
    let cells = || selection.results().flat_map(|results| &results.cells);
    let summaries =
        cells().flat_map(|cell| cell.readings.exits.summary.values().flatten().map(|s| s.method));
    let versus = cells().flat_map(|cell| cell.readings.exits.versus.values());
    let compared = versus.flat_map(|figures| figures.values().flatten().map(|c| c.method));
    summaries.chain(compared).fold((false, false), |(bootstrap, range), method| match method {
        Method::Bootstrap => (true, range),
        Method::Range => (bootstrap, true),
    })
}

fn confidence() -> String {
    format!("{:.0} %", stats::CONFIDENCE * 100.0)
}

/// What the emulator's own count of these cells says of the kernel's.
pub fn world_switches<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let samples: Vec<_> = cells.flat_map(|cell| cell.samples()).collect();
    let pair = |sample: &&Sample| {
        sample.world_switches.zip(sample.exits.as_ref().map(|exits| exits.total))
    };
    let pairs: Vec<(u64, u64)> = samples.iter().filter_map(pair).collect();
    let equal = pairs.iter().filter(|(switches, exits)| switches == exits);
    let [all, counted, equal] = [samples.len(), pairs.len(), equal.count()];
    let [of_all, of_counted, in_equal] = [all, counted, equal].map(|n| number::count(n as f64));
    match () {
        () if counted == 0 => "World switches were not counted independently of the exits.".into(),
        () if equal == all => format!(
            "The emulator counted world switches independently of the kernel: equal to the exits \
             in all {of_all} samples."
        ),
        () => format!(
            "The emulator counted world switches independently of the kernel in {of_counted} of \
             {of_all} samples: equal to the exits in {in_equal}."
        ),
    }
}
