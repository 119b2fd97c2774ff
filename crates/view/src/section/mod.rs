// SPDX-License-Identifier: GPL-2.0-only
//! The report's sections, in order.  One whose input is missing is not there; the first section
//! names it with the command that measures it.

mod causes;
mod clock;
mod commands;
mod crowd;
mod cycle;
mod environment;
mod explain;
mod idle_entries;
mod isolated;
mod method;
mod mileage;
mod polling;
mod quick;
mod relative;
mod sensitivity;
mod summary;
mod table1;

use crate::{
    input::Input,
    page::{Page, Section},
    set::Selection,
    svg::canvas::Size,
    table::Table,
};
use paratick_core::noise::Moment;

pub fn page(input: &Input, selection: &Selection) -> Page {
    let mut sections = vec![summary::section(input, selection)];
    sections.extend(table1::section(selection));
    sections.extend(relative::sections(selection));
    sections.extend(causes::section(selection));
    sections.extend(cycle::section(&input.timelines));
    sections.extend(sensitivity::section(selection));
    sections.extend(quick::section(selection));
    sections.extend(polling::section(selection));
    sections.extend(crowd::section(selection));
    sections.extend(isolated::section(selection));
    sections.extend(mileage::section(selection));
    sections.push(method::section(input, selection));
    Page { title: "Virtual scheduler ticks, measured".into(), subtitle: subtitle(input), sections }
}

/// Of one recording of noise: its time line, and where the time went.
const ALL_CPUS: &str = "all CPUs";

/// The figure of that page alone.
pub fn noise_drawn(window_ns: u64, moments: &[Moment]) -> String {
    noises_drawn(&[(ALL_CPUS.to_string(), window_ns, moments)])
}

pub use cycle::drawn as cycles_drawn;

/// The same of several recordings.
pub fn noises_drawn(all: &[isolated::Recorded]) -> String {
    isolated::draw(Size::Wide, "noise", all, "`paratick noise` prints the sums")
}

pub fn noise(window_ns: u64, moments: &[Moment], parts: Table) -> Page {
    let mut section = Section::new("noise", "Noise over time");
    let caption = "What the guest's CPUs lost in each fiftieth of the recording.".to_string();
    let line = (ALL_CPUS.to_string(), window_ns, moments);
    section.blocks.push(isolated::over_time("fig-noise", caption, &[line], parts));
    let subtitle = "A busy guest, as paratick noise recorded it".to_string();
    Page { title: "Noise of a guest".into(), subtitle, sections: vec![section] }
}

fn subtitle(input: &Input) -> String {
    let began: Vec<&str> = input
        .results
        .iter()
        .map(|results| results.started.get(..10).unwrap_or(&results.started))
        .collect();
    let when = match (began.iter().min(), began.iter().max()) {
        (Some(first), Some(last)) if first == last => format!(", measured {first}"),
        (Some(first), Some(last)) => format!(", measured {first} to {last}"),
        _ => String::new(),
    };
    // A date is not to be broken over lines.
    let when = when.replace('-', "\u{2011}");
    format!("The evaluation of paratick (ICPP 2021) on real kernels{when}")
}
