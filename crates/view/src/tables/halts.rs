// SPDX-License-Identifier: GPL-2.0-only
//! Halts of vCPUs: what ended them, how long KVM polled, and what rules would have cost.

use crate::{
    number::{self, count, nanos, or_nothing},
    table::Table,
};
use paratick_core::{
    halts::{Halt, Halts, Maximum, Outcome, Regret, Tally, Under, Vm, Waker},
    stats::at_most,
};
use std::collections::BTreeMap;

/// What ended the halts, and how long they were.
pub fn wakers(halts: &Halts) -> Table {
    let columns = ["Ended by", "Halts", "Half at most", "90 % at most", "Blocked", "Timer armed"];
    let vcpus = number::plural(halts.vcpus.len(), "vCPU");
    let window = nanos(halts.window_ns);
    let mut table = Table::new(format!("Halts of {vcpus} in {window}"), columns);
    let mut by_waker: BTreeMap<Waker, Vec<&Halt>> = BTreeMap::new();
    for halt in halts.vcpus.iter().flat_map(|vcpu| &vcpu.halts) {
        by_waker.entry(halt.waker).or_default().push(halt);
    }
    for (waker, halts) in by_waker {
        let mut lengths: Vec<u64> = halts.iter().map(|halt| halt.ns).collect();
        lengths.sort_unstable();
        let at_most = |percent| or_nothing(at_most(&lengths, percent), nanos);
        let those = |is: &dyn Fn(&Halt) -> bool| halts.iter().filter(|halt| is(halt)).count();
        table.row(
            ended_by(waker),
            [
                count(halts.len() as f64),
                at_most(50),
                at_most(90),
                count(those(&|halt| halt.waited) as f64),
                count(those(&|halt| halt.deadline_ns.is_some()) as f64),
            ],
        );
    }
    table
}

/// How many halts began with each limit in force (the article's Graphs 1 and 2).
pub fn limits(halts: &Halts) -> Table {
    let tally = Tally::of_all(halts);
    let mut table =
        Table::new("Limits of polling in force when halts began", ["Limit", "Halts", "Share"]);
    let all = tally.halts.max(1) as f64;
    let mut row = |name: String, halts: u64| {
        table.row(name, [count(halts as f64), number::share(halts as f64 / all)]);
    };
    for (limit, halts) in &tally.limits {
        row(nanos(u64::from(*limit)), *halts);
    }
    if tally.limits_unknown > 0 {
        row("not known".into(), tally.limits_unknown);
    }
    table
}

pub fn regret(regret: &Regret) -> Table {
    let columns = [
        "Rule",
        "Blocks",
        "Polled",
        "In vain",
        "Cost",
        "× clairvoyant",
        "× best fixed window",
        "Expected",
    ];
    let caption = format!(
        "What each rule would have cost for these {} halts, if to block costs {}",
        count(regret.halts as f64),
        nanos(u64::from(regret.cost_ns))
    );
    let mut table = Table::new(caption, columns);
    for row in &regret.rows {
        table.row(
            match row.stock {
                true => row.name.clone(),
                false => format!("{} *", row.name),
            },
            [
                count(row.tally.blocks as f64),
                nanos(row.tally.polled_ns),
                nanos(row.tally.wasted_ns),
                nanos(row.cost.ns),
                number::or_nothing(row.of_clairvoyant, |value| format!("{value:.2}")),
                number::or_nothing(row.of_best_fixed, |value| format!("{value:.2}")),
                nanos(row.expected_ns),
            ],
        );
    }
    table.note(format!(
        "Cost: time polled, and {} for each block. Clairvoyant: knows how long each halt will be; \
         {}. The best window that never changes is {} here. Expected: the cost if a vCPU that need \
         not wake up from a block sends its IPIs sooner. *: not in stock kernels.",
        nanos(u64::from(regret.cost_ns)),
        nanos(regret.clairvoyant.ns),
        nanos(regret.best_fixed_ns),
    ));
    table
}

