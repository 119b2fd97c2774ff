// SPDX-License-Identifier: GPL-2.0-only
//! A time line that nobody traced.

use super::{environment, Bench};
use paratick_core::{
    cause::Cause,
    cycle::{Chosen, Event, IdleCycle, Waker, What},
    mode::Mode,
    results::{Plan, PlannedWorkload, Results, SCHEMA},
    stats::{Method, Summary},
};
use std::collections::BTreeMap;

/// An idle cycle as each mode might have it: the exits after the wake-up, with what they take.
pub fn timeline() -> String {
    let modes: [(&str, &[(Cause, u64)]); 4] = [
        ("periodic", &[(Cause::Ipi, 5000), (Cause::Expiry, 4200), (Cause::Arm, 5100)]),
        ("tickless", &[(Cause::Ipi, 5000), (Cause::Eoi, 3900)]),
        (
            "tickless-stop",
            &[(Cause::Arm, 5200), (Cause::Ipi, 5000), (Cause::Arm, 5100), (Cause::Stop, 4900)],
        ),
        ("paratick", &[(Cause::Ipi, 5000)]),
    ];
    let planned = PlannedWorkload {
        workload: "pingpong".into(),
        work: 1000,
        unit: "round trips".into(),
        program: None,
    };
    let subjects = modes.map(|(mode, _)| mode.parse::<Mode>().unwrap());
    let mut results = Results {
        schema: SCHEMA.into(),
        bench: "timeline".into(),
        command: ["paratick", "bench", "timeline"].map(String::from).to_vec(),
        plan: Plan::new(2, subjects, [planned.clone()], 1, 0),
        cells: Vec::new(),
        tool_version: "synthetic".into(),
        started: "2026-01-03T00:00:00Z".into(),
        environment: environment(&Bench { name: "quick", vcpus: 2, guests: 1, cost: None }),
        problems: Vec::new(),
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
            Cause::Halt => "hlt".into(),
            Cause::Expiry => "interrupt".into(),
            _ => "msr_write".into(),
        },
        cause,
        msr: matches!(cause, Cause::Arm | Cause::Stop).then(|| "TSC_DEADLINE".into()),
        moved_ns: None,
    };
    let mut events = vec![
        (0, exit(Cause::Halt)),
        (5200, What::Sleep),
        (19_000, What::Wake { by: Waker::Ipi }),
        (23_400, What::Entry),
    ];
    let mut now = 23_400;
    if mode == "paratick" {
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
    }
}
