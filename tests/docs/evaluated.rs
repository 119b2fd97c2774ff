// SPDX-License-Identifier: GPL-2.0-only
//! The paper's Tables 2 to 4 and Figures 4 to 6, of the samples in docs/evaluation/tables.

pub mod devices;

use crate::{
    files,
    generated::{table, Medians},
    kept::{self, FOLDER},
};
use paratick_core::{
    catalogue::programs,
    disk_device::DiskDevice,
    mode::TickMode,
    stats::{self, compare, Observation, Verdict},
};
use paratick_view::{
    change::{geometric_mean, Change, Metric, Versus, BASELINES, OURS, PAPERS},
    number::{self, NARROW_SPACE, NO_BREAK, SPACE},
    paper,
};
use serde::Deserialize;
use std::{cmp::Ordering, collections::BTreeMap};

/// Files, and what their guests have.
const SETS: [(&str, &str); 6] = [
    ("sequential", "one vCPU"),
    ("multithreaded-small", "4 vCPUs"),
    ("multithreaded-medium", "16 vCPUs"),
    ("multithreaded-sockets", "16 vCPUs on 2 sockets"),
    ("multithreaded-large", "64 vCPUs"),
    ("io", "fio"),
];

/// What changes: by its name in papers.toml, and by that of its samples.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    Paper(Metric),
    /// Bytes by the time that fio says its job ran for.
    Fio,
}

impl Figure {
    const OF_PROGRAMS: [Figure; 3] = [
        Figure::Paper(Metric::Exits),
        Figure::Paper(Metric::Throughput),
        Figure::Paper(Metric::Time),
    ];
    const OF_IO: [Figure; 4] = [
        Figure::Paper(Metric::Exits),
        Figure::Fio,
        Figure::Paper(Metric::Throughput),
        Figure::Paper(Metric::Time),
    ];

    fn all(file: &str) -> &'static [Figure] {
        match file {
            "io" => &Self::OF_IO,
            _ => &Self::OF_PROGRAMS,
        }
    }

    /// In papers.toml, and in the tables.
    fn name(self) -> &'static str {
        match self {
            Figure::Paper(Metric::Exits) => "exits",
            Figure::Paper(Metric::Throughput) => "work per CPU time",
            Figure::Paper(Metric::Time) => "time",
            Figure::Fio => "fio's throughput",
        }
    }

    /// Of samples, and whether less of these is more of it.
    fn samples(self) -> (&'static str, bool) {
        match self {
            Figure::Paper(Metric::Exits) => ("exits", false),
            Figure::Paper(Metric::Throughput) => ("cpu_ns", true),
            Figure::Paper(Metric::Time) => ("duration_ns", false),
            Figure::Fio => ("fio_run_ms", true),
        }
    }

    /// The least is the largest gain.
    fn gain(self, change: &Change) -> f64 {
        match self.samples() {
            (_, true) => -change.ratio,
            (_, false) => change.ratio,
        }
    }

    /// The larger gain is less; one that is not shown is more than all that are.
    fn compare(self, one: &Change, other: &Change) -> Ordering {
        let hidden = |change: &Change| change.verdict == Verdict::NoDifferenceShown;
        let gains = self.gain(one).total_cmp(&self.gain(other));
        hidden(one).cmp(&hidden(other)).then(gains)
    }

    /// The paper's metric of the same name: its throughput of I/O is fio's.
    fn printed(self, file: &str) -> Option<Metric> {
        match self {
            Figure::Paper(Metric::Throughput) if file == "io" => None,
            Figure::Paper(metric) => Some(metric),
            Figure::Fio => Some(Metric::Throughput),
        }
    }
}

type Kept = kept::Kept<OfPrograms>;

#[derive(Deserialize)]
struct OfPrograms {
    vcpus: u32,
    disk_latency_ns: Option<u64>,
    #[serde(default)]
    disk_device: DiskDevice,
    /// Medians of exits, by workload, mode and cause.
    #[serde(default)]
    causes: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
    /// By workload, mode and name; those of a run have the same place in each list.
    samples: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<f64>>>>,
}

/// None where nothing was measured: some take long.
fn kept(file: &str) -> Option<Kept> {
    let there = files::root().join(format!("{FOLDER}/{file}.json")).exists();
    there.then(|| kept::read(file))
}

