// SPDX-License-Identifier: GPL-2.0-only
//! What was printed about halt polling, and what came of it here.

use super::polling::{
    compare, gap, guests, rules, Compared, HALTS, RULE_2021, RULE_DEFAULT, RULE_FLOOR, RULE_PAPER,
};
use crate::{
    change::{Change, TICKLESS_POLL},
    number,
    set::Set,
    table::Table,
};
use paratick_core::{
    catalogue::polling::{Claim, Source, PRINTED},
    cause::Cause,
    results::{Cell, Figure},
    stats::Verdict,
};

/// Of fewer, no share is given.
const FEWEST_HALTS: u64 = 100;
const NOT_MEASURED: &str = "not measured";
/// Of the exits that polling and ticks are about.
const MIX: [Cause; 5] = [Cause::Halt, Cause::Arm, Cause::Stop, Cause::Expiry, Cause::Ipi];

pub fn table(set: &Set) -> Table {
    let columns = ["What", "Printed", "Here"];
    let caption = format!("What was printed, and what was measured here: {}", set.name());
    let mut table = Table::new(caption, columns).words(..);
    for source in Source::ALL {
        table.group(number::capital(source.name()));
        for printed in PRINTED.iter().filter(|printed| printed.source == source) {
            let here = ours(set, printed.claim).unwrap_or(NOT_MEASURED.into());
            table.row(printed.what, [printed.value.to_string(), here]);
        }
    }
    table.note(
        "Here: from the least to the greatest workload, by the medians; performance is work per \
         time on the host's clock. The rules' limits are those of `docs/halt-polling.md`.",
    );
    table
}

/// None of what was not measured.
fn ours(set: &Set, claim: Claim) -> Option<String> {
    use Claim::*;
    let rule = |rule: &'static str, base: &'static str| {
        move |set: &Set, cells: &[&Cell], figure| {
            let compared = rules(set, cells);
            compare(compared.named(rule)?, compared.named(base)?, figure)
        }
    };
    let polling = |set: &Set, cells: &[&Cell], figure| {
        let compared = guests(set, cells);
        compare(compared.named(&TICKLESS_POLL.to_string())?, compared.base?, figure)
    };
    match claim {
        ExitMix => each(set, |_, compared| percent(mix(compared.base?)?)),
        MostAtZero => each(set, |_, compared| percent(at(&compared, RULE_2021, 0)?)),
        FewestAtMaximum => each(set, |_, compared| percent(at(&compared, RULE_2021, 200_000)?)),
        ZeroOptimized => each(set, |_, compared| {
            let [zero, floor] = [RULE_PAPER, RULE_FLOOR].map(|rule| at(&compared, rule, 0));
            Some(format!("{} / {}", percent(zero?)?, percent(floor?)?))
        }),
        HostTime => range(set, speed(rule(RULE_PAPER, RULE_2021))),
        ShrinkTime => range(set, speed(rule(RULE_DEFAULT, RULE_2021))),
        HostSwitches => switches(set),
        HostHalts => range(set, |set, cells| rule(RULE_PAPER, "none")(set, cells, HALTS)),
        GuestTime => range(set, speed(polling)),
        GuestHalts => range(set, |set, cells| polling(set, cells, HALTS)),
        GuestCycles => range(set, |set, cells| polling(set, cells, Figure::InstructionsPerS)),
        IdleCost => each(set, |name, compared| {
            let cost = |rule: &str| {
                let rate = compared.named(rule)?.median(Figure::InstructionsPerS)?;
                percent(rate / 1e9)
            };
            let costs = format!("{}, –, {}", cost("none")?, cost(RULE_2021)?);
            (name == "idle").then_some(costs)
        }),
        PingPong => ping_pong(set),
        NativeGap => native_gap(set),
        Power | Network | ShrinkPower => None,
    }
}

/// How much faster the work is done.
fn speed(
    compare: impl Fn(&Set, &[&Cell], Figure) -> Option<Change>,
) -> impl Fn(&Set, &[&Cell]) -> Option<Change> {
    move |set, cells| {
        let time = compare(set, cells, Figure::DurationNs)?;
        let verdict = Verdict::of(1.0 / time.high, 1.0 / time.low);
        let verdict = match time.verdict {
            Verdict::TooFewSamples => time.verdict,
            _ => verdict,
        };
        Some(Change { ratio: 1.0 / time.ratio, verdict, ..time })
    }
}

