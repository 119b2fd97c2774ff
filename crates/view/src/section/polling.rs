// SPDX-License-Identifier: GPL-2.0-only
//! Halt polling: the article of 2021 measured again.

use crate::{
    change::TICKLESS,
    number,
    page::{Block, Figure, Section},
    set::{Selection, Set},
    svg::rates::{Group, Rate, Rates},
    table::Table,
    tables::{
        polling::{self, guests, name, rules, HALTS},
        printed,
    },
};
use paratick_core::{
    halts::RunHalts,
    results::{Cell, Figure as Counted},
    stats::{summarize, Observation, Summary},
};

const ABOUT: &str = "An article of 2021 reports what polling before halts saved in virtual \
    machines on a Chromebook, by the host (`kvm`) and by the guest (`haltpoll`). Its host rule \
    was that of 2021 (200000 ns, and one long halt ends polling); it set 160000 ns, shrinking by \
    2, and a floor of 10000 ns, which can be read in two ways: `paper` goes to 0 below it, as \
    what went upstream does, and `paper-floor` never goes below it. `default` is today's. Its \
    graphs have no values, and it keeps the guest's parameters to itself: `+poll-50k` has those \
    that its team named later (50K_10K), `+poll` the defaults. A guest that loads the driver also \
    stops its tick before each halt and switches the host's polling off; `+poll-0` has the driver \
    and never polls.";
const EXITS: &str = "The article says that both ways to poll reduce exits for HLT. The host polls \
    after the exit, so that it saves none by itself: what it saves are context switches, and what \
    it costs are its own instructions. But where vCPUs wait for each other, one that is sooner \
    back may find work or not find it, and so have other exits.";
const NO_POWER: &str =
    "The lab has no power to measure, no idle states and no frequencies. It can \
    count what is executed in a second, and how often a pCPU is woken.";
const CLOCK: &str = "These runs were made on the parallel clock, where a CPU sees what another \
    one does up to one round, 4 µs, early or late (`emulator/README.md`): no limit or time of a \
    halt is known better than that.";
/// Whose limits are drawn, where it was measured: no halt tells how long the next will be.
const DRAWN: &str = "exponential";

pub fn section(selection: &Selection) -> Option<Section> {
    let sets: Vec<&Set> = selection.of("polling").collect();
    if sets.is_empty() {
        return None;
    }
    let mut section = Section::new("polling", "Halt polling (an article of 2021)");
    section.text(ABOUT);
    section.text(EXITS);
    section.text(NO_POWER);
    if sets.iter().any(|set| set.main().environment.configuration.parallel_clock) {
        section.text(CLOCK);
    }
    for set in sets {
        section.heading(format!("polling-{}", set.slug()), number::capital(&set.name()));
        section.table(printed::table(set));
        let blocks = figures(set).into_iter().enumerate();
        section.blocks.extend(blocks.filter_map(|(number, figure)| figure.block(set, number)));
        let changes = polling::by_rule(set);
        if !changes.is_empty() {
            section.table(changes);
        }
    }
    Some(section)
}

struct Drawn {
    title: &'static str,
    caption: String,
    axis: &'static str,
    groups: Vec<Group>,
    /// The same numbers, and more.
    table: Table,
}

impl Drawn {
    /// None where nothing was measured, the table alone where there is nothing to draw.
    fn block(self, set: &Set, number: usize) -> Option<Block> {
        let Drawn { title, caption, axis, groups, table } = self;
        if table.is_empty() {
            return None;
        }
        if groups.is_empty() {
            return Some(Block::Table { table });
        }
        let id = format!("fig-{}-{number}", set.slug());
        let bars = number::plural(groups.iter().map(|group| group.rates.len()).sum(), "bar");
        let description = format!("{bars}; the table after the figure has every number.");
        let rates = Rates { label: axis.into(), groups };
        let draw = |size| rates.draw(size, &id, title, &description);
        Some(Figure::block(&id, caption, table, draw))
    }
}