impl Kept {
    /// In the order of the catalogue, which is the paper's.
    fn workloads(&self) -> Vec<&'static str> {
        let real = programs::programs().iter().map(|one| one.name.as_str());
        let own = programs::kernels().iter().map(|one| one.name.as_str());
        let jobs = programs::io(DiskDevice::default()).into_iter().map(|job| &*job.name.leak());
        let network = programs::network().iter().map(|one| one.name.as_str());
        let all = real.chain(own).chain(jobs).chain(network);
        let known: Vec<_> = all.filter(|name| self.rest.samples.contains_key(*name)).collect();
        assert_eq!(known.len(), self.rest.samples.len(), "{}: others", self.command);
        known
    }

    /// None where a mode or a figure was not measured.
    fn change(&self, workload: &str, versus: Versus, figure: Figure) -> Option<Change> {
        let (name, inverse) = figure.samples();
        let of = |mode: String| -> Option<Vec<Observation>> {
            let all = self.rest.samples[workload].get(&mode)?;
            let round = all["round"].iter().map(|round| *round as u32);
            let observe = |(round, &value)| Observation { round, value };
            Some(round.zip(all.get(name)?).map(observe).collect())
        };
        let found = compare(&of(versus.mode.to_string())?, &of(versus.baseline.to_string())?)?;
        Some(if inverse { found.inverse() } else { found }.into())
    }

    /// None where one of them is missing.
    fn average(&self, of: &[&str], versus: Versus, figure: Figure) -> Option<Change> {
        let all = of.iter().map(|name| self.change(name, versus, figure));
        geometric_mean(&all.collect::<Option<Vec<_>>>()?)
    }

    /// The largest gain that is shown, and whose; where none is, any.
    fn most(&self, versus: Versus, figure: Figure) -> Option<(Change, &'static str)> {
        let all = self.workloads().into_iter();
        let all = all.filter_map(|name| Some((self.change(name, versus, figure)?, name)));
        all.min_by(|(one, _), (other, _)| figure.compare(one, other))
    }

    fn without_ours(&self) -> Vec<&'static str> {
        let own = |name: &&str| programs::kernels().iter().any(|one| one.name == **name);
        self.workloads().into_iter().filter(|name| !own(name)).collect()
    }
}

/// With its interval.
fn long(change: Option<Change>) -> String {
    change.map_or("–".into(), |change| plain(change.text()))
}

fn plain(text: String) -> String {
    text.replace([NARROW_SPACE, SPACE], " ").replace(NO_BREAK, "")
}

/// Without it.
fn short(change: Option<Change>) -> String {
    match change {
        None => "–".into(),
        Some(change) => match (change.verdict, plain(number::change(change.ratio))) {
            (Verdict::NoDifferenceShown, _) => "≈".into(),
            (Verdict::TooFewSamples, size) => format!("({size})"),
            (_, size) => size,
        },
    }
}

/// `{FILE WORKLOAD MODE BASELINE FIGURE}` of papers.toml; `average`, `others` (without the agent's
/// own kernels), `most`, or the beginning of some workloads' names, stands for several.
pub fn named(words: [&str; 5]) -> String {
    let [file, workload, mode, baseline, figure] = words;
    let kept = kept(file).unwrap_or_else(|| panic!("{file} was not measured"));
    let figure = Figure::OF_IO.into_iter().find(|one| one.name().starts_with(figure));
    let figure = figure.unwrap_or_else(|| panic!("{words:?}: no such figure"));
    let versus = Versus { mode: mode.parse().unwrap(), baseline: baseline.parse().unwrap() };
    let all = kept.workloads();
    let found = match workload {
        "average" => kept.average(&all, versus, figure),
        "others" => kept.average(&kept.without_ours(), versus, figure),
        "most" => kept.most(versus, figure).map(|(change, _)| change),
        start => kept.average(&starting(&all, start), versus, figure),
    };
    assert!(found.is_some(), "{words:?} was not measured");
    short(found)
}

fn starting<'a>(all: &[&'a str], start: &str) -> Vec<&'a str> {
    all.iter().copied().filter(|name| name.starts_with(start)).collect()
}

