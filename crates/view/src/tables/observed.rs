// SPDX-License-Identifier: GPL-2.0-only
//! What the VMs of a machine did, by cause.

use crate::{
    number::{self, count, decimal, nanos},
    table::Table,
};
use paratick_core::observed::{
    mostly, sum, Bound, Change, Exits, Missing, Observed, Rate, Spares, Ticks, Vm, Would,
};

pub fn observed(seen: &Observed) -> Table {
    let caption = format!("Exits in {}, and where their time went", nanos(seen.ns));
    let columns = [
        "Cause",
        "Exits/s",
        "CPU",
        "Mean",
        "99 % within",
        "KVM",
        "VMM",
        "Interrupts",
        "Blocked",
        "Steal",
        "Mostly",
    ];
    let mut table = Table::new(caption, columns).words(10..);
    for vm in &seen.vms {
        table.group(title(vm));
        for (cause, exits) in vm.causes() {
            table.row(cause.name(), cells(vm, &exits));
        }
        if vm.exits.is_empty() {
            table.row("no exit", (0..10).map(|_| number::NOTHING.into()));
        } else {
            table.row("all", cells(vm, &vm.exits.iter().collect::<Vec<_>>()));
        }
    }
    table.note(
        "CPU: what the host did for these exits (KVM, VMM and interrupts), of one CPU.  99 % \
         within: the end of a histogram's bucket, so the exact time may be half of it.  Blocked: \
         the vCPU's thread slept.  Steal: it could have run, and another one did.",
    );
    for note in notes(&seen.missing()) {
        table.note(note);
    }
    table
}

/// What is not in the numbers, in sentences.
pub fn notes(missing: &Missing) -> Vec<String> {
    let mut notes = missing.lacks.clone();
    if missing.vmm_end_unknown {
        notes.push(
            "VMM: with KVM's part after it, for this kernel does not tell them apart.".into(),
        );
    }
    if missing.lost > 0 {
        notes.push(format!(
            "Lost: {} exits found no room, and are in no row{}.",
            count(missing.lost as f64),
            match missing.lost_of_unknown {
                0 => String::new(),
                unknown => format!("; of {} the VM is not known", count(unknown as f64)),
            }
        ));
    }
    notes
}

fn who(name: &str, process: u32) -> String {
    match name == process.to_string() {
        true => format!("Process {process}"),
        false if process == 0 => name.into(),
        false => format!("{name} (process {process})"),
    }
}

fn title(vm: &Vm) -> String {
    let who = who(&vm.name, vm.process);
    let lost = match vm.lost {
        0 => String::new(),
        lost => format!(", {} exits lost", count(lost as f64)),
    };
    let ended = if vm.ended { ", ended" } else { "" };
    let vcpus = number::plural(vm.vcpus(), "vCPU");
    format!(
        "{who}: {vcpus}, {} exits in {}{lost}{ended}",
        count(vm.all().count as f64),
        nanos(vm.ns)
    )
}

fn cells(vm: &Vm, exits: &[&Exits]) -> Vec<String> {
    let spent = sum(exits.iter().copied());
    let most = mostly(exits.iter().copied());
    let placed = |text: String| match spent.is_placed() {
        true => text,
        false => number::NOTHING.into(),
    };
    vec![
        // All at one moment, in a recording of perf's.
        if vm.ns > 0 { decimal(vm.per_second(spent.count)) } else { number::NOTHING.into() },
        placed(percent(vm.share(spent.cpu_ns()))),
        number::or_nothing(spent.mean_ns(), nanos),
        number::or_nothing(spent.at_most(0.99), bound),
        placed(nanos(spent.kvm_ns)),
        placed(nanos(spent.vmm_ns)),
        placed(nanos(spent.interrupts_ns)),
        placed(nanos(spent.blocked_ns)),
        placed(nanos(spent.steal_ns)),
        number::or_nothing(most, |(words, share)| match share < 0.995 {
            true => format!("{words} {:.0} %", share * 100.0),
            false => words,
        }),
    ]
}

/// What would spare the VMs exits; none where nothing would.
pub fn would(would: &[Would]) -> Option<Table> {
    let mut table = Table::new("What would spare exits", ["Change", "Exits/s", "Of all"]);
    for of_vm in would.chunk_by(|one, next| (one.process, one.vm) == (next.process, next.vm)) {
        table.group(who(of_vm[0].vm, of_vm[0].process));
        for one in of_vm {
            let name = match (one.by, one.ticks) {
                (Spares::TickRate, Some(Ticks { guest_hz, to_hz })) => {
                    format!("a tick of {} Hz, not {}", to_hz.0, guest_hz.0)
                }
                (Spares::TickRate, None) => "a slower tick".into(),
                (Spares::Series, _) => "paratick's series".into(),
                (Spares::Clock, _) => "a clock without exits".into(),
                (Spares::Eoi, _) => "EOIs without exits".into(),
            };
            let cells = [decimal(one.spares_per_second), percent(one.share)];
            table.row(name, cells.map(|number| format!("−{number}")).to_vec());
        }
    }
    table.note(format!(
        "Predicted, each by itself; docs/exits.md says how well.  Series: of a Linux guest, with \
         the series on both sides.  {}Clock, EOIs: `paratick doctor --vm NAME` says how.  For \
         polls, see `paratick halts`.",
        match would.iter().any(|one| one.by == Spares::TickRate) {
            true => "Tick: if it is as fast as the exits of busy vCPUs suggest.  ",
            false => "",
        }
    ));
    (!would.is_empty()).then_some(table)
}

