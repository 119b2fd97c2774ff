// SPDX-License-Identifier: GPL-2.0-only
//! What wakes a guest: how often in all, and by whom.

use crate::{
    number::{count, decimal, list, nanos, or_nothing, plural},
    table::Table,
};
use paratick_core::{
    cause::Cause,
    noise::{Absence, Class},
    wakeups::{self as timers, Advice, Knob, Lateness, Offender, Saving, Source, Summary, Trial},
};
use std::collections::{BTreeMap, BTreeSet};

/// As many offenders as one looks at.
const SHOWN: usize = 20;
/// As many causes as a row has room for.
const CAUSES: usize = 3;

/// In all, and for each second.
pub fn summary(summary: &Summary, with_host: bool) -> Table {
    let seconds = summary.window_ns as f64 / 1e9;
    let caption = format!(
        "What {} did in {}",
        plural(summary.cpus as usize, "CPU"),
        nanos(summary.window_ns)
    );
    let mut table = Table::new(caption, ["", "In all", "A second", "Of them"]);
    table = table.words(3..);
    let mut row = |name: &str, all: u64, of_them: String| {
        table.row(name, [count(all as f64), decimal(all as f64 / seconds), of_them]);
    };
    row("Interrupts", summary.all_interrupts(), parts(&summary.interrupts));
    row("Timers that expired", summary.timer_events, "without the tick's own".into());
    let residency = match summary.residency_ns() {
        Some(ns) => format!("idle for {} on average", nanos(ns)),
        None => String::new(),
    };
    row("Times a CPU became idle", summary.idle_entries, residency);
    if with_host {
        row("VM exits", summary.all_exits(), parts(&summary.exits));
        row("Wake-ups of a pCPU", summary.pcpu_wakeups, String::new());
    }
    if with_host {
        let each = match summary.timer_events {
            0 => "–".into(),
            events => decimal(summary.all_exits() as f64 / events as f64),
        };
        table.note(format!(
            "{each} exits for each timer that expired. Unexplained: {} of {} exits.",
            count(summary.unexplained as f64),
            count(summary.all_exits() as f64)
        ));
    }
    table
}

