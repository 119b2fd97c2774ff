// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick halts --top` shows.

use crate::top::{per_second, percent, Column, Line, Page, Pages};
use paratick_core::{
    halts::{Halt, Halts, VcpuHalts, Waker},
    vms::OfVms,
};
use paratick_view::{
    number::{nanos, plural},
    tables::halts::ended_by,
};
use ratatui::layout::Constraint;
use std::collections::BTreeMap;

pub struct Halting(pub Halts);

const VMS: &[Column] = &[
    ("VM", Constraint::Fill(2), true),
    ("vCPU", Constraint::Length(4), false),
    ("Halts/s", Constraint::Length(8), false),
    ("Polled%", Constraint::Length(7), false),
    ("Slept %", Constraint::Length(7), false),
    ("Mean", Constraint::Length(8), false),
    ("Ended by", Constraint::Fill(1), true),
];

const WAKERS: &[Column] = &[
    ("vCPU", Constraint::Length(4), false),
    ("Halts/s", Constraint::Length(8), false),
    ("Polled%", Constraint::Length(7), false),
    ("Slept %", Constraint::Length(7), false),
    ("Mean", Constraint::Length(8), false),
    ("Ended by", Constraint::Fill(1), true),
];

impl Pages for Halting {
    const SORTS: &'static [(char, &'static str)] =
        &[('h', "h halts"), ('p', "p polled"), ('s', "s slept"), ('n', "n name")];

    fn page(&self, open: Option<&str>) -> Option<Page> {
        let mut vms: BTreeMap<u32, Vec<&VcpuHalts>> = BTreeMap::new();
        for vcpu in self.0.vcpus.iter().filter(|vcpu| !vcpu.halts.is_empty()) {
            vms.entry(vcpu.process.unwrap_or(0)).or_default().push(vcpu);
        }
        let ns = self.0.window_ns;
        let head = |what: &str| format!("paratick halts   {what}   last {}", nanos(ns));
        let Some(key) = open else {
            let lines = vms.iter().map(|(vm, vcpus)| {
                let halts: Vec<&Halt> = vcpus.iter().flat_map(|vcpu| &vcpu.halts).collect();
                let most = by_waker(&halts).into_iter().max_by_key(|(_, halts)| halts.len());
                let most = most.map_or("", |(waker, _)| ended_by(waker));
                let before = [self.0.name(*vm), vcpus.len().to_string()];
                line(vm.to_string(), before, &halts, ns, most)
            });
            let (head, lines) = (head(&plural(vms.len(), "VM")), lines.collect());
            return Some(Page { head, columns: VMS, lines, opens: true });
        };
        let (vm, vcpus) = vms.iter().find(|(vm, _)| vm.to_string() == key)?;
        let lines = vcpus.iter().flat_map(|vcpu| {
            let halts: Vec<&Halt> = vcpu.halts.iter().collect();
            let number = vcpu.vcpu;
            by_waker(&halts).into_iter().map(move |(waker, halts)| {
                let by = ended_by(waker);
                line(format!("{number} {by}"), [number.to_string()], &halts, ns, by)
            })
        });
        let (head, lines) = (head(&self.0.name(*vm)), lines.collect());
        Some(Page { head, columns: WAKERS, lines, opens: false })
    }
}

fn by_waker<'a>(halts: &[&'a Halt]) -> BTreeMap<Waker, Vec<&'a Halt>> {
    let mut wakers: BTreeMap<Waker, Vec<&Halt>> = BTreeMap::new();
    for halt in halts {
        wakers.entry(halt.waker).or_default().push(halt);
    }
    wakers
}

/// What there is of some halts, between what else is said of them.
fn line<const N: usize>(
    key: String,
    before: [String; N],
    halts: &[&Halt],
    ns: u64,
    by: &str,
) -> Line {
    let sum = |of: fn(&Halt) -> u64| halts.iter().map(|halt| of(halt)).sum::<u64>();
    let (count, polled, all) = (halts.len() as u64, sum(|one| one.polled_ns), sum(|one| one.ns));
    let slept = all.saturating_sub(polled);
    let numbers =
        [per_second(count, ns), percent(polled, ns), percent(slept, ns), nanos(all / count.max(1))];
    let cells = before.into_iter().chain(numbers).chain([by.to_string()]).collect();
    Line { key, ranks: vec![count, polled, slept], cells, dim: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{
        test::{press, recorded, screen},
        Top,
    };
    use ratatui::crossterm::event::KeyCode::Enter;

    #[test]
    fn vms_have_vcpus_and_who_ended_their_halts() {
        let mut top = Top::of(Halting(recorded("recorded-halts.json")));
        let mut shown = screen(&top, 80, 8);
        press(&mut top, &[Enter]);
        shown += &screen(&top, 80, 14);
        insta::assert_snapshot!(shown);
    }
}
