// SPDX-License-Identifier: GPL-2.0-only
//! What the model says of Table 1, from the loads that were measured.

use paratick_core::{
    cause::Cause,
    model::{measured, TickModel},
    results::{Cell, Results},
    stats,
};
use paratick_view::Prediction;

/// One for each cell of a result of `bench table1` that tells its load.
pub fn table1(results: &Results) -> Vec<Prediction> {
    let cells = results.cells.iter().filter(|_| results.bench == "table1");
    cells.filter_map(|cell| of_cell(results, cell)).collect()
}

fn of_cell(results: &Results, cell: &Cell) -> Option<Prediction> {
    let observed = measured::observe_cell(results, cell);
    let model = TickModel::of(cell.mode);
    let seconds: Vec<f64> = observed.iter().map(|one| one.time.seconds()).collect();
    let vcpus = f64::from(results.plan.guests * cell.vcpus);
    let predicted = measured::predict_all(model, &observed)?;
    // The guest's own timer only: the host ticks whatever the guest does.
    let own = [Cause::Arm, Cause::Stop, Cause::Expiry];
    let exits: f64 = own
        .iter()
        .filter_map(|cause| predicted.by_cause.get(cause))
        .sum();
    Some(Prediction {
        workload: cell.workload.clone(),
        mode: cell.mode,
        per_vcpu_second: exits / (vcpus * stats::median(&seconds)?),
    })
}