/// Tables 2 to 4.
pub fn averages() -> String {
    let mut rows = Vec::new();
    for (file, of) in SETS {
        let Some(kept) = kept(file) else { continue };
        let figures = Figure::OF_PROGRAMS.map(|figure| match figure {
            Figure::Paper(Metric::Throughput) if file == "io" => Figure::Fio,
            other => other,
        });
        let bench = file.split('-').next().unwrap_or_default();
        let row = |name: String, cells: [String; 3]| format!("| {name} | {} |", cells.join(" | "));
        let printed = Metric::ALL.map(|metric| paper::average(bench, kept.rest.vcpus, metric));
        let printed = printed.map(|percent| plain(number::printed(percent.expect("the paper's"))));
        rows.push(row(format!("**{of}**, the paper"), printed));
        let (all, others) = (kept.workloads(), kept.without_ours());
        let ran = |versus: &Versus| kept.average(&all, *versus, figures[0]).is_some();
        for versus in Versus::all().filter(ran) {
            let of = |some: &[&str]| figures.map(|figure| long(kept.average(some, versus, figure)));
            let baseline = versus.baseline.to_string().replace("tickless-", "");
            rows.push(row(format!("{} / {baseline}", versus.mode), of(&all)));
            if others.len() < all.len() {
                rows.push(row("… without our own two".into(), of(&others)));
            }
        }
    }
    table("| | VM exits | throughput | time |\n|---|---|---|---|", rows.into_iter())
}

/// The abstract's sentence.
pub fn most() -> String {
    let sets = [("with blocking", &SETS[1..5]), ("with I/O", &SETS[5..])];
    let rows = sets.iter().zip(paper::MOST).flat_map(|((kind, files), printed)| {
        let figures = Figure::all(files[0].0).iter();
        figures.map(move |figure| {
            let best = |mode| {
                let versus = Versus { mode, ..PAPERS };
                let of = |(file, size): &(&str, &str)| {
                    let (change, name) = kept(file)?.most(versus, *figure)?;
                    let name = if *file == "io" { name.into() } else { format!("{name}, {size}") };
                    Some((change, name))
                };
                let all = files.iter().filter_map(of);
                let least = all.min_by(|one: &(Change, String), other: &(Change, String)| {
                    figure.compare(&one.0, &other.0)
                });
                least.map_or("–".into(), |(change, name)| {
                    format!("{} ({name})", short(Some(change)))
                })
            };
            let metric = figure.printed(files[0].0);
            let printed = metric.map_or("–".into(), |metric| {
                let at = Metric::ALL.iter().position(|one| *one == metric).unwrap();
                plain(number::printed(printed[at]))
            });
            let [ticks, ours] = OURS.map(best);
            format!("| {}, {kind} | {printed} | {ticks} | {ours} |", figure.name())
        })
    });
    table("| at most | printed | paratick-ticks | paratick |\n|---|---|---|---|", rows)
}

/// Figures 4 to 6: each of a file.
pub fn programs_of(file: &str) -> String {
    let Some(kept) = kept(file) else { return "Not measured.".into() };
    let all = kept.workloads();
    let groups = all.iter().map(|name| (name.to_string(), vec![*name])).collect::<Vec<_>>();
    by_group(file, &kept, &groups)
}

/// Figure 6 by kind of job.
pub fn kinds() -> String {
    let Some(kept) = kept("io") else { return "Not measured.".into() };
    let all = kept.workloads();
    let kinds = [
        ("reads", vec!["seqr", "rndr"]),
        ("writes", vec!["seqwr", "rndwr"]),
        ("sequential", vec!["seqr", "seqwr"]),
        ("at random", vec!["rndr", "rndwr"]),
    ];
    let of = |starts: &[&str]| {
        starts.iter().flat_map(|start| starting(&all, &format!("{start}-"))).collect()
    };
    let kinds = kinds.map(|(name, starts)| (name.to_string(), of(&starts)));
    let sizes = ["4k", "16k", "64k", "256k"].map(|size| {
        let end = format!("-{size}");
        (format!("of {size}"), all.iter().copied().filter(|name| name.ends_with(&end)).collect())
    });
    by_group("io", &kept, &[kinds, sizes].concat())
}

