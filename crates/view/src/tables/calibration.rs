// SPDX-License-Identifier: GPL-2.0-only
//! What exits cost on a machine, and what decides it.

use crate::{
    number::{count, decimal, nanos, or_nothing},
    table::Table,
};
use paratick_core::calibration::{Calibration, Meaning, Row, Spread};

/// Each kind of exit, in cycles.
pub fn exits(all: &Calibration) -> Table {
    let rate = all.tsc_khz.map_or("of unknown rate".into(), |khz| {
        format!("at {} MHz", decimal(f64::from(khz) / 1e3))
    });
    let caption = format!("Exits of a micro guest, in cycles of its TSC {rate}");
    let columns =
        ["Exit", "Exits", "Min", "Median", "p90", "p99", "Max", "n", "Median", "Measured"];
    let mut table = Table::new(caption, columns).words(9..);
    for row in &all.rows {
        table.row(&row.name, cells(row, all.tsc_khz));
    }
    table.note(match &all.meaning {
        Meaning::Hardware => "The machine runs on hardware: CPUID names no hypervisor.".into(),
        Meaning::Nested(below) => format!(
            "nested: these are not the costs of hardware. This machine is a guest itself, of \
             {below}."
        ),
        Meaning::Emulated => "emulated: cycles mean nothing here, and no cost is named. The \
            numbers of exits are exact."
            .into(),
    });
    let nothing = all.rows.first().and_then(|row| row.cycles);
    table.note(format!(
        "`nothing` is a part of all rows, and was not taken off (its median is {} cycles). \
         `Exits`: of the vCPU for each sample, as KVM counts them, without the host's interrupts.",
        or_nothing(nothing, |spread| number(spread.median))
    ));
    table
}

fn number(value: u64) -> String {
    count(value as f64)
}

fn cells(row: &Row, tsc_khz: Option<u32>) -> [String; 9] {
    let measured = match &row.not_measured {
        Some(why) => format!("not measured: {why}"),
        None => row.between.clone(),
    };
    let of = |number_of: fn(&Spread) -> u64| {
        or_nothing(row.cycles.as_ref(), |spread| number(number_of(spread)))
    };
    let time = row
        .cycles
        .zip(tsc_khz)
        .map(|(cycles, khz)| (cycles.median as f64 * 1e6 / f64::from(khz)).round() as u64);
    [
        or_nothing(row.exits_per_sample, decimal),
        of(|spread| spread.min),
        of(|spread| spread.median),
        of(|spread| spread.p90),
        of(|spread| spread.p99),
        of(|spread| spread.max),
        or_nothing((row.samples > 0).then_some(row.samples), |n| number(n.into())),
        or_nothing(time, nanos),
        measured,
    ]
}

/// What decides the numbers.
pub fn machine(all: &Calibration) -> Table {
    let machine = &all.machine;
    let mut table = Table::new("What decides it", ["", ""]).words(..);
    let known = |value: &Option<String>| value.clone().unwrap_or("not known".into());
    table.row("processor", [format!("{} ({})", known(&machine.cpu), known(&machine.vendor))]);
    table.row("kernel", [machine.kernel.clone()]);
    if !machine.command_line.is_empty() {
        table.row("command line", [machine.command_line.join(" ")]);
    }
    let modules = machine.modules.join(", ");
    table.row("modules", [if modules.is_empty() { "not known".into() } else { modules }]);
    for (name, value) in &machine.parameters {
        table.row(name, [value.clone()]);
    }
    let absent = |parts: [&str; 2]| {
        let there = |part: &&str| machine.parameters.keys().any(|name| name.ends_with(*part));
        !parts.iter().any(there)
    };
    let settings = [
        ("PLE", [".ple_gap", ".pause_filter_count"]),
        ("APICv, AVIC", [".enable_apicv", ".avic"]),
        ("halt polling", [".halt_poll_ns", ".halt_poll_ns"]),
    ];
    for (what, names) in settings.into_iter().filter(|(_, names)| absent(*names)) {
        table.row(what, [format!("not known: no module has {}", names[0].trim_start_matches('.'))]);
    }
    for (name, value) in &machine.mitigations {
        table.row(name, [value.clone()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::calibration::{Machine, SCHEMA};

    fn calibration(meaning: Meaning) -> Calibration {
        let row = |name: &str| Row {
            name: name.into(),
            between: "around the instruction".into(),
            samples: 1000,
            exits_per_sample: Some(1.0),
            cycles: Spread::of((1001..=2000).collect()),
            not_measured: None,
        };
        let none = Row {
            samples: 0,
            exits_per_sample: None,
            cycles: None,
            not_measured: Some("it takes 2 CPUs".into()),
            ..row("IPI")
        };
        let parameters = [("kvm.halt_poll_ns", "200000"), ("kvm_intel.ple_gap", "128")];
        Calibration {
            schema: SCHEMA.into(),
            machine: Machine {
                vendor: Some("GenuineIntel".into()),
                cpu: Some("A CPU".into()),
                kernel: "6.12".into(),
                parameters: parameters.map(|(a, b)| (a.into(), b.into())).into(),
                ..Machine::default()
            },
            meaning,
            tsc_khz: Some(2_000_000),
            rows: vec![row("CPUID"), none],
            executed: [("cpuid".into(), 1064)].into(),
        }
    }

    #[test]
    fn cycles_stand_beside_their_time_and_what_is_missing_says_why() {
        let text = exits(&calibration(Meaning::Nested("KVMKVMKVM".into()))).text();
        for part in ["at 2 000 MHz", "1 500", "1 990", "750 ns", "not measured: it takes 2 CPUs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("nested: these are not the costs of hardware."), "{text}");
        assert!(exits(&calibration(Meaning::Emulated)).text().contains("no cost is named"));
    }

    #[test]
    fn a_setting_that_the_machine_does_not_have_is_said_to_be_unknown() {
        let text = machine(&calibration(Meaning::Hardware)).text();
        assert!(text.contains("kvm_intel.ple_gap") && !text.contains("PLE "), "{text}");
        assert!(text.contains("APICv, AVIC") && text.contains("no module has enable_apicv"));
    }
}
