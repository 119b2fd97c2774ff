// SPDX-License-Identifier: GPL-2.0-only
//! Who balances load for idle CPUs, beside Table 5 of 2007.

use super::mileage::at_hz;
use crate::{
    change::{self, Change},
    number::{self, count},
    table::Table,
};
use paratick_core::{
    balancing::Balancing,
    catalogue::mileage::{regression_of, REGRESSIONS},
    cause::Cause,
    results::{Balance, BalanceRow, Figure},
};

const EXITS: [Figure; 3] = [Figure::Exits, Figure::Cause(Cause::Ipi), Figure::Cause(Cause::Expiry)];

pub fn table(balance: &Balance) -> Table {
    let caption = format!(
        "{}, by who balances load for idle vCPUs{}",
        number::capital(balance.workload),
        at_hz(balance.hz)
    );
    let columns = ["Load is balanced by", "Time, ms", "Against ticks"];
    let exits = ["VM exits", "IPI", "Expiry"];
    let mut table = Table::new(caption, columns.into_iter().chain(exits));
    if let Some(regression) = regression_of(balance.workload) {
        table.group(format!("Printed in Table 5: SPECjbb2000, {}", regression.collector));
        let cells = ["–".into(), number::change(1.0 / (1.0 - regression.lost)), "–".into()];
        table.row("nobody", cells.into_iter().chain(["–".into(), "–".into()]));
    }
    table.group(format!("Here, {}", number::plural(balance.vcpus as usize, "vCPU")));
    for row in &balance.rows {
        table.row(name(row), cells(balance, row));
    }
    for policy in Balancing::ALL {
        table.note(format!("`{policy}`: {}.", policy.about()));
    }
    table.note(format!(
        "Medians of all boots with their intervals. Time: on the host's clock, for the same work. \
         What was printed is lost throughput, here as a longer time: {}. {}",
        REGRESSIONS.map(|one| format!("{} % {}", one.lost * 100.0, one.collector)).join(" and "),
        change::SIGNS
    ));
    table
}

fn name(row: &BalanceRow) -> String {
    match row.balancing {
        None => format!("its own tick ({})", row.mode),
        Some(policy) => policy.to_string(),
    }
}

fn cells(balance: &Balance, row: &BalanceRow) -> Vec<String> {
    let ms = |ns: f64| number::decimal(ns / 1e6);
    let versus = balance.versus_ticks(row, Figure::DurationNs);
    let versus = match row.balancing {
        None => number::NOTHING.into(),
        Some(_) => change::text(versus.map(Change::from)),
    };
    let mut cells = vec![number::interval(row.summary(Figure::DurationNs), ms), versus];
    cells.extend(EXITS.map(|figure| number::interval(row.summary(figure), count)));
    cells
}