/// The most frequent first: `halt 20, arm 10`.
fn parts<T: ToString>(counts: &BTreeMap<T, u64>) -> String {
    let mut counts: Vec<(String, u64)> =
        counts.iter().map(|(what, count)| (what.to_string(), *count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts: Vec<String> = counts
        .iter()
        .take(CAUSES)
        .map(|(what, number)| format!("{what} {}", count(*number as f64)))
        .collect();
    let more = if counts.len() > CAUSES { ", …" } else { "" };
    parts.join(", ") + more
}

/// Whose timers they are, with the unit.
pub fn process(one: &Offender) -> String {
    let Some(process) = one.source.process() else { return String::new() };
    let unit = process.unit.as_ref().map_or(String::new(), |unit| format!(" ({unit})"));
    match process.pid {
        Some(pid) => format!("{} {pid}{unit}", process.name),
        None if one.processes > 1 => format!("{} × {}{unit}", one.processes, process.name),
        None => format!("{}{unit}", process.name),
    }
}

/// Who wakes it, the costliest first; `with_host` is whether exits were counted.
pub fn offenders(offenders: &[Offender], window_ns: u64, with_host: bool) -> Table {
    let caption = match with_host {
        true => "What keeps it busy, by exits",
        false => "What keeps it busy, by wake-ups",
    };
    let mut table = match with_host {
        true => Table::new(
            caption,
            [
                "Source",
                "Process",
                "Started in",
                "Class",
                "Expiries",
                "Wake-ups",
                "Exits",
                "Share",
                "Alone",
                "Exits by cause",
            ],
        )
        .words(1..4)
        .words(9..),
        false => {
            let columns = ["Source", "Process", "Started in", "Class", "Expiries", "Wake-ups"];
            Table::new(caption, columns).words(1..4)
        }
    };
    let seconds = window_ns as f64 / 1e9;
    let each = |number: u64| decimal(number as f64 / seconds);
    let all = offenders.iter().map(Offender::all_exits).sum::<u64>().max(1) as f64;
    for one in offenders.iter().take(SHOWN) {
        let (start, class) = match &one.source {
            Source::Timer { timer } => (timer.start.clone(), timer.class.to_string()),
            _ => (None, String::new()),
        };
        let mut cells = vec![
            process(one),
            or_nothing(start, |start| start),
            class,
            each(one.expiries),
            each(one.wakeups),
        ];
        if with_host {
            cells.extend([
                each(one.all_exits()),
                format!("{:.0} %", 100.0 * one.all_exits() as f64 / all),
                each(one.exits_alone),
                parts(&one.exits),
            ]);
        }
        table.row(one.source.to_string(), cells);
    }
    table.note(
        "Numbers are for each second. A timer that another one had woken the CPU for counts as an \
         expiry only. A wake-up that is passed on to another CPU counts for who began it, and so \
         does a tick that goes on for it.",
    );
    if with_host {
        table.note(
            "Alone: exits in rounds that nothing else needed; those would go if the timer waited \
             for something else to wake the CPU.",
        );
    }
    if let Some(more) = offenders.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        table.note(format!("{} more wake it less; JSON has them.", plural(more, "source")));
    }
    table.without_empty_columns()
}

/// By how much timers expire late, for each class.
pub fn lateness(all: &BTreeMap<timers::Class, Lateness>) -> Table {
    let columns = ["Class", "Expiries", "Early", "Late, median", "at most", "Beyond"];
    let mut table = Table::new("How late timers were", columns);
    for (class, late) in all {
        table.row(class.to_string(), late_cells(late));
    }
    table.note(
        "Late: after the time that was asked for; timers of the wheel in full jiffies. Beyond: by \
         how much one was later than its slack, or than where the wheel rounds it to. The \
         scheduler's tick is among them.",
    );
    table
}

pub fn late_cells(late: &Lateness) -> [String; 5] {
    [
        count(late.expiries as f64),
        count(late.early as f64),
        nanos(late.median_ns),
        nanos(late.most_ns),
        or_nothing(late.beyond_ns, nanos),
    ]
}

/// What more slack would save, and where that was tried, what it saved.
pub fn saving(saving: &Saving, counted: Option<&Saving>, with_host: bool) -> Table {
    let names: Vec<String> = saving.processes.iter().cloned().collect();
    let caption = match names.is_empty() {
        true => "No process has a timer with slack".into(),
        false => format!("With a timer slack of {} for {}", nanos(saving.slack_ns), list(&names)),
    };
    let mut table = Table::new(caption, ["", "Now", "Predicted", "Counted"]);
    let mut row = |name: &str, now: u64, predicted: f64, counted: Option<u64>| {
        let counted = or_nothing(counted, |number| count(number as f64));
        table.row(name, [count(now as f64), count(predicted.round()), counted]);
    };
    let expiries = counted.map(|counted| counted.expiries);
    row("Their timers that expired", saving.expiries, saving.predicted_expiries as f64, expiries);
    if with_host {
        let exits = counted.map(|counted| counted.exits);
        row("VM exits", saving.exits, saving.predicted_exits, exits);
    }
    table.without_empty_columns()
}

/// Settings that would end some of the wake-ups, and what each saves.
pub fn advice(advice: &[Advice], window_ns: u64) -> Table {
    let columns = ["Setting", "Saves exits", "Price"];
    let mut table = Table::new("What would end some of it", columns).words(2..);
    let seconds = window_ns as f64 / 1e9;
    for one in advice {
        let saves = decimal(one.saves_exits as f64 / seconds);
        table.row(one.knob.to_string(), [saves, one.price.into()]);
    }
    table.note("Predicted, for each second. --try SETTING --confirm counts it in another guest.");
    table
}

/// What settings would save together, and where they were tried, what they saved.
pub fn trial(trial: &Trial, window_ns: u64) -> Table {
    let names: Vec<String> = trial.knobs.iter().map(Knob::to_string).collect();
    let caption = format!("With {}", list(&names));
    let mut table = Table::new(caption, ["", "Now", "Predicted", "Counted"]);
    let seconds = window_ns as f64 / 1e9;
    let mut row = |name: &str, show: &dyn Fn(u64) -> String| {
        let cells = [Some(trial.exits), trial.predicted_exits, trial.counted_exits];
        table.row(name, cells.map(|exits| or_nothing(exits, show)));
    };
    row("VM exits", &|exits| count(exits as f64));
    row("… a second", &|exits| decimal(exits as f64 / seconds));
    if trial.predicted_exits.is_none() {
        table.note(match trial.knobs[..] {
            [Knob::Moved { .. }] => "Not predicted: no timer of this function woke a CPU.",
            _ => "Not predicted: it is not known what one of the settings ends.",
        });
    }
    table.without_empty_columns()
}

/// The VMs of a host, as it alone sees them.
pub fn vms(absences: &[Absence], names: Option<&BTreeMap<u32, String>>, window_ns: u64) -> Table {
    let caption = format!("What VMs did in {}", nanos(window_ns));
    let columns = ["VM", "Process", "vCPUs", "Exits", "Wake-ups of a pCPU", "Exits by cause"];
    let mut table = Table::new(caption, columns).words(5..);
    let seconds = window_ns.max(1) as f64 / 1e9;
    let mut vms: BTreeMap<u32, Vec<&Absence>> = BTreeMap::new();
    for one in absences {
        vms.entry(one.process).or_default().push(one);
    }
    let mut vms: Vec<(u32, Vec<&Absence>)> = vms.into_iter().collect();
    vms.sort_by_key(|(process, its)| (std::cmp::Reverse(its.len()), *process));
    for (process, its) in vms {
        let vcpus: BTreeSet<u32> = its.iter().map(|one| one.vcpu).collect();
        let slept = |one: &&&Absence| one.class == Class::Halt && one.blocked_ns > 0;
        let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
        for one in &its {
            *causes.entry(one.cause).or_default() += 1;
        }
        table.row(
            or_nothing(names.and_then(|names| names.get(&process)), String::clone),
            [
                process.to_string(),
                count(vcpus.len() as f64),
                decimal(its.len() as f64 / seconds),
                decimal(its.iter().filter(slept).count() as f64 / seconds),
                parts(&causes),
            ],
        );
    }
    table.note(
        "Exits and wake-ups are for each second. Inside a VM, --side guest says who they are.",
    );
    table
}
