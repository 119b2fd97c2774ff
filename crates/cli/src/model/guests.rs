// SPDX-License-Identifier: GPL-2.0-only
//! Guests that the user describes, in every model.

use super::layout;
use crate::{bench::number::NOTHING, errors::usage, options::Format};
use anyhow::Result;
use paratick_core::{
    cause::Cause,
    model::{
        crossover,
        file::{Guests, Workload},
        predict, CrossOver, Estimate, Exits, TickModel, Vm,
    },
    units::Nanos,
};
use serde::Serialize;

/// What models predict; in this order in the table.
const CAUSES: [Cause; 6] = [
    Cause::Arm,
    Cause::Stop,
    Cause::Expiry,
    Cause::HostTick,
    Cause::Halt,
    Cause::Ipi,
];

#[derive(Serialize)]
struct Answer {
    time_ns: Nanos,
    guests: Vec<Described>,
    models: Vec<Row>,
}

#[derive(Serialize)]
struct Described {
    name: Option<String>,
    #[serde(flatten)]
    vm: Vm,
    /// In seconds.
    crossover: CrossOver,
    #[serde(skip)]
    sharing: u32,
}

#[derive(Serialize)]
struct Row {
    model: TickModel,
    /// The paper's count: arm + stop + expiry.
    managing: Range,
    /// arm + stop + expiry + host-tick; `null` where the model says nothing about the host's tick.
    timer: Option<Range>,
    /// The likely exits of each cause that the model speaks of.
    by_cause: Exits,
}

#[derive(Serialize)]
struct Range {
    least: f64,
    likely: f64,
    most: f64,
}

pub fn run(workload: &Workload, what: &str, format: Format) -> Result<()> {
    let vms = workload
        .vms()
        .map_err(|error| usage(format!("cannot model {what}: {error}")))?;
    let answer = answer(workload, &vms);
    format.print(&answer, || answer.text())
}

fn answer(workload: &Workload, vms: &[Vm]) -> Answer {
    let described = |(guests, vm): (&Guests, &Vm)| Described {
        name: guests.name.clone().filter(|name| name != "--load"),
        vm: *vm,
        crossover: crossover(vm, guests.sharing),
        sharing: guests.sharing,
    };
    let models = TickModel::FORMULAS.into_iter().chain(TickModel::KERNELS);
    Answer {
        time_ns: workload.time,
        guests: workload.vms.iter().zip(vms).map(described).collect(),
        models: models.map(|model| row(model, vms, workload.time)).collect(),
    }
}

fn row(model: TickModel, vms: &[Vm], time: Nanos) -> Row {
    let exits = |estimate| predict(model, vms, time, estimate);
    let range = |of: fn(&Exits) -> f64| Range {
        least: of(&exits(Estimate::Least)),
        likely: of(&exits(Estimate::Likely)),
        most: of(&exits(Estimate::Most)),
    };
    let by_cause = exits(Estimate::Likely);
    let host_ticks = by_cause.get(Cause::HostTick);
    Row {
        model,
        managing: range(Exits::managing),
        timer: host_ticks.map(|_| range(Exits::timer)),
        by_cause,
    }
}

impl Answer {
    fn text(&self) -> String {
        let mut text = String::new();
        for guests in &self.guests {
            text += &layout::paragraph(&guests.text());
        }
        text += &format!(
            "\nVM exits in {}, all guests together\n{}",
            self.time_ns,
            self.table()
        );
        text += "\n";
        for guests in &self.guests {
            text += &layout::paragraph(&guests.crossover_text());
        }
        for line in LEGEND {
            text += &layout::paragraph(line);
        }
        text
    }

    fn table(&self) -> String {
        let head = ["model", "managing timers"].into_iter();
        let head: Vec<&str> = head.chain(CAUSES.map(Cause::name)).collect();
        let mut table = layout::table(&head);
        for row in &self.models {
            let managing = &row.managing;
            let exits = |cause| match row.by_cause.get(cause) {
                Some(exits) => layout::whole(exits),
                None => NOTHING.into(),
            };
            let name = row.model.to_string();
            let managing = layout::range(managing.least, managing.likely, managing.most);
            table.add_row([name, managing].into_iter().chain(CAUSES.map(exits)));
        }
        layout::show(table, 1)
    }
}

const LEGEND: [&str; 3] = [
    "managing timers: arm + stop + expiry, the paper's count; [least..most] where a model leaves a range. host-tick, halt and ipi are not timer management: halts and wake-ups are the workload's own, and the host ticks in every mode.",
    "formula-*: the paper's formulas, which count nothing else (–) and take a vCPU's timer to cost an exit also when it expires in a halt. The others: Linux 6.12 in each mode, and posted-deadlines, the limit where no timer costs an exit.",
    "docs/model.md derives every number.",
];

impl Described {
    /// `W3: 1 VM of 16 vCPUs, …`
    fn text(&self) -> String {
        let (vm, load) = (&self.vm, &self.vm.load);
        let name = self.name.as_ref().map(|name| format!("{name}: "));
        let vms = match vm.count {
            1 => "1 VM".to_string(),
            count => format!("{count} VMs"),
        };
        let vcpus = match vm.vcpus {
            1 => "1 vCPU".to_string(),
            vcpus => format!("{vcpus} vCPUs"),
        };
        let idle = match load.idle_period() {
            Some(period) => format!(
                "idle for {} at a time, woken by {}",
                layout::time(period),
                self.woken_by()
            ),
            None if load.busy < 1.0 => "never woken".into(),
            None => "never idle".into(),
        };
        format!(
            "{}{vms} of {vcpus}, {} on a host of {}, load {}, {idle}",
            name.unwrap_or_default(),
            vm.hz,
            vm.host_hz,
            layout::share(load.busy)
        )
    }

    fn woken_by(&self) -> &'static str {
        let wakes = &self.vm.load.wakes;
        match () {
            () if wakes.device > 0.0 => "a device",
            () if wakes.sleep > 0.0 => "timers of its programs",
            () if wakes.kernel > 0.0 => "timers of its kernel",
            () => "another vCPU",
        }
    }

    fn crossover_text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" of {name}"));
        let found = &self.crossover;
        let Some((formulas, statement)) = found.formulas.zip(found.statement) else {
            return format!(
                "Cross-over{}: none, a vCPU that is never idle has no tick to stop.",
                name.unwrap_or_default()
            );
        };
        let kernels = match found.kernels {
            Some((least, most)) => format!(
                "; by what Linux does, from {} to {}",
                layout::time(least.0),
                layout::time(most.0)
            ),
            None => String::new(),
        };
        format!(
            "Cross-over{}: by the formulas tickless costs less than periodic if idle periods are longer than {}{kernels}. As the paper words it (3.3): the tick period / vCPUs that share a pCPU = {} / {} = {}.",
            name.unwrap_or_default(),
            layout::time(formulas.0),
            self.vm.hz.period().unwrap_or_default(),
            self.sharing,
            layout::time(statement.0)
        )
    }
}