fn figures(set: &Set) -> Vec<Drawn> {
    let of_all = "of the workload’s largest, %";
    let (workload, limits) = limits(set);
    vec![
        Drawn {
            table: polling::limits(set),
            title: "Limits of the host's polling in force when halts began",
            caption: format!(
                "Graphs 1 and 2 of the article: per cent of the halts of `{workload}` that began \
                 with each limit of the host's polling in force, by the host's rule. The table has \
                 the other workloads."
            ),
            axis: "of the rule’s most frequent limit, %",
            groups: limits,
        },
        Drawn {
            table: polling::halts(set),
            title: "Context switches of vCPU threads by the host's rule",
            caption: format!(
                "Graph 3 of the article: how often vCPU threads of {TICKLESS} guests were switched \
                 out in halts, by the host's rule, in one recorded run."
            ),
            axis: of_all,
            groups: by_workload(set, |cells| {
                let cells = rules(set, cells).cells.into_iter();
                cells.map(|(name, cell)| (name, switches(cell))).collect()
            }),
        },
        Drawn {
            table: polling::by_mode(set),
            title: "Exits for HLT by the guest's way to poll",
            caption: "Graph 4 of the article: exits for HLT in each mode of the guest, on a host \
                with the same rule, with intervals."
                .into(),
            axis: of_all,
            groups: by_workload(set, |cells| {
                let cells = guests(set, cells).cells.into_iter();
                cells.map(|(name, cell)| (name, cell.summary(HALTS))).collect()
            }),
        },
        Drawn {
            table: polling::per_second(set),
            title: "Instructions in a second",
            caption: "In the place of Graph 5 of the article, which shows power: millions of \
                instructions of host and guests in a second of the host's clock, with intervals. \
                This is not power."
                .into(),
            axis: of_all,
            groups: by_workload(set, |cells| {
                let rate = |cell: &&Cell| {
                    let rate = cell.summary(Counted::InstructionsPerS);
                    (name(cell.subject), rate.map(in_millions))
                };
                cells.iter().map(rate).collect()
            }),
        },
    ]
}

/// A group for each workload that has a number at all.
fn by_workload(
    set: &Set,
    rates: impl Fn(&[&Cell]) -> Vec<(String, Option<Summary>)>,
) -> Vec<Group> {
    let groups = set.workloads().into_iter().map(|(name, cells)| group(name, rates(&cells)));
    groups.filter(|group| group.rates.iter().any(|rate| rate.measured.is_some())).collect()
}

fn group(title: &str, rates: Vec<(String, Option<Summary>)>) -> Group {
    let rates = rates.into_iter().map(|(label, measured)| Rate {
        label,
        measured,
        printed: None,
        modelled: None,
    });
    Group { title: title.into(), rates: rates.collect() }
}

/// The workload that is drawn, and a group for each rule that polls.
fn limits<'a>(set: &Set<'a>) -> (&'a str, Vec<Group>) {
    let workloads = set.workloads();
    let drawn = workloads.iter().find(|(name, _)| *name == DRAWN).or(workloads.first());
    let Some((name, cells)) = drawn else { return ("", Vec::new()) };
    let compared = rules(set, cells);
    let polled = compared.cells.iter().filter(|(_, cell)| polling::grows_and_shrinks(cell.subject));
    let groups = polled.filter_map(|(rule, cell)| {
        let halts = cell.readings.halts.as_ref()?;
        Some(group(rule, shares(halts)))
    });
    (name, groups.filter(|group| !group.rates.is_empty()).collect())
}

fn shares(halts: &RunHalts) -> Vec<(String, Option<Summary>)> {
    let limits = halts.tally.limits.keys();
    let share = |limit: &u32| {
        let share = halts.share_at(*limit).and_then(|share| once(100.0 * share));
        (paratick_core::units::Nanos(u64::from(*limit)).to_string(), share)
    };
    limits.map(share).collect()
}

fn switches(cell: &Cell) -> Option<Summary> {
    once(cell.readings.halts.as_ref()?.tally.switches as f64)
}

/// Of one run: without an interval.
fn once(value: f64) -> Option<Summary> {
    summarize(&[Observation { round: 1, value }])
}

fn in_millions(summary: Summary) -> Summary {
    let [median, low, high] = [summary.median, summary.low, summary.high].map(|one| one / 1e6);
    Summary { median, low, high, ..summary }
}