pub fn change(change: &Change) -> Table {
    let columns = ["Cause", "Exits/s", "after", "CPU", "after", "Steal", "after", "Mean", "after"];
    let mut table = Table::new("Exits before and after", columns);
    for vm in &change.vms {
        table.group(&vm.name);
        for row in &vm.causes {
            let both = |write: &dyn Fn(&Rate) -> String| {
                [row.before, row.after].map(|rate| number::or_nothing(rate.as_ref(), write))
            };
            let cells = [
                both(&|rate| number::or_nothing(rate.exits_per_second, decimal)),
                both(&|rate| number::or_nothing(rate.cpu, percent)),
                both(&|rate| number::or_nothing(rate.steal, percent)),
                both(&|rate| number::or_nothing(rate.mean_ns, nanos)),
            ];
            table.row(row.cause.map_or("all", |cause| cause.name()), cells.concat());
        }
    }
    table.note("–: the VM was not there, there was no such exit, or it is not known.");
    let [before, after] = [&change.before, &change.after].map(notes);
    for note in &before {
        // Two looks at one machine often lack the same.
        let which = if after.contains(note) { "Both" } else { "Before" };
        table.note(format!("{which}: {note}"));
    }
    for note in after.iter().filter(|note| !before.contains(note)) {
        table.note(format!("After: {note}"));
    }
    table
}

pub fn bound(bound: Bound) -> String {
    match bound {
        Bound::AtMost(ns) => nanos(ns),
        Bound::Above(ns) => format!("> {}", nanos(ns)),
    }
}

/// Of one CPU.
pub fn percent(share: f64) -> String {
    format!("{} %", decimal(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::{
        cause::Cause,
        observed::{Kind, Spent, SCHEMA},
        units::Hz,
    };

    fn exits(vcpu: u32, cause: Cause, reason: &str, about: Option<&str>, spent: Spent) -> Exits {
        let about = about.map(Into::into);
        Exits { vcpu, kind: Kind { cause, reason: reason.into(), about }, spent }
    }

    fn spent(count: u64, kvm_ns: u64, bucket: usize) -> Spent {
        let mut lengths = vec![0; bucket + 1];
        lengths[bucket] = count;
        Spent { count, kvm_ns, lengths, ..Spent::default() }
    }

    #[test]
    fn vms_are_told_by_cause() {
        let halts = Spent { blocked_ns: 1_900_000_000, ..spent(200, 300_000, 17) };
        let web = Vm {
            name: "web".into(),
            others: vec!["100".into()],
            process: 412,
            ended: false,
            ns: 2_000_000_000,
            lost: 0,
            exits: vec![
                exits(0, Cause::Arm, "msr_write", Some("TSC_DEADLINE"), spent(990, 1_500_000, 5)),
                exits(1, Cause::Arm, "msr_write", Some("X2APIC_TMICT"), spent(10, 50_000, 6)),
                exits(1, Cause::Halt, "hlt", None, halts),
            ],
        };
        let io = Spent { vmm_ns: 4_000_000, steal_ns: 1_000_000, ..spent(100, 900_000, 31) };
        let gone = Vm {
            name: "415".into(),
            process: 415,
            ended: true,
            ns: 500_000_000,
            lost: 3,
            exits: vec![exits(0, Cause::Io, "io", Some("port 0x3f8"), io)],
            ..web.clone()
        };
        let quiet = Vm { name: "db".into(), process: 416, exits: Vec::new(), ..web.clone() };
        let seen = Observed {
            schema: SCHEMA.into(),
            ns: 2_000_000_000,
            vms: vec![web, gone, quiet],
            earlier: 0,
            lost: 1,
            exits_by_kvm: Some(1_300),
            vmm_end_unknown: true,
            host_hz: Some(Hz(250)),
            lacks: Vec::new(),
        };
        insta::assert_snapshot!(observed(&seen).text());
        insta::assert_snapshot!("would", would(&seen.would()).unwrap().text());
        assert!(would(&[]).is_none());
        let ticks = Some(Ticks { guest_hz: Hz(1000), to_hz: Hz(250) });
        let slower = Would { by: Spares::TickRate, ticks, ..seen.would().remove(0) };
        insta::assert_snapshot!("slower", would(&[slower]).unwrap().text());
        let before = Observed { vms: seen.vms[..1].to_vec(), ..seen.clone() };
        insta::assert_snapshot!("change", change(&Change::of(&before, &seen)).text());
    }
}
