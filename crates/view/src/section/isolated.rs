// SPDX-License-Identifier: GPL-2.0-only
//! The noise of a busy guest with CPUs isolated: a thesis of 2023.

use crate::{
    number,
    page::{Block, Figure, Section},
    set::Selection,
    svg::{
        canvas::Size,
        lines::{Line, Lines, Panel},
    },
    table::Table,
    tables::isolated,
};
use paratick_core::{
    isolation::Isolation,
    mode::Mode,
    noise::Moment,
    results::{Factorial, Results},
    stats::{Method, Summary},
};

const ABOUT: &str =
    "A thesis (Politecnico di Milano, 2023) lets the kernel's tracer osnoise keep a VM of three \
    vCPUs busy, on a host of four CPUs, and says what isolating CPUs of the host, of the guest and \
    of both does to its noise; it prints no number. Here host and guest have some chores, and \
    osnoise samples on all vCPUs but the first. Each gap is split into disjoint parts, which add \
    up to it.";

pub fn section(selection: &Selection) -> Option<Section> {
    let all: Vec<&Results> = selection.of("noise").flat_map(|set| set.by_cost.clone()).collect();
    if all.is_empty() {
        return None;
    }
    let mut section = Section::new("noise", "Noise of a busy guest (a thesis of 2023)");
    section.text(ABOUT);
    for factorial in Factorial::all(all) {
        let cpus = factorial.host_cpus;
        section.heading(format!("noise-{cpus}"), format!("Noise{}", isolated::on(&factorial)));
        for mode in factorial.modes() {
            section.blocks.push(figure(&factorial, mode));
        }
        isolated::tables(&factorial).into_iter().skip(1).for_each(|table| section.table(table));
    }
    Some(section)
}

/// As the thesis' Figure 1, for every way to isolate.
fn figure(factorial: &Factorial, mode: Mode) -> Block {
    let first = |isolation| {
        let noise = isolated::first(factorial, isolation, mode)?;
        Some((isolated::name(isolation).to_string(), noise.window_ns, &noise.moments[..]))
    };
    let lines: Vec<Recorded> = Isolation::ALL.into_iter().filter_map(first).collect();
    let id = format!("fig-noise-{}-{mode}", factorial.host_cpus).replace('+', "-");
    let caption = format!(
        "Noise over time in `{mode}`{}, of the first boot of each: what the vCPUs that sample lost \
         in each fiftieth of the recording.",
        isolated::on(factorial)
    );
    over_time(&id, caption, &lines, isolated::times(factorial))
}

/// A name, for how long it was recorded, and what there was in equal parts of that.
pub type Recorded<'a> = (String, u64, &'a [Moment]);

/// Two panels, as in the thesis: steal, and the rest of virtualization.
pub fn over_time(id: &str, caption: String, lines: &[Recorded], table: Table) -> Block {
    let below = "the table below has the sums";
    Figure::block(id, caption, table, |size| draw(size, id, lines, below))
}

/// The panels alone; `sums` says where these are.
pub fn draw(size: Size, id: &str, lines: &[Recorded], sums: &str) -> String {
    let panel = |title: &str, of: fn(&Moment) -> u64| Panel {
        title: title.into(),
        lines: lines.iter().map(|line| drawn(line, of)).collect(),
    };
    let panels = vec![
        panel("Steal, µs", |moment| moment.steal_ns),
        panel("KVM and VMM, µs", |moment| moment.hypervisor_ns),
    ];
    let description = format!(
        "Two panels over time, with {} in each; {sums}.",
        number::plural(lines.len(), "line")
    );
    let lines = Lines { panels, label: "ms".into() };
    lines.draw(size, id, "Noise of a busy guest over time", &description)
}

fn drawn((name, window_ns, moments): &Recorded, of: fn(&Moment) -> u64) -> Line {
    let each = *window_ns as f64 / moments.len().max(1) as f64;
    let point = |(number, moment): (usize, &Moment)| {
        let value = of(moment) as f64 / 1e3;
        let exactly =
            Summary { median: value, low: value, high: value, samples: 1, method: Method::Range };
        ((number as f64 + 0.5) * each / 1e6, exactly)
    };
    Line { name: name.clone(), points: moments.iter().enumerate().map(point).collect() }
}
