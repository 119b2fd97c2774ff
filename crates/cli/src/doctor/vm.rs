// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor --vm NAME`: what costs a VM, and what mends it.

use crate::{errors::usage, options::Format, print::errln};
use anyhow::Result;
use paratick_core::observed::Vm;
use paratick_observe::{check, costs, running, Cost, State, Wanted};
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

pub fn run(word: &str, time: Duration, format: &Format) -> Result<ExitCode> {
    check()?;
    let running = running();
    let wanted = Wanted::of(&[word.to_string()], &running);
    let wanted = wanted.map_err(|error| usage(error.to_string()))?;
    let vm = running.iter().find(|vm| wanted.has(vm)).expect("one of them");
    errln!("looking at {} for {} s", vm, time.as_secs_f64());
    let (vm, costs) = costs(vm, time)?;
    let rows = costs.iter().map(|cost| Row {
        what: cost.what,
        state: word_of(cost.state),
        per_second: cost.per_second,
        share: cost.share,
        found: &cost.found,
        mend: &cost.mend,
    });
    let report = Report { vm: &vm.name, process: vm.process, ns: vm.ns, costs: rows.collect() };
    format.print(&report, || text(&vm, &costs))?;
    Ok(ExitCode::SUCCESS)
}

fn word_of(state: State) -> &'static str {
    match state {
        State::Costs => "costs",
        State::Free => "free",
        State::Unknown => "unknown",
    }
}

fn text(vm: &Vm, costs: &[Cost]) -> String {
    let caption = format!("What costs {}, in {}", vm.name, nanos(vm.ns));
    let columns = ["What", "", "A second", "Of one CPU", "Found", "What mends it"];
    let mut table = Table::new(caption, columns).words(3..);
    for cost in costs {
        table.row(
            cost.what,
            [
                word_of(cost.state).to_string(),
                or_nothing(cost.per_second, decimal),
                or_nothing(cost.share, |share| decimal(share * 100.0) + " %"),
                cost.found.clone(),
                cost.mend.clone(),
            ],
        );
    }
    table.note(
        "Of one CPU: what the host did for the exits; of a quota, for how long its group was held \
         back, on all CPUs together.  Free: less than two a second and 0.1 % of a CPU; an \
         iothread, below 1 %; a tick, below 1000 Hz.  Nobody tells a host whether AVIC or APICv \
         is inhibited, or whether a guest reads kvm-clock: neither is here.",
    );
    table.text()
}
