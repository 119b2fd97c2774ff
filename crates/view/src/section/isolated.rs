// SPDX-License-Identifier: GPL-2.0-only
//! The noise of a busy guest with CPUs isolated: a thesis of 2023.

use crate::{
    number,
    page::{Block, Figure, Section},
    set::Selection,
    svg::lines::{Line, Lines, Panel},
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
    let panel = |title: &str, of: fn(&Moment) -> u64| Panel {
        title: title.into(),
        lines: Isolation::ALL
            .into_iter()
            .filter_map(|isolation| {
                let noise = isolated::first(factorial, isolation, mode)?;
                let each = noise.window_ns as f64 / noise.moments.len().max(1) as f64;
                let points = noise.moments.iter().enumerate().map(|(number, moment)| {
                    let at = (number as f64 + 0.5) * each / 1e6;
                    (at, exactly(of(moment) as f64 / 1e3))
                });
                Some(Line { name: isolated::name(isolation).into(), points: points.collect() })
            })
            .collect(),
    };
    let panels = vec![
        panel("Steal, µs", |moment| moment.steal_ns),
        panel("KVM and VMM, µs", |moment| moment.hypervisor_ns),
    ];
    let lines = Lines { panels, label: "ms".into() };
    let cpus = factorial.host_cpus;
    let (id, title) = (format!("fig-noise-{cpus}-{mode}"), "Noise of a busy guest over time");
    let caption = format!(
        "Noise over time in `{mode}`{}, of the first boot of each: what the vCPUs that sample lost \
         in each fiftieth of the recording.",
        isolated::on(factorial)
    );
    let description = format!(
        "Two panels over time, with a line for each of {}; the table below has the sums.",
        number::plural(lines.panels[0].lines.len(), "way to isolate")
    );
    let id = id.replace('+', "-");
    let draw = |size| lines.draw(size, &id, title, &description);
    Figure::block(&id, caption, isolated::times(factorial), draw)
}

fn exactly(value: f64) -> Summary {
    Summary { median: value, low: value, high: value, samples: 1, method: Method::Range }
}
