// SPDX-License-Identifier: GPL-2.0-only
//! Which IPIs programs make, and what their targets do: `docs/evaluation/runs.py ipis`.

use crate::{
    generated::table,
    swept::{kept, number},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A run of a program in one mode, as bpftrace saw it.
#[derive(Deserialize)]
struct Run {
    program: String,
    mode: String,
    /// `reschedule` or `call`, the code that sent, what the target did, and how often.
    #[serde(default)]
    sent: Vec<(String, String, String, f64)>,
    /// IPIs that one write sent to several CPUs, by the code.
    #[serde(default)]
    to_several: Vec<(String, f64)>,
    /// What targets were to run, by function.
    #[serde(default)]
    calls: BTreeMap<String, f64>,
    /// Since when targets were halted, in powers of two: from so many microseconds on.
    #[serde(default)]
    halted_us: Vec<(f64, f64)>,
}

/// Wakes a task on a CPU that shares no cache with the waker's, or is idle (kernel/sched/core.c).
const WAKES: &str = "ttwu_queue_wakelist";

impl Run {
    fn sent(&self, which: impl Fn(&str, &str, &str) -> bool) -> f64 {
        let those = self.sent.iter().filter(|(what, code, did, _)| which(what, code, did));
        those.map(|(.., count)| count).sum()
    }

    fn calls(&self, of: impl Fn(&str) -> bool) -> f64 {
        self.calls.iter().filter(|(function, _)| of(function)).map(|(_, count)| count).sum()
    }

    /// The power of two in which the median of the times lies.
    fn halted(&self) -> String {
        let all: f64 = self.halted_us.iter().map(|(_, count)| count).sum();
        let mut so_far = 0.0;
        for (from, count) in &self.halted_us {
            so_far += count;
            if so_far * 2.0 >= all {
                return format!("{} to {}", number(*from), number(from.max(0.5) * 2.0));
            }
        }
        "–".into()
    }

    fn row(&self) -> String {
        let one = self.sent(|_, _, _| true);
        let several: f64 = self.to_several.iter().map(|(_, count)| count).sum();
        let share = |count: f64, of: f64| match of > 0.0 {
            true => format!("{} %", number(100.0 * count / of)),
            false => "–".into(),
        };
        let wakes = self.sent(|_, code, _| code == WAKES);
        let again = self.sent(|what, _, _| what == "reschedule");
        let did = ["ran", "halted"].map(|did| share(self.sent(|_, _, it| it == did), one));
        let tlb = self.calls(|function| function.starts_with("flush_tlb"));
        let rcu = self.calls(|function| function.contains("rcu") || function.starts_with("trc_"));
        let cells = [
            self.program.clone(),
            self.mode.clone(),
            number(one + several),
            share(wakes, one + several),
            share(again, one + several),
            number(tlb),
            number(rcu),
        ];
        format!("| {} | {} | {} |", cells.join(" | "), did.join(" | "), self.halted())
    }
}

pub fn ipis() -> String {
    let kept = kept::<Run>("ipis");
    // Hardly one polled: such a CPU is told without an IPI, unless it is just about to halt.
    for run in &kept.rest.rows {
        let of = |did: &str| run.sent(|_, _, its| its == did);
        assert!(of("polled") < 0.1 * (of("ran") + of("halted")), "{} {}", run.program, run.mode);
    }
    let head = "| program | mode | IPIs | wake-ups | reschedule | TLB | RCU | target \
                ran | halted | for µs |\n|---|---|---|---|---|---|---|---|---|---|";
    let rows: Vec<_> = kept.rest.rows.iter().map(Run::row).collect();
    kept.below(table(head, rows.into_iter()))
}
