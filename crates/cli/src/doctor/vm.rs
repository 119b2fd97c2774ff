// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor --vm NAME`: what costs a VM, and what mends it.

use crate::{errors::usage, options::Format, print::errln};
use anyhow::Result;
use paratick_observe::{check, costs, running, Found, State, Wanted, Work};
use paratick_view::{
    number::{decimal, nanos, or_nothing},
    table::Table,
};
use serde::Serialize;
use std::{process::ExitCode, time::Duration};

#[derive(Serialize)]
struct Report<'a> {
    vm: &'a str,
    process: u32,
    /// For how long it was looked at.
    ns: u64,
    costs: Vec<Row<'a>>,
    /// That are no vCPUs; the busiest first.
    threads: Vec<Thread<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    what: &'a str,
    state: &'static str,
    per_second: Option<f64>,
    /// Of one CPU.
    share: Option<f64>,
    found: &'a str,
    mend: &'a str,
}

#[derive(Serialize)]
struct Thread<'a> {
    id: u32,
    name: &'a str,
    wakeups_per_second: f64,
    /// Of one CPU.
    share: f64,
    waits_in: Option<&'a str>,
}

impl Thread<'_> {
    fn of(work: &Work) -> Thread<'_> {
        Thread {
            id: work.id,
            name: &work.name,
            wakeups_per_second: work.per_second,
            share: work.share,
            waits_in: work.waits_in.as_deref(),
        }
    }
}

pub fn run(word: &str, time: Duration, format: &Format) -> Result<ExitCode> {
    check()?;
    let running = running();
    let wanted = Wanted::of(&[word.to_string()], &running);
    let wanted = wanted.map_err(|error| usage(error.to_string()))?;
    let vm = running.iter().find(|vm| wanted.has(vm)).expect("one of them");
    errln!("looking at {} for {} s", vm, time.as_secs_f64());
    let found = costs(vm, time)?;
    let rows = found.costs.iter().map(|cost| Row {
        what: cost.what,
        state: word_of(cost.state),
        per_second: cost.per_second,
        share: cost.share,
        found: &cost.found,
        mend: &cost.mend,
    });
    let report = Report {
        vm: &found.vm.name,
        process: found.vm.process,
        ns: found.vm.ns,
        costs: rows.collect(),
        threads: found.threads.iter().map(Thread::of).collect(),
    };
    format.print(&report, || text(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn word_of(state: State) -> &'static str {
    match state {
        State::Costs => "costs",
        State::Free => "free",
        State::Absent => "absent",
        State::Unknown => "unknown",
    }
}

fn text(found: &Found) -> String {
    let vm = &found.vm;
    let caption = format!("What costs {}, in {}", vm.name, nanos(vm.ns));
    let columns = ["What", "", "A second", "Of one CPU", "Found", "What mends it"];
    let mut table = Table::new(caption, columns).words(3..);
    for cost in &found.costs {
        table.row(
            cost.what,
            [
                word_of(cost.state).to_string(),
                or_nothing(cost.per_second, decimal),
                or_nothing(cost.share, of_one_cpu),
                cost.found.clone(),
                cost.mend.clone(),
            ],
        );
    }
    table.note(
        "Of one CPU: what the host did for the exits; of a quota, for how long its group was held \
         back, on all CPUs together.  Free: less than two a second (a clock: 20) and 0.1 % of a \
         CPU; an iothread, below 1 %; a tick, below 1000 Hz.  Absent: this machine lacks what \
         would end it.",
    );
    table.text() + &threads(&found.threads)
}

fn of_one_cpu(share: f64) -> String {
    decimal(share * 100.0) + " %"
}

fn threads(works: &[Work]) -> String {
    if works.is_empty() {
        return String::new();
    }
    let columns = ["Thread", "Number", "Wake-ups a second", "Of one CPU", "Waits in"];
    let caption = "Threads that work for it, and are no vCPUs";
    let mut table = Table::new(caption, columns).words(4..);
    for work in works {
        table.row(
            &work.name,
            [
                work.id.to_string(),
                decimal(work.per_second),
                of_one_cpu(work.share),
                work.waits_in.clone().unwrap_or_default(),
            ],
        );
    }
    format!("\n{}", table.text())
}
