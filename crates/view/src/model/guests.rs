// SPDX-License-Identifier: GPL-2.0-only
//! Guests that the user describes, in every model.

use crate::{
    number::{or_nothing, plural, ranged, share, time, whole},
    table::{wrap, Table},
};
use paratick_core::{
    cause::Cause,
    model::{
        crossover,
        file::{Guests, Workload},
        predict, CrossOver, Estimate, Exits, Range, TickModel, Vm,
    },
    units::Nanos,
};
use serde::Serialize;

/// What models predict; in this order in the table.
const CAUSES: [Cause; 6] =
    [Cause::Arm, Cause::Stop, Cause::Expiry, Cause::HostTick, Cause::Halt, Cause::Ipi];

#[derive(Serialize)]
pub struct Answer {
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
    managing: Option<Range>,
    /// arm + stop + expiry + host-tick; `null` where the model says nothing about the host's tick.
    timer: Option<Range>,
    /// The likely exits of each cause that the model speaks of.
    by_cause: Exits,
}

/// Of `workload`, whose guests are `vms`.
pub fn answer(workload: &Workload, vms: &[Vm]) -> Answer {
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
    let range = |of: fn(&Exits) -> f64| Range::of(|estimate| Some(of(&exits(estimate))));
    let by_cause = exits(Estimate::Likely);
    let host_ticks = by_cause.get(Cause::HostTick);
    Row {
        model,
        managing: range(Exits::managing),
        timer: host_ticks.and_then(|_| range(Exits::timer)),
        by_cause,
    }
}

impl Answer {
    pub fn text(&self) -> String {
        let guests = self.guests.iter().map(|guests| wrap(&guests.text()));
        let crossovers = self.guests.iter().map(|guests| wrap(&guests.crossover_text()));
        let mut text: String = guests.collect();
        text += &format!("\n{}\n", self.table().text());
        text.extend(crossovers.chain(LEGEND.into_iter().map(wrap)));
        text
    }

    fn table(&self) -> Table {
        let head = ["Model", "Managing timers"].into_iter();
        let caption = format!("VM exits in {}, all guests together", self.time_ns);
        let mut table = Table::new(caption, head.chain(CAUSES.map(Cause::name)));
        for row in &self.models {
            let exits = |cause| or_nothing(row.by_cause.get(cause), whole);
            let cells = [ranged(row.managing)].into_iter().chain(CAUSES.map(exits));
            table.row(row.model.to_string(), cells);
        }
        table
    }
}

const LEGEND: [&str; 3] = [
    "managing timers: arm + stop + expiry, the paper's count; [least..most] where a model leaves a \
     range. host-tick, halt and ipi are not timer management: halts and wake-ups are the \
     workload's own, and the host ticks in every mode.",
    "formula-*: the paper's formulas, which count nothing else (–), and count an exit even for a \
     timer that expires in a halt. The others: Linux 6.12 in each mode.",
    "docs/model.md has the formulas.",
];

impl Described {
    /// `W3: 1 VM of 16 vCPUs, …`
    fn text(&self) -> String {
        let (vm, load) = (&self.vm, &self.vm.load);
        let name = self.name.as_ref().map(|name| format!("{name}: "));
        let vms = plural(vm.count as usize, "VM");
        let vcpus = plural(vm.vcpus as usize, "vCPU");
        let idle = match load.idle_period() {
            Some(period) => {
                format!("idle for {} at a time, woken by {}", time(period), self.woken_by())
            }
            None if load.busy < 1.0 => "never woken".into(),
            None => "never idle".into(),
        };
        format!(
            "{}{vms} of {vcpus}, {} on a host of {}, load {}, {idle}",
            name.unwrap_or_default(),
            vm.hz,
            vm.host_hz,
            share(load.busy)
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
            Some((least, most)) => {
                format!("; by what Linux does, from {} to {}", time(least.0), time(most.0))
            }
            None => String::new(),
        };
        format!(
            "Cross-over{}: by the formulas tickless costs less than periodic if idle periods are \
             longer than {}{kernels}. As the paper words it (3.3): the tick period / vCPUs that \
             share a pCPU = {} / {} = {}.",
            name.unwrap_or_default(),
            time(formulas.0),
            self.vm.hz.period().unwrap_or_default(),
            self.sharing,
            time(statement.0)
        )
    }
}
