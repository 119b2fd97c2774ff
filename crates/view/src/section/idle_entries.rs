// SPDX-License-Identifier: GPL-2.0-only
//! Why the baseline's kernel keeps its tick when a vCPU goes idle.

use crate::{
    number,
    page::Section,
    set::Set,
    tables::idle::{counted, table},
};
use paratick_core::idle::IdleEntries;
use std::cmp::Reverse;

const ABOUT: &str = "When a vCPU goes idle, its kernel looks for the next event. If that is due \
    within the tick's period, the kernel keeps its tick: then the baseline has nothing to stop and \
    nothing to restart, its tick costs no more than it would anyway, and a guest in \
    `paratick-ticks` has to arm a timer instead; one in `paratick` hands the deadline over with \
    its halt. The more often the tick is kept, the less is there to save when vCPUs go idle and \
    wake; what is saved while they run is another matter.";
const ABOUT_RCU: &str = "Callbacks that wait for RCU are such an event. They come for instance \
    from threads that end (`delayed_put_pid`, `thread_stack_free_rcu`), from names that were \
    looked up in file systems in memory (`__d_free`), and from memory that is mapped and unmapped \
    (`mt_free_rcu` since Linux 6.1, `vm_area_free_rcu_cb` since 6.4; the paper ran 5.10).";
const COUNTED: &str = "Counted by probes in one more run of each benchmark, in `tickless-stop`: \
    RCU's callbacks can also wait where the tick was stopped before.";
/// How many of RCU's callbacks are named.
const CALLBACKS: usize = 6;
/// With a smaller share of looks that keep the tick, why it is kept explains nothing.
const HARDLY_EVER: f64 = 0.05;

/// Where the paragraphs that hold for every bench stand.
#[derive(Default)]
pub struct Told {
    about: Option<&'static str>,
    rcu: bool,
}

/// A table for each set whose idle entries were counted, if there is any.  What `told` says was
/// explained before is not explained again.
pub fn add(
    section: &mut Section,
    sets: &[&Set],
    (bench, title): (&str, &'static str),
    told: &mut Told,
) {
    let tables: Vec<_> = sets.iter().filter_map(|set| Some((set, table(set)?))).collect();
    if tables.is_empty() {
        return;
    }
    section.heading(format!("{bench}-idle"), "Why the tick stays");
    let first = *told.about.get_or_insert(title);
    match first == title {
        true => section.text(format!("{ABOUT} {COUNTED}")),
        false => section.text(format!(
            "What is counted here, and how, is said under the same heading of “{first}”."
        )),
    }
    for (set, table) in tables {
        let (kept, looks) = kept(set);
        let often = kept as f64 > HARDLY_EVER * looks as f64;
        if often && !std::mem::replace(&mut told.rcu, true) {
            section.text(ABOUT_RCU);
        }
        section.table(table);
        match callbacks(set).filter(|_| often) {
            Some(callbacks) => section.text(callbacks),
            None if often => {}
            None => section.text(format!(
                "In {} the tick was kept at {} of {}: this explains little here.",
                set.name(),
                number::count(kept as f64),
                match looks {
                    1 => "1 look".into(),
                    looks => format!("{} looks", number::count(looks as f64)),
                }
            )),
        }
    }
}

/// How often the tick was kept, of how many looks, in all benchmarks together.
fn kept(set: &Set) -> (u64, u64) {
    counted(set).fold((0, 0), |(kept, looks), (_, entries)| {
        (kept + entries.kept, looks + entries.decisions)
    })
}

/// Whose callbacks RCU had to call, in all benchmarks together; none: no callback was counted.
fn callbacks(set: &Set) -> Option<String> {
    let mut sum = IdleEntries::default();
    for (_, entries) in counted(set) {
        sum.add(entries.clone());
    }
    let mut callbacks: Vec<_> = sum.rcu_callbacks.into_iter().collect();
    callbacks.sort_by_key(|(function, count)| (Reverse(*count), function.clone()));
    let callbacks = callbacks.into_iter().take(CALLBACKS);
    let callbacks: Vec<String> = callbacks
        .map(|(function, count)| format!("`{function}` {}", number::count(count as f64)))
        .collect();
    (!callbacks.is_empty()).then(|| {
        format!(
            "Callbacks given to RCU, the most frequent of all these runs together: {}.",
            number::list(&callbacks)
        )
    })
}