/// What each VM did, and what would be the best for it; `cost` is that of a block, in ns.
pub fn vms(vms: &[Vm], cost: u32) -> Table {
    let columns =
        ["VM", "vCPUs", "Halts", "Blocks", "Polled", "Cost", "Best rule", "Saves", "Its maximum"];
    let mut table = Table::new("Each VM by itself", columns).words(6..7).words(8..);
    for vm in vms {
        let saving = vm.saving().map(|saving| format!("{:.0} %", 100.0 * saving));
        table.row(
            process(vm),
            [
                vm.vcpus.to_string(),
                count(vm.recorded.halts as f64),
                count(vm.recorded.blocks as f64),
                nanos(vm.recorded.polled_ns),
                nanos(vm.recorded.cost_ns(cost)),
                number::or_nothing(vm.best.as_ref(), |best| best.name.clone()),
                number::or_nothing(saving, |saving| saving),
                vm.maximum.to_string(),
            ],
        );
    }
    table.note(
        "Best rule: that needs no patch, if the VM had it to itself. Its maximum: `halt_poll_ns` \
         of the module, unless the VM has its own by KVM_CAP_HALT_POLL.",
    );
    for vm in vms.iter().filter(|vm| vm.maximum.is_own()) {
        let sums = match vm.maximum.is_exact() {
            true => "",
            false => " How long it is, is not known: the rules' costs are without this VM.",
        };
        table.note(format!(
            "VM {} has its own maximum: the module's has no effect on it.{sums}",
            process(vm)
        ));
    }
    if vms.iter().any(|vm| vm.maximum == Maximum::Unknown) {
        table.note(
            "Not known: it could not be read, and the trace fits the module's. What is said of the \
             VM holds if it has none of its own.",
        );
    }
    table
}

/// Who wins and who loses under each rule, and how much of the cost under the present one.
pub fn outcomes(vms: &[Vm], regret: &Regret) -> Table {
    let columns = ["Rule", "Wins", "Loses", "Not known"];
    let caption = "Who wins and who loses if all VMs get a rule";
    let mut table = Table::new(caption, columns).words(..);
    for row in &regret.rows {
        let those = |outcome: Outcome| {
            let under = vms.iter().filter_map(|vm| Some((vm, vm.under(&row.name)?)));
            list(under.filter(|(_, under)| under.outcome == outcome).collect())
        };
        let stock = if row.stock { "" } else { " *" };
        let cells = [Outcome::Wins, Outcome::Loses, Outcome::NotKnown].map(those);
        table.row(format!("{}{stock}", row.name), cells);
    }
    table.note(
        "Of a VM's cost; less than 5 % of it, or than 0.1 % of the recorded time, is no \
         difference. *: not in stock kernels.",
    );
    table
}

/// So many are named; of the others it is said how many there are.
const NAMED: usize = 4;

fn list(vms: Vec<(&Vm, &Under)>) -> String {
    let named = vms.iter().take(NAMED).map(|(vm, under)| match (vm.now_ns, under.expected_ns) {
        (Some(now @ 1..), Some(then)) => {
            format!("{} {}", process(vm), number::change(then as f64 / now as f64))
        }
        _ => process(vm),
    });
    let mut words: Vec<String> = named.collect();
    if vms.len() > NAMED {
        words.push(format!("{} more", vms.len() - NAMED));
    }
    match words.is_empty() {
        true => number::NOTHING.into(),
        false => words.join(", "),
    }
}

fn process(vm: &Vm) -> String {
    match (&vm.name, vm.process) {
        (Some(name), Some(process)) => format!("{name} (pid {process})"),
        (_, process) => number::or_nothing(process, |process| process.to_string()),
    }
}

pub fn ended_by(waker: Waker) -> &'static str {
    match waker {
        Waker::Timer => "its own timer",
        Waker::VirtualTick => "a virtual tick",
        Waker::Ipi => "another vCPU",
        Waker::Device => "a device",
        Waker::Other => "another interrupt",
        Waker::Unknown => "no interrupt seen",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::halts::{regret as compute, stock_rules, Rule, Side, VcpuHalts};

    fn recorded() -> Halts {
        let halt = |begin: u64, ns: u64, waker: Waker| Halt {
            waker,
            limit_ns: Some(10_000),
            polled_ns: ns.min(10_000),
            waited: ns > 10_000,
            ..Halt::blocked(begin, ns)
        };
        let halts = vec![
            halt(0, 4_000, Waker::Ipi),
            halt(100_000, 5_000, Waker::Ipi),
            Halt { deadline_ns: Some(1_000_000), ..halt(200_000, 1_004_000, Waker::Timer) },
        ];
        let vcpu = VcpuHalts { side: Side::Host, halts, ..VcpuHalts::default() };
        Halts { window_ns: 2_000_000, vcpus: vec![vcpu], ..Halts::default() }
    }

    #[test]
    fn halts_are_shown_by_what_ended_them() {
        let text = wakers(&recorded()).text();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn limits_and_costs_are_shown() {
        let halts = recorded();
        let rules = stock_rules(Side::Host, None, 10_000);
        let regret_of = compute(&halts, Side::Host, (10_000, 0), &rules, None::<Rule>);
        insta::assert_snapshot!(limits(&halts).text() + "\n" + &regret(&regret_of).text());
    }
}
