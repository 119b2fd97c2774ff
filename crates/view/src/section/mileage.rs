// SPDX-License-Identifier: GPL-2.0-only
//! An idle guest beside the tables of a paper of 2007.

use crate::{
    page::Section,
    set::Selection,
    tables::{
        balance,
        mileage::{self, at},
    },
};
use paratick_core::{
    catalogue::idle_tables::BENCH,
    results::{Balance, Mileage, Results},
};

const ABOUT: &str =
    "“Getting maximum mileage out of tickless” (Ottawa Linux Symposium, 2007) counts \
    the interrupts of an idle laptop without ticks, with a deferrable timer, and with other clock \
    devices, and has a busy server whose idle CPUs nobody balances load for. Here a guest does the \
    same, and its VM exits stand beside. What was printed is shown with it; of power, which the \
    paper is about, nothing can be said.";

pub fn section(selection: &Selection) -> Option<Section> {
    let all: Vec<&Results> = selection.of(BENCH).map(|set| set.main()).collect();
    if all.is_empty() {
        return None;
    }
    let mut section = Section::new(BENCH, "An idle guest (the tables of 2007)");
    section.text(ABOUT);
    let balances = Balance::all(all.iter().copied());
    for one in Mileage::all(all).into_iter().filter(|one| !one.rows.is_empty()) {
        let hz = one.hz.map_or("unknown".to_string(), |hz| hz.0.to_string());
        section.heading(format!("{BENCH}-{hz}"), format!("An idle guest{}", at(&one)));
        mileage::tables(&one).into_iter().for_each(|table| section.table(table));
    }
    if !balances.is_empty() {
        section.heading(format!("{BENCH}-balance"), "A busy guest, and who balances its load");
        balances.iter().for_each(|one| section.table(balance::table(one)));
    }
    Some(section)
}
