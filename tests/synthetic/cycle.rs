// SPDX-License-Identifier: GPL-2.0-only
//! A time line that nobody traced.

use super::{environment, Bench};
use paratick_core::{
    cause::Cause,
    cycle::{Chosen, Event, IdleCycle, Until, Waker, What, Why},
    mode::Mode,
    results::{Plan, PlannedWorkload, Results},
    stats::{Method, Summary},
};
use std::collections::BTreeMap;

/// An idle cycle as each mode might have it: the exits after the wake-up, with what they take.
pub fn timeline() -> String {
    let modes: [(&str, &[(Cause, u64)]); 5] = [
        ("periodic", &[(Cause::Ipi, 5000), (Cause::Expiry, 4200), (Cause::Arm, 5100)]),
        ("tickless", &[(Cause::Ipi, 5000), (Cause::Eoi, 3900)]),
        (
            "tickless-stop",
            &[(Cause::Arm, 5200), (Cause::Ipi, 5000), (Cause::Arm, 5100), (Cause::Stop, 4900)],
        ),
        ("paratick-ticks", &[(Cause::Ipi, 5000)]),
        ("paratick", &[(Cause::Ipi, 5000)]),
    ];
    let planned = PlannedWorkload::new("pingpong", 1000, "round trips");
    let subjects = modes.map(|(mode, _)| mode.parse::<Mode>().unwrap());
    let mut results = Results {
        command: ["paratick", "bench", "timeline"].map(String::from).to_vec(),
        tool_version: "synthetic".into(),
        started: "2026-01-03T00:00:00Z".into(),
        environment: environment(&Bench { name: "quick", vcpus: 2, guests: 1, cost: None }),
        ..Results::new("timeline", Plan::new(2, subjects, [planned.clone()], 1, 0))
    };
    for (mode, exits) in modes {
        let subject = mode.parse::<Mode>().unwrap().into();
        results.readings(&planned, subject).cycle = Some(cycle(mode, exits));
    }
    serde_json::to_string(&results).unwrap()
}

fn cycle(mode: &str, exits: &[(Cause, u64)]) -> IdleCycle {
    let exit = |cause: Cause| What::Exit {
        reason: match cause {
            Cause::Halt if mode == "paratick" => "hypercall".into(),
            Cause::Halt => "hlt".into(),
            Cause::Expiry => "interrupt".into(),
            _ => "msr_write".into(),
        },
        cause,
        msr: matches!(cause, Cause::Arm | Cause::Stop).then(|| "TSC_DEADLINE".into()),
        moved_ns: None,
        until: (mode == "paratick" && cause == Cause::Halt).then_some(Until {
            deadline: true,
            keep: false,
            due_ns: Some(3_900_000),
        }),
        why: None,
    };
    let mut events = vec![
        (0, exit(Cause::Halt)),
        (5200, What::Sleep),
        (19_000, What::Wake { by: Waker::Ipi }),
        (23_400, What::Entry),
    ];
    let mut now = 23_400;
    if mode.starts_with("paratick") {
        events.insert(3, (22_000, What::Tick { what: "late".into() }));
    }
    for (cause, takes) in exits {
        events.push((now + 900, exit(*cause)));
        events.push((now + 900 + takes, What::Entry));
        now += 900 + takes;
    }
    events.push((now + 1500, What::End));
    let count = exits.len() as f64 + 1.0;
    IdleCycle {
        vcpu: 0,
        chosen: Chosen {
            events: events.into_iter().map(|(t_ns, what)| Event { t_ns, what }).collect(),
            cycles: 1000,
            alike: 930,
            exits_per_cycle: Summary {
                median: count,
                low: count,
                high: count,
                samples: 1000,
                method: Method::Bootstrap,
            },
            exits_by_cause: BTreeMap::new(),
        },
        traced_ns: 0,
        untraced_ns: 0,
        deadline_writes: (mode == "paratick").then(|| [(Why::User, 3), (Why::Switch, 1)].into()),
    }
}
