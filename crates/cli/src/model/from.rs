// SPDX-License-Identifier: GPL-2.0-only
//! A recorded result: what the models predict for its loads, beside what was measured.

use super::layout;
use crate::{bench::number::NOTHING, input, options::Format};
use anyhow::Result;
use paratick_core::{
    cause::Cause,
    mode::Mode,
    model::{
        measured::{measured_timer_exits, observe_cell, predict_all, Observed, Predicted},
        Load, TickModel,
    },
    results::{Cell, Results},
    stats,
};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

/// Below so many exits a few stray timers of the kernel weigh more than what is modelled.
const FEW: f64 = 50.0;

/// Causes that are shown one by one.
const CAUSES: [Cause; 3] = [Cause::Arm, Cause::Expiry, Cause::HostTick];

#[derive(Serialize)]
struct Answer {
    bench: String,
    vcpus: u32,
    guests: u32,
    cells: Vec<Row>,
}

/// One cell.  What could not be derived from the recording is `null`.
#[derive(Serialize)]
struct Row {
    workload: String,
    mode: Mode,
    model: TickModel,
    /// The mode whose load was the model's input.
    load_of: Mode,
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

#[derive(Serialize)]
struct Range {
    least: f64,
    likely: f64,
    most: f64,
}

pub fn run(path: &Path, load_of: Option<Mode>, format: Format) -> Result<()> {
    let results = input::results("model", path)?;
    if let Some(mode) = load_of.filter(|mode| results.cells.iter().all(|cell| cell.mode != *mode)) {
        let modes: Vec<String> = results.plan.modes.iter().map(Mode::to_string).collect();
        let modes = modes.join(", ");
        let why = format!("it has no load of {mode}\nhint: its modes are {modes}");
        return Err(input::wrong("model", path, why));
    }
    let answer = Answer {
        bench: results.bench.clone(),
        vcpus: results.plan.vcpus,
        guests: results.plan.guests,
        cells: results
            .cells
            .iter()
            .map(|cell| row(&results, cell, load_of))
            .collect(),
    };
    format.print(&answer, || answer.text(path))
}

fn row(results: &Results, cell: &Cell, load_of: Option<Mode>) -> Row {
    let load_of = load_of.unwrap_or(cell.mode);
    let own = observe_cell(results, cell);
    // Polling takes idle periods away: who polls and who does not have no load in common.
    let basis = match load_of.poll == cell.mode.poll {
        true => results.cell(&cell.workload, load_of),
        false => None,
    };
    let basis = basis.map_or(Vec::new(), |basis| observe_cell(results, basis));
    let model = TickModel::of(cell.mode);
    let predicted = predict_all(model, &basis);
    let measured = measured_timer_exits(&own);
    let likely = predicted.as_ref().map(|predicted| predicted.likely);
    let ratio = likely.zip(measured.filter(|measured| *measured > 0.0));
    let of = |value: fn(&Load) -> Option<f64>| {
        median(basis.iter().filter_map(|one| value(&one.vm.load)))
    };
    Row {
        workload: cell.workload.clone(),
        mode: cell.mode,
        model,
        load_of,
        samples: basis.len(),
        load: of(|load| Some(load.busy)),
        idle_periods: of(|load| Some(load.idle_periods())),
        idle_period: of(Load::idle_period),
        predicted: predicted.as_ref().map(range),
        measured,
        error: ratio.map(|(likely, measured)| likely / measured - 1.0),
        predicted_by_cause: predicted
            .map(|predicted| predicted.by_cause)
            .unwrap_or_default(),
        measured_by_cause: by_cause(&own),
    }
}

fn range(predicted: &Predicted) -> Range {
    Range {
        least: predicted.least,
        likely: predicted.likely,
        most: predicted.most,
    }
}

/// Medians; of a cause that was counted and never seen, 0.
fn by_cause(observed: &[Observed]) -> BTreeMap<Cause, f64> {
    let count = |cause, one: &Observed| one.exits.get(&cause).copied().unwrap_or(0) as f64;
    let each = |cause| median(observed.iter().map(|one| count(cause, one)));
    Cause::ALL
        .into_iter()
        .filter_map(|cause| Some((cause, each(cause)?)))
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    stats::median(&values.collect::<Vec<_>>())
}

impl Answer {
    fn text(&self, path: &Path) -> String {
        let guests = match self.guests {
            1 => "one guest".to_string(),
            guests => format!("{guests} guests"),
        };
        let mut text = format!(
            "{} ({}): {guests} of {} vCPUs\nTimer exits as predicted from the loads that were measured, and as counted\n\n",
            path.display(),
            self.bench,
            self.vcpus
        );
        text += &self.table();
        text += "\n";
        for line in LEGEND {
            text += &layout::paragraph(line);
        }
        text
    }

    fn table(&self) -> String {
        let head = [
            "workload",
            "mode",
            "load",
            "idle period",
            "predicted",
            "counted",
            "error",
        ];
        let head: Vec<&str> = head.into_iter().chain(CAUSES.map(Cause::name)).collect();
        let mut table = layout::table(&head);
        let mut last = "";
        for row in &self.cells {
            let workload = if row.workload == last {
                ""
            } else {
                &row.workload
            };
            last = &row.workload;
            let causes = CAUSES.map(|cause| row.cause(cause));
            table.add_row(
                [workload.to_string(), row.mode.to_string()]
                    .into_iter()
                    .chain(row.fields())
                    .chain(causes),
            );
        }
        layout::show(table, 2)
    }
}

impl Row {
    fn fields(&self) -> [String; 5] {
        let or_nothing = |text: Option<String>| text.unwrap_or(NOTHING.into());
        let predicted = self.predicted.as_ref();
        [
            or_nothing(self.load.map(layout::share)),
            or_nothing(self.idle_period.map(layout::time)),
            or_nothing(predicted.map(|range| layout::range(range.least, range.likely, range.most))),
            or_nothing(self.measured.map(layout::whole)),
            or_nothing(self.error_text()),
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
                format!("{}/{}", layout::whole(*predicted), layout::whole(*measured))
            }
            None => NOTHING.into(),
        }
    }
}

const LEGEND: [&str; 4] = [
    "Timer exits: arm + stop + expiry + host-tick; medians of the samples. arm, expiry, host-tick: predicted/counted. [least..most] where a model leaves a range. –: not measured.",
    "load and idle period: of a vCPU, from the guest's idle time and its halts without those that only a tick ended. The guest accounts idle time in steps of 10 ms.",
    "error: predicted / counted − 1. (…): fewer than 50 exits, of which a few stray timers of the kernel are many.",
    "tickless+poll is predicted by the model tickless-stop: the governor of halt polling stops the tick whenever it lets the vCPU halt. docs/model.md derives every number.",
];
