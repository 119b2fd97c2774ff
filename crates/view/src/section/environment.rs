// SPDX-License-Identifier: GPL-2.0-only
//! What the numbers depend on, as a table: first what all files share.

use crate::{input::Input, number, table::Table};
use paratick_core::{results::Environment, size::Size};

/// One environment and which files have it.
struct Known<'a> {
    names: Vec<String>,
    environment: &'a Environment,
}

pub fn table(input: &Input) -> Table {
    let known = known(input);
    let mut table = Table::new(
        "What the numbers depend on. 4×16: four guests with 16 vCPUs each",
        ["What", "Value"],
    )
    .words(..);
    let same = |of: fn(&Environment) -> String| {
        let mut values = known.iter().map(|known| of(known.environment));
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let mut differ = Vec::new();
    if known.len() > 1 {
        table.group("The same for all");
    }
    for (what, of) in FACTS {
        match known.first() {
            Some(first) if same(of) => table.row(what, vec![of(first.environment)]),
            _ => differ.push((what, of)),
        }
    }
    for known in known.iter().filter(|_| !differ.is_empty()) {
        table.group(known.names.join(", "));
        for (what, of) in &differ {
            table.row(*what, vec![of(known.environment)]);
        }
    }
    table
}

fn known(input: &Input) -> Vec<Known<'_>> {
    let results = input.results.iter().map(|results| {
        let guests = results.plan.guests;
        (
            format!("{} {guests}×{}", results.bench, results.plan.vcpus),
            &results.environment,
        )
    });
    let timelines = input
        .timelines
        .iter()
        .map(|timeline| ("time line".to_string(), &timeline.environment));
    let mut known: Vec<Known> = Vec::new();
    for (name, environment) in results.chain(timelines) {
        let facts = |environment: &Environment| FACTS.map(|(_, of)| of(environment));
        let same = known
            .iter_mut()
            .find(|known| facts(known.environment) == facts(environment));
        match same {
            Some(same) if same.names.contains(&name) => {}
            Some(same) => same.names.push(name),
            None => known.push(Known {
                names: vec![name],
                environment,
            }),
        }
    }
    known
}

type Fact = (&'static str, fn(&Environment) -> String);

const FACTS: [Fact; 15] = [
    ("Guests' kernel", |e| said(&e.kernel_version)),
    ("Patches of the guests' kernel", |e| {
        hash(e.patch_set_hash.as_deref())
    }),
    ("Host's kernel", |e| said(&e.host_kernel_version)),
    ("Patches of the host's kernel", |e| {
        hash(e.host_patch_set_hash.as_deref())
    }),
    ("Guests' tick", |e| {
        e.configuration.hz.map_or(unknown(), |hz| hz.to_string())
    }),
    ("Memory of a guest", |e| {
        memory(e.configuration.guest_memory_bytes)
    }),
    ("Host", |e| {
        let configuration = &e.configuration;
        let cpus = number::plural(configuration.host_cpus as usize, "CPU");
        format!("{cpus}, {}", memory(configuration.host_memory_bytes))
    }),
    ("Host is run by", |e| {
        match (
            e.configuration.host_is_machine,
            &e.configuration.accelerator,
        ) {
            (true, _) => "the machine itself".into(),
            (false, Some(accelerator)) => accelerator.clone(),
            (false, None) => unknown(),
        }
    }),
    ("Host polls before sleeping", |e| {
        nanos(e.configuration.halt_poll_ns)
    }),
    ("Time of an instruction", |e| {
        nanos(e.configuration.ns_per_instruction.map(u64::from))
    }),
    ("Cost of a world switch", |e| {
        match e.configuration.exit_cost_ns {
            Some(cost) => format!("{cost} ns"),
            None => "none charged".into(),
        }
    }),
    ("Clock of CPUs that run at once", |e| {
        match e.configuration.parallel_clock {
            true => "shared between them, as if they ran in parallel".into(),
            false => "they run in turn".into(),
        }
    }),
    ("Programs' packages", |e| {
        let packages = e.packages.iter();
        let packages: Vec<_> = packages
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        match packages.is_empty() {
            true => "none, or not known".into(),
            false => packages.join(", "),
        }
    }),
    ("Emulator", |e| {
        e.qemu_version.clone().unwrap_or_else(unknown)
    }),
    ("Machine", |e| {
        let machine = &e.machine;
        let cpus = number::plural(machine.cpus as usize, "CPU");
        let distribution = machine.distribution.clone().unwrap_or_else(unknown);
        format!(
            "{}, {cpus}, {}, {distribution}",
            said(&machine.cpu),
            memory(machine.memory_bytes)
        )
    }),
];

fn unknown() -> String {
    "not known".into()
}

fn said(text: &str) -> String {
    match text.is_empty() {
        true => unknown(),
        false => text.into(),
    }
}

fn hash(hash: Option<&str>) -> String {
    hash.map_or("none, or not known".into(), |hash| {
        hash.chars().take(16).collect()
    })
}

fn nanos(value: Option<u64>) -> String {
    value.map_or(unknown(), |value| {
        format!("{} ns", number::count(value as f64))
    })
}

/// In whole MiB or GiB: a machine's memory is never a round number of bytes.
fn memory(bytes: u64) -> String {
    match Size(bytes).in_mib() {
        0 => unknown(),
        mib if mib >= 4096 => format!("{:.1} GiB", mib as f64 / 1024.0),
        mib => format!("{mib} MiB"),
    }
}
