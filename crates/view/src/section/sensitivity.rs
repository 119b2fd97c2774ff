// SPDX-License-Identifier: GPL-2.0-only
//! How far the conclusions depend on what a world switch is taken to cost.

use crate::{
    change::{self, Change, Metric, Outcome, Versus, BASELINES, OURS},
    number,
    page::{Block, Figure, Section},
    set::{average, cost_ns, Selection, Set},
    svg::curve::{Curve, Curves, Panel},
    table::Table,
};
use paratick_core::{
    exit_cost,
    mode::Mode,
    results::{Figure as Counted, Results},
    throughput,
    units::Nanos,
};

pub fn section(selection: &Selection) -> Option<Section> {
    let sets: Vec<&Set> = selection.evaluated().into_iter().filter(|set| counted(set)).collect();
    if sets.is_empty() {
        return None;
    }
    let mut section =
        Section::new("sensitivity", "If a world switch cost nothing, or twice as much");
    section.text(
        "An emulated world switch takes one instruction, a real one some thousand cycles. \
        The lab therefore charges a stated cost for each; `docs/exit-cost.md` derives its default \
        from published figures. Throughput is computed for other costs from the same samples: \
        instructions of host and guest, and the cost of every world switch. That these would be \
        the same at another cost is an assumption: a cost that is charged while a guest runs also \
        moves its timers. Where several costs were measured, the exits at each are given. \
        Execution time is only known at costs that were measured.",
    );
    for set in sets {
        section.heading(format!("cost-{}", set.slug()), format!("Cost: {}", set.name()));
        section.text(verdict(set));
        if let Some(text) = exits(set) {
            section.text(text);
        }
        let measured = |mode: &Mode| Versus::of(*mode).any(|versus| !set.pairs(versus).is_empty());
        for mode in OURS.into_iter().filter(measured) {
            section.blocks.push(figure(set, mode));
        }
        section.blocks.push(Block::More {
            summary: format!("System throughput of each benchmark at three costs ({})", set.name()),
            table: per_workload(set),
        });
    }
    Some(section)
}

/// Whether the emulator counted what throughput is computed from.
fn counted(set: &Set) -> bool {
    let samples = set.main().cells.iter().flat_map(|cell| cell.samples());
    samples.filter_map(|sample| throughput::cpu_ns(sample, Nanos(0))).next().is_some()
}

/// Of every workload that has both modes.
fn throughputs<'a>(set: &Set<'a>, versus: Versus, cost: Nanos) -> Vec<(&'a str, Option<Change>)> {
    let change = |mode, base| throughput::relative(mode, base, cost).map(Change::from);
    let pairs = set.pairs(versus).into_iter();
    pairs.map(|(name, mode, base)| (name, change(mode, base))).collect()
}

/// The cost charged, or where none was, the one that the lab takes for the likeliest.
fn stated(set: &Set) -> Nanos {
    match cost_ns(set.main()) {
        0 => exit_cost::DEFAULT,
        cost => Nanos(cost.into()),
    }
}

/// No cost, the stated one, twice that.
fn three(set: &Set) -> [Nanos; 3] {
    let cost = stated(set);
    [Nanos(0), cost, cost + cost]
}

