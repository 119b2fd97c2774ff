// SPDX-License-Identifier: GPL-2.0-only
//! Exits of one command by cause and reason, per vCPU.

use crate::{number, table::Table};
use paratick_core::exits::{ExitCount, WindowCounts};
use std::{cmp::Reverse, collections::BTreeMap};

/// Of one window; `name` is what ran in it.
pub fn table(window: &WindowCounts, name: &str) -> Table {
    let mut rows: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for (number, vcpu) in window.vcpus.iter().enumerate() {
        for exit in &vcpu.exits {
            let counts = rows.entry((exit.cause.to_string(), describe(exit)));
            counts.or_insert_with(|| vec![0; window.vcpus.len()])[number] += exit.count;
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, counts)| Reverse(counts.iter().sum::<u64>()));
    let ticks = window.ticks_delivered();
    let ticks = ticks.map(|ticks| format!(", {ticks} virtual ticks delivered"));
    let caption = format!(
        "VM exits during {name} ({:.1} ms on the host's clock{})",
        window.duration_ns() as f64 / 1e6,
        ticks.unwrap_or_default()
    );
    let vcpus = window.vcpus.iter().map(|vcpu| format!("vCPU {}", vcpu.vcpu));
    let head = ["Cause", "Reason"].map(String::from).into_iter();
    let mut table = Table::new(caption, head.chain(vcpus).chain(["Total".into()])).words(1..2);
    let totals = window.vcpus.iter().map(|vcpu| vcpu.total()).collect();
    for ((cause, reason), counts) in
        rows.into_iter().chain([(("all".into(), String::new()), totals)])
    {
        let total = counts.iter().sum::<u64>();
        let counts = counts.iter().chain([&total]);
        let counts = counts.map(|count| number::count(*count as f64));
        table.row(cause, [reason].into_iter().chain(counts));
    }
    table
}

fn describe(exit: &ExitCount) -> String {
    match &exit.about {
        Some(about) => format!("{} {about}", exit.reason),
        None => exit.reason.clone(),
    }
}
