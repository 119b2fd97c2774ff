// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick idle --top` shows.

use super::report::Report;
use crate::top::{lost, per_second, Column, Line, Page, Pages};
use paratick_bench::wakeups::Recorded;
use paratick_core::{
    noise::{Absence, Class, HostNoise},
    vms::OfVms,
};
use paratick_view::{
    number::{nanos, plural},
    tables::wakeups::process,
};
use ratatui::layout::Constraint;
use std::collections::{BTreeMap, BTreeSet};

pub struct Wakeups {
    /// Of VMs, or of what wakes this one.
    all: Page,
    host: Option<HostNoise>,
}

const VMS: &[Column] = &[
    ("VM", Constraint::Fill(2), true),
    ("vCPU", Constraint::Length(4), false),
    ("Exits/s", Constraint::Length(8), false),
    ("Wake-ups/s", Constraint::Length(10), false),
    ("Mostly", Constraint::Fill(2), true),
];

const CAUSES: &[Column] = &[
    ("vCPU", Constraint::Length(4), false),
    ("Exits/s", Constraint::Length(8), false),
    ("Wake-ups/s", Constraint::Length(10), false),
    ("Cause", Constraint::Length(10), true),
    ("What", Constraint::Fill(1), true),
];

const SOURCES: &[Column] = &[
    ("Expiry/s", Constraint::Length(8), false),
    ("Wake-ups/s", Constraint::Length(10), false),
    ("Process", Constraint::Fill(1), true),
    ("Source", Constraint::Fill(2), true),
];

impl Pages for Wakeups {
    const SORTS: &'static [(char, &'static str)] =
        &[('w', "w wake-ups"), ('e', "e exits, expiries"), ('n', "n name")];

    fn page(&self, open: Option<&str>) -> Option<Page> {
        let Some(key) = open else { return Some(self.all.clone()) };
        let host = self.host.as_ref()?;
        let (vm, its) = host.vms().into_iter().find(|(vm, _)| vm.to_string() == key)?;
        let mut kinds: BTreeMap<_, Vec<&Absence>> = BTreeMap::new();
        for one in its {
            kinds.entry((one.vcpu, one.cause, one.words())).or_default().push(one);
        }
        let ns = host.window_ns();
        let lines = kinds.iter().map(|((vcpu, cause, words), its)| {
            let after = [cause.to_string(), words.to_string()];
            line(format!("{vcpu} {cause} {words}"), [vcpu.to_string()], its, ns, after)
        });
        let head = format!("paratick idle   {}   last {}", host.name(vm), nanos(ns));
        Some(Page { head, columns: CAUSES, lines: lines.collect(), opens: false })
    }
}

impl Wakeups {
    pub fn of(recorded: Recorded) -> Wakeups {
        match (&recorded.guest, recorded.host) {
            (None, Some(host)) => Wakeups { all: of_host(&host), host: Some(host) },
            (_, host) => {
                let recorded = Recorded { host, ..recorded };
                Wakeups { all: of_guest(&Report::of(&recorded, None, &[])), host: None }
            }
        }
    }
}

fn of_host(host: &HostNoise) -> Page {
    let (ns, lost) = (host.window_ns(), lost(host.lost.values().sum()));
    let vms = host.vms();
    let lines = vms.iter().map(|(vm, its)| {
        let vcpus: BTreeSet<u32> = its.iter().map(|one| one.vcpu).collect();
        let mut causes: BTreeMap<_, u64> = BTreeMap::new();
        its.iter().for_each(|one| *causes.entry(one.cause).or_default() += 1);
        let most = causes.into_iter().max_by_key(|(_, exits)| *exits);
        let before = [host.name(*vm), vcpus.len().to_string()];
        let most = most.map_or(String::new(), |(cause, _)| cause.to_string());
        line(vm.to_string(), before, its, ns, [most])
    });
    let what = plural(vms.len(), "VM");
    let head = format!("paratick idle   {what}   last {}{lost}", nanos(ns));
    Page { head, columns: VMS, lines: lines.collect(), opens: true }
}

/// What there is of some exits, between what else is said of them.
fn line<const B: usize, const A: usize>(
    key: String,
    before: [String; B],
    its: &[&Absence],
    ns: u64,
    after: [String; A],
) -> Line {
    let slept = |one: &&&Absence| one.class == Class::Halt && one.blocked_ns > 0;
    let (exits, woken) = (its.len() as u64, its.iter().filter(slept).count() as u64);
    let numbers = [per_second(exits, ns), per_second(woken, ns)];
    let cells = before.into_iter().chain(numbers).chain(after).collect();
    Line { key, ranks: vec![woken, exits], cells, dim: false }
}

fn of_guest(report: &Report) -> Page {
    let ns = report.window_ns;
    let lines = report.offenders.iter().map(|one| {
        let (process, source) = (process(one), one.source.to_string());
        let key = format!("{process} {source}");
        let cells =
            vec![per_second(one.expiries, ns), per_second(one.wakeups, ns), process, source];
        Line { key, ranks: vec![one.wakeups, one.expiries], cells, dim: false }
    });
    let sources = plural(report.offenders.len(), "source");
    let head = format!("paratick idle   {sources}   last {}", nanos(ns));
    Page { head, columns: SOURCES, lines: lines.collect(), opens: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{
        test::{press, recorded, screen},
        Top,
    };
    use ratatui::crossterm::event::KeyCode::{Char, Enter};

    #[test]
    fn vms_have_causes_and_a_guest_has_what_wakes_it() {
        let both: Recorded = recorded("recorded-idle.json");
        let mut top = Top::of(Wakeups::of(Recorded { guest: None, process: None, ..both }));
        let mut shown = screen(&top, 80, 8);
        press(&mut top, &[Enter, Char('e')]);
        shown += &screen(&top, 80, 14);
        let mut top = Top::of(Wakeups::of(recorded("recorded-idle.json")));
        // There is nothing to open.
        press(&mut top, &[Enter]);
        shown += &screen(&top, 80, 14);
        insta::assert_snapshot!(shown);
    }
}
