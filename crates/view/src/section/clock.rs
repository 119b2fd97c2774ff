// SPDX-License-Identifier: GPL-2.0-only
//! What the paper's metrics are where the host is emulated, and where it is not.

use crate::{
    number,
    set::{cost_ns, Selection, Set},
};

/// What stands before every verdict; none where no host was emulated.
pub fn lead(selection: &Selection) -> Option<String> {
    let (emulated, others): (Vec<&Set>, Vec<&Set>) =
        selection.sets.iter().partition(|set| set.is_emulated());
    let first = emulated.first()?;
    let host = match others.is_empty() {
        true => "The host is emulated".to_string(),
        false => format!("The host is emulated in {}", names(&emulated)),
    };
    Some(format!(
        "{host}: VM exits are real counts, but system throughput and execution time are virtual, \
         {} for each instruction plus {}.",
        nanoseconds(first),
        costs(&emulated)
    ))
}

/// How throughput and execution time of these sets are measured.
pub fn metrics(sets: &[&Set]) -> String {
    let emulated: Vec<&Set> = sets.iter().filter(|set| set.is_emulated()).copied().collect();
    let mut text = "System throughput is work per CPU time of the host.".to_string();
    let time = match emulated.first() {
        Some(first) => {
            text += &format!(
                " That CPU time is virtual: {} for each instruction of host and guests, plus {}.",
                nanoseconds(first),
                costs(&emulated)
            );
            "virtual time"
        }
        None => "time",
    };
    format!("{text} Execution time is {time} on the host's clock, {}.", window(sets))
}

/// What lies between the two marks of a run.
fn window(sets: &[&Set]) -> String {
    let planned = sets.iter().flat_map(|set| &set.main().plan.workloads);
    let (programs, others): (Vec<_>, Vec<_>) = planned.partition(|w| w.program.is_some());
    let unit = "from the first unit of work to the last";
    let program = "from before a program starts until it has ended";
    let mut own: Vec<String> = others.iter().map(|w| format!("`{}`", w.workload)).collect();
    own.dedup();
    match (programs.is_empty(), own.is_empty()) {
        (true, _) => unit.into(),
        (false, true) => format!("{program}: its start and its end are in it"),
        (false, false) => {
            own.sort_unstable();
            own.dedup();
            format!("{program}: its start and its end are in it; of {}, {unit}", number::list(&own))
        }
    }
}

fn nanoseconds(set: &Set) -> String {
    let configuration = &set.main().environment.configuration;
    format!("{} ns", configuration.ns_per_instruction.unwrap_or(1))
}

/// `the stated 1 400 ns for each world switch`.
fn costs(sets: &[&Set]) -> String {
    let mut costs: Vec<u32> = sets.iter().map(|set| cost_ns(set.main())).collect();
    costs.sort_unstable();
    costs.dedup();
    let written = |cost: &u32| match cost {
        0 => "nothing".to_string(),
        cost => format!("{} ns", number::count(f64::from(*cost))),
    };
    match costs.as_slice() {
        [0] => "nothing for a world switch".into(),
        [cost] => format!("the stated {} for each world switch", written(cost)),
        _ => {
            let of = |cost: &u32| {
                let charged = sets.iter().filter(|set| cost_ns(set.main()) == *cost);
                let charged: Vec<&Set> = charged.copied().collect();
                format!("{} ({})", written(cost), names(&charged))
            };
            let costs: Vec<String> = costs.iter().rev().map(of).collect();
            format!("what is stated for each world switch: {}", number::list(&costs))
        }
    }
}

fn names(sets: &[&Set]) -> String {
    let names: Vec<String> = sets.iter().map(|set| set.name()).collect();
    names.join("; ")
}
