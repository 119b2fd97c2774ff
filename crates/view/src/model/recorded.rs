// SPDX-License-Identifier: GPL-2.0-only
//! A recorded result: what the models predict for its loads, beside what was measured.

use crate::{
    number::{or_nothing, plural, ranged, share, time, whole, NOTHING},
    table::{wrap, Table},
};
use paratick_core::{
    cause::Cause,
    mode::Mode,
    model::{
        measured::{measured_timer_exits, observe_cell, predict_all, Observed},
        Load, Range, TickModel,
    },
    results::{Cell, Results},
    stats,
    subject::Subject,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Below so many exits a few stray timers of the kernel weigh more than what is modelled.
const FEW: f64 = 50.0;

const CAUSES: [Cause; 3] = [Cause::Arm, Cause::Expiry, Cause::HostTick];

#[derive(Serialize)]
pub struct Answer {
    bench: String,
    vcpus: u32,
    guests: u32,
    cells: Vec<Row>,
}

/// One cell.  What could not be derived from the recording is `null`.
#[derive(Serialize)]
struct Row {
    workload: String,
    subject: Subject,
    model: TickModel,
    /// Whose load was the model's input.
    load_of: Subject,
    /// Samples that the load was taken from.
    samples: usize,
    /// Share of the time in which a vCPU was not idle.
    load: Option<f64>,
    /// Per second and vCPU.
    idle_periods: Option<f64>,
    /// In seconds.
    idle_period: Option<f64>,
    /// Timer exits: arm + stop + expiry + host-tick.
    predicted: Option<Range>,
    measured: Option<f64>,
    /// predicted / measured − 1.
    error: Option<f64>,
    predicted_by_cause: BTreeMap<Cause, f64>,
    measured_by_cause: BTreeMap<Cause, f64>,
}

/// Predicts every cell from its own load, or from that of `load_of`.
pub fn answer(results: &Results, load_of: Option<Mode>) -> Answer {
    let cells = results.cells.iter();
    Answer {
        bench: results.bench.clone(),
        vcpus: results.plan.vcpus,
        guests: results.plan.guests,
        cells: cells.map(|cell| row(results, cell, load_of)).collect(),
    }
}

fn row(results: &Results, cell: &Cell, load_of: Option<Mode>) -> Row {
    let subject = cell.subject;
    let load_of = Subject { mode: load_of.unwrap_or(subject.mode), host: subject.host };
    let own = observe_cell(results, cell);
    // Polling takes idle periods away: who polls and who does not have no load in common.
    let basis = match load_of.mode.poll == subject.mode.poll {
        true => results.cell(&cell.workload, load_of),
        false => None,
    };
    let basis = basis.map_or(Vec::new(), |basis| observe_cell(results, basis));
    let model = TickModel::of(subject.mode);
    let predicted = predict_all(model, &basis);
    let measured = measured_timer_exits(&own);
    let range = predicted.as_ref().map(|predicted| predicted.timer);
    let ratio = range.map(|range| range.likely).zip(measured.filter(|measured| *measured > 0.0));
    let of = |value: fn(&Load) -> Option<f64>| {
        median(basis.iter().filter_map(|one| value(&one.vm.load)))
    };
    Row {
        workload: cell.workload.clone(),
        subject,
        model,
        load_of,
        samples: basis.len(),
        load: of(|load| Some(load.busy)),
        idle_periods: of(|load| Some(load.idle_periods())),
        idle_period: of(Load::idle_period),
        predicted: range,
        measured,
        error: ratio.map(|(likely, measured)| likely / measured - 1.0),
        predicted_by_cause: predicted.map(|predicted| predicted.by_cause).unwrap_or_default(),
        measured_by_cause: by_cause(&own),
    }
}

/// Medians; of a cause that was counted and never seen, 0.
fn by_cause(observed: &[Observed]) -> BTreeMap<Cause, f64> {
    let count = |cause, one: &Observed| one.exits.get(&cause).copied().unwrap_or(0) as f64;
    let each = |cause| median(observed.iter().map(|one| count(cause, one)));
    Cause::ALL.into_iter().filter_map(|cause| Some((cause, each(cause)?))).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::median(&values.collect::<Vec<_>>())
}

impl Answer {
    /// Whether nothing was predicted, and nothing counted.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(|row| row.predicted.is_none() && row.measured.is_none())
    }

    /// `name` is the file's.
    pub fn text(&self, name: &str) -> String {
        let guests = plural(self.guests as usize, "guest");
        let vcpus = plural(self.vcpus as usize, "vCPU");
        let mut text = format!("{name} ({}): {guests} of {vcpus}\n\n", self.bench);
        text += &self.table().text();
        text += "\n";
        text.extend(LEGEND.map(wrap));
        text
    }

    fn table(&self) -> Table {
        let head = ["Mode", "Load", "Idle period", "Predicted", "Counted", "Error"];
        let head = head.into_iter().chain(CAUSES.map(Cause::name));
        let caption = "Timer exits as predicted from the loads that were measured, and as counted";
        let mut table = Table::new(caption, head);
        let mut last = "";
        for row in &self.cells {
            if row.workload != last {
                table.group(&row.workload);
                last = &row.workload;
            }
            let cells = row.fields().into_iter();
            let causes = CAUSES.map(|cause| row.cause(cause));
            table.row(row.subject.to_string(), cells.chain(causes));
        }
        table
    }
}

impl Row {
    fn fields(&self) -> [String; 5] {
        [
            or_nothing(self.load, share),
            or_nothing(self.idle_period, time),
            ranged(self.predicted),
            or_nothing(self.measured, whole),
            or_nothing(self.error_text(), |text| text),
        ]
    }

    /// `+4 %`, in brackets where there are few exits.
    fn error_text(&self) -> Option<String> {
        let percent = self.error? * 100.0;
        let sign = if percent < -0.5 { "−" } else { "+" };
        let text = match percent.abs() {
            p if p < 0.5 => "0 %".to_string(),
            p => format!("{sign}{p:.0} %"),
        };
        match self.measured? < FEW {
            true => Some(format!("({text})")),
            false => Some(text),
        }
    }

    fn cause(&self, cause: Cause) -> String {
        let predicted = self.predicted_by_cause.get(&cause);
        let measured = self.measured_by_cause.get(&cause);
        match predicted.zip(measured) {
            Some((predicted, measured)) => {
                format!("{}/{}", whole(*predicted), whole(*measured))
            }
            None => NOTHING.into(),
        }
    }
}

const LEGEND: [&str; 4] = [
    "Timer exits: arm + stop + expiry + host-tick; medians of the samples. arm, expiry, host-tick: \
     predicted/counted. [least..most] where a model leaves a range. –: not measured.",
    "load and idle period: of a vCPU, from the guest's idle time and its halts without those that \
     only a tick ended. The guest accounts idle time in steps of 10 ms.",
    "error: predicted / counted − 1. (…): fewer than 50 exits, where a few stray timers of the \
     kernel matter.",
    "tickless+poll is predicted by the model tickless-stop: the governor of halt polling stops the \
     tick whenever it lets the vCPU halt. docs/model.md has the formulas.",
];