/// `pingpong 12 %, sleep 3 %`: of every workload that has it.
fn each(set: &Set, of: impl Fn(&str, Compared) -> Option<String>) -> Option<String> {
    let workloads = set.workloads().into_iter();
    let told = workloads.filter_map(|(name, cells)| {
        let told = of(name, rules(set, &cells))?;
        Some(format!("{name} {told}"))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// `−12 % (sleep) to +3 % (idle), no difference shown in 3 of 7`.
fn range(set: &Set, of: impl Fn(&Set, &[&Cell]) -> Option<Change>) -> Option<String> {
    let workloads = set.workloads().into_iter();
    let changes = workloads.filter_map(|(name, cells)| Some((name, of(set, &cells)?)));
    let mut changes: Vec<(&str, Change)> = changes.collect();
    changes.sort_by(|(_, one), (_, other)| one.ratio.total_cmp(&other.ratio));
    let (first, last) = (changes.first()?, changes.last()?);
    let written =
        |(name, change): &(&str, Change)| format!("{} ({name})", number::change(change.ratio));
    let few = changes.iter().any(|(_, change)| change.verdict == Verdict::TooFewSamples);
    let open = |(_, change): &&(&str, Change)| change.verdict == Verdict::NoDifferenceShown;
    let verdict = match (few, changes.iter().filter(open).count()) {
        (true, _) => "too few boots to conclude anything".into(),
        (false, open) => format!("no difference shown in {open} of {}", changes.len()),
    };
    Some(format!("{} to {}, {verdict}", written(first), written(last)))
}

/// `sleep −9.0 %, −4.0 %`: how far performance is below that on the host itself, before and with
/// the guest's polling.
fn native_gap(set: &Set) -> Option<String> {
    let workloads = set.workloads().into_iter();
    let told = workloads.filter_map(|(name, cells)| {
        let before = rules(set, &cells).named(RULE_2021)?;
        let after = guests(set, &cells).named(&TICKLESS_POLL.to_string())?;
        let below = |cell: &Cell| Some(number::change(1.0 / gap(cell, &cells)?));
        Some(format!("{name} {}, {}", below(before)?, below(after)?))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Of all workloads together, and the least and the greatest.
fn switches(set: &Set) -> Option<String> {
    let mut all = [0, 0];
    let mut by_workload = Vec::new();
    for (name, cells) in set.workloads() {
        let compared = rules(set, &cells);
        let of = |rule| Some(compared.named(rule)?.readings.halts.as_ref()?.tally.switches);
        let Some((paper, before)) = of(RULE_PAPER).zip(of(RULE_2021)) else { continue };
        all[0] += paper;
        all[1] += before;
        if before > 0 {
            by_workload.push((name, paper as f64 / before as f64));
        }
    }
    by_workload.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let (first, last) = (by_workload.first()?, by_workload.last()?);
    let written = |(name, ratio): &(&str, f64)| format!("{} ({name})", number::change(*ratio));
    let whole = number::change(all[0] as f64 / all[1] as f64);
    Some(format!("{whole} of all; {} to {}; one run each", written(first), written(last)))
}

/// What a round trip takes: on the host itself nothing was measured.
fn ping_pong(set: &Set) -> Option<String> {
    let (_, cells) = set.workloads().into_iter().find(|(name, _)| *name == "pingpong")?;
    let (rules, guests) = (rules(set, &cells), guests(set, &cells));
    let polling = guests.named(&TICKLESS_POLL.to_string());
    let cells = [rules.named(RULE_DEFAULT), polling, rules.base];
    let [host, guest, never] = cells.map(|cell| {
        let cell = cell?;
        Some(cell.median(Figure::DurationNs)? / cell.work as f64 / 1e3)
    });
    let us = |value: Option<f64>| number::or_nothing(value, number::decimal);
    host.or(guest)?;
    Some(format!("–, {}, {} µs; nobody polls: {} µs", us(host), us(guest), us(never)))
}

fn mix(cell: &Cell) -> Option<f64> {
    let all = cell.median(Figure::Exits).filter(|all| *all > 0.0)?;
    let parts: Option<f64> = MIX.iter().map(|cause| cell.median(Figure::Cause(*cause))).sum();
    Some(parts? / all)
}

fn at(compared: &Compared, rule: &str, limit: u32) -> Option<f64> {
    let halts = compared.named(rule)?.readings.halts.as_ref()?;
    halts.share_at(limit).filter(|_| halts.tally.halts >= FEWEST_HALTS)
}

fn percent(share: f64) -> Option<String> {
    Some(format!("{}{}%", number::decimal(100.0 * share), number::NARROW_SPACE))
}