fn by_group(file: &str, kept: &Kept, groups: &[(String, Vec<&str>)]) -> String {
    let all: Vec<Versus> = BASELINES
        .iter()
        .flat_map(|baseline| Versus::against(*baseline))
        .filter(|versus| *versus != (Versus { baseline: BASELINES[1], ..PAPERS }))
        .collect();
    // Some modes were not measured with all sizes.
    let ran = |versus: &Versus, figure| {
        groups.iter().any(|(_, of)| kept.average(of, *versus, figure).is_some())
    };
    let columns: Vec<(usize, Versus, Figure)> = (1..)
        .zip(&all)
        .filter(|(_, versus)| ran(versus, Figure::all(file)[0]))
        .flat_map(|(group, versus)| Figure::all(file).iter().map(move |one| (group, *versus, *one)))
        .collect();
    let rows = groups.iter().map(|(name, of)| {
        let cells = columns
            .iter()
            .map(|(_, versus, figure)| short(kept.average(of, *versus, *figure)).replace(" %", ""));
        format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "))
    });
    let names = columns.iter().map(|(group, _, figure)| {
        let name = match figure {
            Figure::Fio => "fio",
            Figure::Paper(Metric::Throughput) => "work",
            other => other.name(),
        };
        match *figure == Figure::all(file)[0] {
            true => format!("{group}: {name}"),
            false => name.into(),
        }
    });
    let names: Vec<_> = names.collect();
    let head = format!("| | {} |\n|{}", names.join(" | "), "---|".repeat(names.len() + 1));
    kept.below_command(table(&head, rows))
}

/// Medians of any programs, in some modes.
pub fn exits_of(file: &str, modes: &[&str]) -> String {
    let kept = kept(file).expect("it is there");
    let rows = kept.rest.samples.iter().map(|(name, of)| {
        let exits = modes.iter().map(|mode| {
            let median = stats::median(&of[*mode]["exits"]).expect("it ran");
            plain(number::whole(median))
        });
        format!("| {name} | {} |", exits.collect::<Vec<_>>().join(" | "))
    });
    let head = format!("| | {} |\n|{}", modes.join(" | "), "---|".repeat(modes.len() + 1));
    kept.below_command(table(&head, rows))
}

#[derive(Deserialize)]
struct OfTable1 {
    vcpus: u32,
    /// By workload.
    guests: BTreeMap<String, u32>,
    duration_ns: Medians,
    causes: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

/// Exits for the guest's own timer, of a vCPU in a second.
pub fn table1() -> String {
    let kept: kept::Kept<OfTable1> = kept::read("table1");
    let of = &kept.rest;
    let modes: Vec<_> = TickMode::ALL
        .map(TickMode::name)
        .into_iter()
        .filter(|mode| of.causes.values().all(|modes| modes.contains_key(*mode)))
        .collect();
    let rows = of.guests.iter().map(|(workload, guests)| {
        let cells = modes.iter().map(|mode| {
            let seconds = of.duration_ns[workload][*mode] / 1e9;
            let causes = &of.causes[workload][*mode];
            let timer = ["arm", "stop", "expiry"].iter().filter_map(|one| causes.get(*one));
            // A sum of none would be −0.
            let exits = timer.fold(0.0, |sum, one| sum + one);
            let rate = exits / seconds / f64::from(of.vcpus * guests);
            plain(if rate < 100.0 { number::decimal(rate) } else { number::whole(rate) })
        });
        let cells: Vec<_> = cells.collect();
        let printed = [TickMode::Periodic, TickMode::TicklessStop].map(|tick| {
            paper::table1_rate(workload, tick)
                .map_or("–".into(), |rate| plain(number::whole(rate)))
        });
        format!("| {workload} | {} | {} |", cells.join(" | "), printed.join(", "))
    });
    let names = modes.join(" | ");
    let head = format!("| | {names} | *printed* |\n|{}", "---|".repeat(modes.len() + 2));
    kept.below_command(table(&head, rows))
}

/// Every file that tables are made of, and which are of another series than README's table.
pub fn origins() -> String {
    #[derive(Deserialize)]
    struct Origin {
        started: Option<String>,
        commit: Option<String>,
        patches: Option<String>,
        clock: Option<String>,
    }
    let now = kept::read::<Origin>("quick").patches;
    let mut files = files::all();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let names = files.iter().filter_map(|file| {
        file.path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".json")
    });
    let rows = names.map(|name| {
        let of: Origin = kept::read(name);
        let series = match (&of.patches, &now) {
            (None, _) => "by row".into(),
            (own, now) if own == now => "README's".into(),
            (Some(own), _) => format!("another: {own}"),
        };
        let text = |value: Option<String>| value.unwrap_or_else(|| "–".into());
        let (commit, clock) = (text(of.commit), text(of.clock));
        let date = text(of.started.map(|started| started[..10].to_string()));
        format!("| {name} | {date} | {commit} | {series} | {clock} |")
    });
    table("| file | measured | commit | series | clock |\n|---|---|---|---|---|", rows)
}
