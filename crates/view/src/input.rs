// SPDX-License-Identifier: GPL-2.0-only
//! What a report is made of.

use crate::{number, set};
use paratick_core::results::Results;

#[derive(Clone, Debug, Default)]
pub struct Input {
    /// No two are of the same bench, size and cost.
    pub results: Vec<Results>,
    pub timelines: Vec<Results>,
    /// What was given and is not shown, and why.
    pub left_out: Vec<String>,
}

impl Input {
    /// Of results and the names of their files.  Of results of one bench, size and cost it keeps
    /// those that began last, or of one begin (a bench that was continued) those with most samples.
    pub fn of(files: impl IntoIterator<Item = (String, Results)>) -> Input {
        let mut input = Input::default();
        let mut named = Vec::new();
        for (name, results) in files {
            match results.bench.as_str() {
                "timeline" => input.timelines.push(results),
                bench if !set::is_known(bench) => input
                    .left_out
                    .push(format!("{name}: this program has no section for bench {bench}.")),
                _ => input.keep_one(&mut named, name, results),
            }
        }
        input.results = named.into_iter().map(|(_, results)| results).collect();
        input
    }

    fn keep_one(&mut self, named: &mut Vec<(String, Results)>, name: String, results: Results) {
        let Some(kept) = named.iter_mut().find(|(_, kept)| set::alike(kept, &results)) else {
            named.push((name, results));
            return;
        };
        let mut other = (name, results);
        if (&other.1.started, samples(&other.1)) > (&kept.1.started, samples(&kept.1)) {
            std::mem::swap(kept, &mut other);
        }
        let told = |(name, results): &(String, Results)| {
            let samples = number::plural(samples(results), "sample");
            format!("{name} (began {}, {samples})", results.started)
        };
        self.left_out.push(format!(
            "{}: {} is of the same bench, size and cost, and later or more complete.",
            told(&other),
            told(kept)
        ));
    }
}

fn samples(results: &Results) -> usize {
    results.cells.iter().map(|cell| cell.samples().len()).sum()
}
