// SPDX-License-Identifier: GPL-2.0-only
//! The table of exits by cause and reason, per vCPU.

use comfy_table::{presets::NOTHING, CellAlignment, Table};
use paratick_core::{
    exits::{ExitCount, WindowCounts},
    reason,
};
use std::collections::BTreeMap;

/// One table per window; `whole` is the one around a command that marked none itself.
pub fn tables(windows: &[WindowCounts], whole: u32) -> String {
    if windows.is_empty() {
        return "no window of exits was closed\n".into();
    }
    windows.iter().map(|window| table(window, whole)).collect()
}

fn table(window: &WindowCounts, whole: u32) -> String {
    let mut rows: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for (number, vcpu) in window.vcpus.iter().enumerate() {
        for exit in &vcpu.exits {
            let key = (exit.cause.to_string(), describe(exit));
            let counts = rows
                .entry(key)
                .or_insert_with(|| vec![0; window.vcpus.len()]);
            counts[number] += exit.count;
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    let mut table = Table::new();
    table.load_preset(NOTHING);
    let vcpus = window
        .vcpus
        .iter()
        .map(|vcpu| format!("vCPU {}", vcpu.vcpu));
    let head = ["cause", "reason"].map(String::from).into_iter();
    table.set_header(head.chain(vcpus).chain(["total".into()]));
    for ((cause, reason), counts) in &rows {
        table.add_row(line(cause, reason, counts));
    }
    let totals: Vec<u64> = window.vcpus.iter().map(|vcpu| vcpu.total()).collect();
    table.add_row(line("all", "", &totals));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let name = match window.window {
        number if number == whole => "the command".into(),
        number => format!("window {number}"),
    };
    let ticks = match window.ticks_delivered() {
        Some(ticks) => format!(", {ticks} virtual ticks delivered"),
        None => String::new(),
    };
    let milliseconds = window.duration_ns() as f64 / 1e6;
    format!("\nVM exits during {name} ({milliseconds:.1} ms on the host's clock{ticks})\n{table}\n")
}

fn line(cause: &str, reason: &str, counts: &[u64]) -> Vec<String> {
    let total = counts.iter().sum::<u64>();
    let counts = counts.iter().chain([&total]).map(u64::to_string);
    [cause, reason]
        .map(String::from)
        .into_iter()
        .chain(counts)
        .collect()
}

fn describe(exit: &ExitCount) -> String {
    match exit.msr {
        Some(msr) => format!("{} {}", exit.reason, reason::msr_name(msr)),
        None => exit.reason.clone(),
    }
}