/// Whether any conclusion about throughput changes within the range, in words.
fn verdict(set: &Set) -> String {
    let texts = Versus::all().filter_map(|versus| {
        let Versus { mode, baseline } = versus;
        let at = three(set).map(|cost| throughputs(set, versus, cost));
        let outcomes = (0..at[0].len()).map(|nth| {
            let outcome = |cost: usize| Metric::Throughput.outcome(at[cost][nth].1);
            (at[0][nth].0, [0, 1, 2].map(outcome))
        });
        let all = outcomes.len();
        let (open, known): (Vec<_>, Vec<_>) =
            outcomes.partition(|(_, outcomes)| outcomes.contains(&Outcome::Open));
        let moved = known.iter().filter(|(_, of)| of.iter().any(|outcome| *outcome != of[0]));
        let moved: Vec<String> = moved.map(|(name, _)| name.to_string()).collect();
        let concluded = number::plural(all - open.len(), "benchmark");
        let text = match (all, all - open.len(), moved.len()) {
            (0, ..) => return None,
            (_, 0, _) => format!(
                "Against `{baseline}` there are too few boots to conclude anything about the \
                 throughput of `{mode}` at any cost."
            ),
            (_, _, 0) => format!(
                "Against `{baseline}` the conclusion about the throughput of `{mode}` is the same \
                 at no cost and at twice the cost on each of {concluded}."
            ),
            (_, _, count) => format!(
                "Against `{baseline}` the conclusion about the throughput of `{mode}` is not the \
                 same at every cost on {count} of {concluded}: {}.",
                number::list(&moved)
            ),
        };
        Some(match open.len() {
            open if open > 0 && open < all => format!(
                "{text} On {open} more nothing can be \
                concluded."
            ),
            _ => text,
        })
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Of one of our modes: a curve against each baseline.
fn figure(set: &Set, mode: Mode) -> Block {
    let throughput_curve = |versus: Versus| Curve {
        name: format!("against {}", versus.baseline),
        points: exit_cost::range(stated(set))
            .into_iter()
            .filter_map(|cost| {
                let mean = average(&throughputs(set, versus, cost))?;
                Some((cost.0 as f64, mean))
            })
            .collect(),
    };
    let time_curve = |versus: Versus| Curve {
        name: format!("against {}", versus.baseline),
        points: measured(set, versus),
    };
    let main_cost = f64::from(cost_ns(set.main()));
    let panel = |title: &str, curves: Vec<Curve>| Panel { title: title.into(), curves };
    let mut panels = vec![panel(
        "System throughput, change in %",
        Versus::of(mode).map(throughput_curve).collect(),
    )];
    let costs = set.by_cost.len();
    // One cost shows nothing of how it depends on it.
    if costs > 1 {
        panels.push(panel(
            &format!("{}, change in %", set.name_of(Metric::Time)),
            Versus::of(mode).map(time_curve).collect(),
        ));
    }
    let curves = Curves {
        panels,
        label: "cost of a world switch, ns".into(),
        main_cost,
        costs: (0.0, 2.0 * stated(set).0 as f64),
    };
    let title = format!("Average change by {mode} by the cost of a world switch, {}", set.name());
    let mut caption = format!(
        "{title}: geometric means with intervals, {} in each mode. Dashed: {} ns, the cost in the \
         other figures.",
        set.samples(),
        number::count(main_cost)
    );
    if costs > 1 {
        caption += &format!(" Execution time was measured at {costs} costs");
        let (everywhere, all) = (everywhere(set, mode).len(), set.workloads().len());
        if everywhere < all {
            caption += &format!(", on {everywhere} of {all} benchmarks");
        }
        caption += ".";
    } else {
        caption += " Execution time was measured at this cost only.";
    }
    let panels: Vec<&str> = curves.panels.iter().map(|p| p.title.as_str()).collect();
    let description = format!(
        "{}: {}, each with a curve against both baselines. The table after the figure has every \
         number.",
        number::plural(panels.len(), "panel"),
        panels.join("; ")
    );
    let id = format!("fig-cost-{}-{mode}", set.slug());
    Figure::block(&id, caption, table(&title, &curves), |size| {
        curves.draw(size, &id, &title, &description)
    })
}

/// The average of execution time at every cost that was measured, over the same workloads.
fn measured(set: &Set, versus: Versus) -> Vec<(f64, Change)> {
    let everywhere = everywhere(set, versus.mode);
    let at = |results: &&Results| {
        let alone = Set::alone(results);
        let mut changes = alone.changes(Metric::Time, versus);
        changes.retain(|(name, _)| everywhere.contains(name));
        Some((f64::from(cost_ns(results)), average(&changes)?))
    };
    set.by_cost.iter().filter_map(at).collect()
}

/// The exits at every cost that was measured: how far the samples of one cost stand for another.
fn exits(set: &Set) -> Option<String> {
    let all = &set.by_cost;
    if all.len() < 2 {
        return None;
    }
    let ours = OURS.into_iter().map(|mode| (mode, everywhere(set, mode)));
    let ours: Vec<_> = ours.filter(|(_, names)| !names.is_empty()).collect();
    let names = &ours.first()?.1;
    let sum = |results: &Results, mode| -> Option<f64> {
        names.iter().map(|name| results.cell(name, mode)?.median(Counted::Exits)).sum()
    };
    let of_mode = |mode: Mode| {
        let sums: Option<Vec<f64>> = all.iter().map(|results| sum(results, mode)).collect();
        let sums: Vec<String> = sums?.into_iter().map(number::count).collect();
        Some(format!("{} in `{mode}`", number::list(&sums)))
    };
    let modes = BASELINES.into_iter().chain(ours.iter().map(|(mode, _)| *mode));
    let modes: Vec<String> = modes.filter_map(of_mode).collect();
    let costs: Vec<String> =
        all.iter().map(|results| number::count(f64::from(cost_ns(results)))).collect();
    (!modes.is_empty()).then(|| {
        format!(
            "VM exits measured at {} ns, over {} (sums of medians): {}.",
            number::list(&costs),
            number::plural(names.len(), "benchmark"),
            modes.join("; ")
        )
    })
}

/// The workloads that were measured in a mode at every cost.
fn everywhere<'a>(set: &Set<'a>, mode: Mode) -> Vec<&'a str> {
    let mut names: Vec<&str> = set.workloads().into_iter().map(|(name, _)| name).collect();
    let has = |results: &Results, name: &str| results.cell(name, mode).is_some();
    names.retain(|name| set.by_cost.iter().all(|results| has(results, name)));
    names
}

fn table(caption: &str, curves: &Curves) -> Table {
    let mut table = Table::new(caption, ["Cost, ns", "Change"]);
    for panel in &curves.panels {
        for curve in &panel.curves {
            table.group(format!("{}, {}", panel.title, curve.name));
            for (cost, change) in &curve.points {
                table.row(number::count(*cost), vec![change.text()]);
            }
        }
    }
    table
}

fn per_workload(set: &Set) -> Table {
    let at = three(set);
    let heads = at.map(|cost| format!("at {} ns", number::count(cost.0 as f64)));
    let mut table = Table::new(
        format!(
            "System throughput by the cost of a world switch, {}, {} in each mode. Turns at: the \
             smallest cost beyond which the other of the two has the higher throughput, by their \
             medians; –: no such cost, or no difference shown at any of the three",
            set.name(),
            set.samples()
        ),
        ["Benchmark", &heads[0], &heads[1], &heads[2], "Conclusion", "Turns at"],
    );
    for versus in Versus::all().filter(|versus| !set.pairs(*versus).is_empty()) {
        table.group(versus.to_string());
        let columns = at.map(|cost| throughputs(set, versus, cost));
        for (nth, (workload, _)) in columns[0].iter().enumerate() {
            let changes = [0, 1, 2].map(|column: usize| columns[column][nth].1);
            let mut cells: Vec<String> = changes.into_iter().map(change::text).collect();
            cells.push(conclusion(changes));
            let shown = |change| {
                let outcome = Metric::Throughput.outcome(change);
                matches!(outcome, Outcome::Wins | Outcome::Loses)
            };
            cells.push(match changes.into_iter().any(shown) {
                true => turns(set, workload, versus),
                false => "–".into(),
            });
            table.row(*workload, cells);
        }
    }
    table
}

/// The cost beyond which the other mode has the higher throughput.
fn turns(set: &Set, workload: &str, versus: Versus) -> String {
    let cell = |mode| set.main().cell(workload, mode);
    let cells = cell(versus.mode).zip(cell(versus.baseline));
    let cost = cells.and_then(|(mode, base)| throughput::break_even(mode, base));
    cost.map_or("–".into(), |cost| format!("{} ns", number::count(cost)))
}

fn conclusion(changes: [Option<Change>; 3]) -> String {
    let word = |change| match Metric::Throughput.outcome(change) {
        Outcome::Wins => "wins",
        Outcome::Ties => "ties",
        Outcome::Loses => "loses",
        Outcome::Open => "open",
    };
    let [none, main, twice] = changes.map(word);
    match none == main && main == twice {
        true => format!("{main} at all three"),
        false => format!("{none}, {main}, {twice}"),
    }
}
