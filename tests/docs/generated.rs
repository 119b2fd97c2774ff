// SPDX-License-Identifier: GPL-2.0-only
//! The parts of documents that the code states.  `PARATICK_BLESS=1` writes them again.

use crate::{
    files::{self, File},
    papers, schema, COLUMNS,
};
use paratick_core::subject::HOST_SETTINGS;
use paratick_core::{
    catalogue::programs,
    mode::{Mode, Polling, TickMode, POLLINGS},
    results::Figure,
    workload::WORKLOADS,
};
use paratick_view::number::{count, NARROW_SPACE};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
};

const BEGIN: &str = "\n<!-- generated: ";
const END: &str = "<!-- end -->";

type Block = (&'static str, fn() -> String);

const BLOCKS: [Block; 12] = [
    ("modes", modes),
    ("host-settings", host_settings),
    ("workloads", workloads),
    ("figures", figures),
    ("programs", programs_and_kernels),
    ("quick", quick),
    ("stock", stock),
    ("papers", papers::counts),
    ("paratick", || papers::items("paratick")),
    ("tickless", || papers::items("tickless")),
    ("osnoise", || papers::items("osnoise")),
    ("halt-polling", || papers::items("halt-polling")),
];

#[test]
fn generated_parts_of_documents_say_what_the_code_says() {
    let bless = env::var_os("PARATICK_BLESS").is_some();
    let mut used = BTreeSet::new();
    for file in files::all().iter().filter(|file| file.path.ends_with(".md")) {
        let text = written(file, &mut used);
        if bless && text != file.text {
            fs::write(files::root().join(&file.path), &text).expect("the document is written");
        } else {
            let hint = "hint: PARATICK_BLESS=1 cargo test -p paratick --test docs";
            assert!(text == file.text, "{} is not what the code says\n{hint}\n{text}", file.path);
        }
    }
    let names = BLOCKS.iter().map(|(name, _)| *name).chain(schema::TOPICS.map(|(name, _)| name));
    let unused: Vec<_> = names.filter(|name| !used.contains(name)).collect();
    assert!(unused.is_empty(), "in no document: {unused:?}");
}

/// The document with every block as the code has it.
fn written(file: &File, used: &mut BTreeSet<&'static str>) -> String {
    let mut parts = file.text.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("a marker names its block");
        let (_, rest) = rest.split_once(END).unwrap_or_else(|| panic!("{name} has no end"));
        let (name, block) = block(name).unwrap_or_else(|| panic!("{}: no {name}", file.path));
        used.insert(name);
        text += &format!("{BEGIN}{name} -->\n{block}\n{END}{rest}");
    }
    text
}

fn block(name: &str) -> Option<(&'static str, String)> {
    let plain = BLOCKS.iter().find(|(known, _)| *known == name);
    let plain = plain.map(|(name, render)| (*name, render()));
    let topic = || schema::TOPICS.iter().find(|(known, _)| *known == name);
    plain.or_else(|| topic().map(|(name, types)| (*name, schema::tables(types))))
}

fn modes() -> String {
    let parameters = |tick| Mode { tick, poll: Polling::Off }.kernel_parameters();
    let tick = TickMode::ALL.map(|tick| item(tick.name(), tick.row().about, &parameters(tick)));
    let polls = POLLINGS.iter().filter(|row| row.polling != Polling::Off).map(|row| {
        let about = format!("with any of these, as in `paratick{}`: {}", row.suffix, row.about);
        item(row.suffix, &about, &row.polling.parameters())
    });
    tick.into_iter().chain(polls).collect::<Vec<_>>().join("\n")
}

fn item(name: &str, about: &str, parameters: &[String]) -> String {
    let parameters = match parameters {
        [] => "No kernel parameters.".to_string(),
        some => format!("Kernel parameters: `{}`.", some.join(" ")),
    };
    let colon = if name.starts_with('+') { "" } else { ":" };
    wrapped(&format!("* `{name}`{colon} {about}. {parameters}"))
}

fn host_settings() -> String {
    let rows = HOST_SETTINGS.iter().map(|row| {
        let (name, about, parameter) = (row.name, row.about, row.parameter);
        format!("| {name} | {} {} | {about} | `{parameter}` |", row.default, row.unit)
    });
    let head = "| setting | default | what | kernel parameter |\n|---|---|---|---|";
    [head.to_string()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn workloads() -> String {
    let rows = WORKLOADS.iter().map(|workload| {
        let (name, about) = (workload.name, workload.about);
        format!("| `{name}` | {} {} | {about} |", workload.work, workload.unit)
    });
    table("| name | work | it |\n|---|---|---|", rows)
}

fn figures() -> String {
    let rows = Figure::all().map(|figure| {
        let (unit, about) = figure.about();
        format!("| `{figure}` | {unit} | {about} |")
    });
    table("| figure | unit | meaning |\n|---|---|---|", rows)
}

fn programs_and_kernels() -> String {
    let programs = programs::programs().iter().map(|one| {
        let from = format!("package {}", one.packages.join(", "));
        (&one.name, from, &one.stands_for, &one.why)
    });
    let kernels = programs::kernels().iter();
    let kernels =
        kernels.map(|one| (&one.name, "the agent's own".into(), &one.stands_for, &one.why));
    let items = programs.chain(kernels).map(|(name, from, stands_for, why)| {
        wrapped(&format!("* `{name}` ({from}) stands for {stands_for}. {why}"))
    });
    items.collect::<Vec<_>>().join("\n")
}

/// What `scripts/table` keeps of a results file.
#[derive(serde::Deserialize)]
struct Kept {
    command: String,
    started: String,
    commit: String,
    patches: String,
    clock: String,
    boots: u32,
    runs: u32,
    /// Medians, by workload and mode.
    exits: BTreeMap<String, BTreeMap<String, f64>>,
}

fn kept(name: &str) -> Kept {
    let file = format!("docs/evaluation/tables/{name}.json");
    let kept = serde_json::from_str(&files::read(&file));
    let kept: Kept = kept.unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(kept.command.starts_with("paratick bench "), "{file}: {}", kept.command);
    kept
}

/// What was kept of benches on and in kernels of Debian's.
#[derive(serde::Deserialize)]
struct StockKept {
    cells: Vec<StockCell>,
}

#[derive(serde::Deserialize)]
struct StockCell {
    host: String,
    guest: String,
    clock: String,
    /// By workload; and of those by cause.
    exits: BTreeMap<String, u64>,
    by_cause: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Exits of each guest on each host.
fn stock() -> String {
    let text = files::read("docs/evaluation/tables/stock.json");
    let kept: StockKept = serde_json::from_str(&text).expect("stock.json");
    let row = |cell: &StockCell| {
        let clock = if cell.clock == "parallel" { " (parallel clock)" } else { "" };
        let number = |n: u64| count(n as f64).replace(NARROW_SPACE, " ");
        let [idle, cpu, sleep] = ["idle", "cpu", "sleep"].map(|name| number(cell.exits[name]));
        let causes = &cell.by_cause["cpu"];
        assert_eq!(causes.values().sum::<u64>(), cell.exits["cpu"]);
        // KVM of Linux 6.1 tells of an exit too late: docs/measuring.md.
        let untold = |name: &str| cell.host == "debian:6.1" && name != "arm";
        let causes = ["arm", "expiry", "host-tick", "host-timer", "other"].map(|name| {
            if untold(name) {
                "?".into()
            } else {
                causes.get(name).map_or("–".into(), u64::to_string)
            }
        });
        let (host, guest) = (&cell.host, &cell.guest);
        format!("| {host}{clock} | {guest} | {idle} | {sleep} | {cpu} | {} |", causes.join(" | "))
    };
    let head =
        "| host | guest | idle | sleep | cpu | arm | expiry | host-tick | host-timer | other |\n\
                |---|---|---|---|---|---|---|---|---|---|";
    let rows: Vec<String> = kept.cells.iter().map(row).collect();
    format!("{head}\n{}", rows.join("\n"))
}

/// A median of exits, as it is kept in `docs/evaluation/tables`.
pub fn median(table: &str, workload: &str, mode: &str) -> String {
    number(&kept(table), workload, mode)
}

fn number(kept: &Kept, workload: &str, mode: &str) -> String {
    let median = kept.exits.get(workload).and_then(|modes| modes.get(mode));
    let median = median.unwrap_or_else(|| panic!("{workload} {mode}"));
    count(median.round()).replace(NARROW_SPACE, " ")
}

/// The README's table.  CPUs that poll are measured where they run in parallel.
fn quick() -> String {
    const WORKLOADS: [(&str, &str); 6] = [
        ("cpu", "cpu, 50 million loops"),
        ("pingpong", "pingpong, 1000 round trips"),
        ("barrier", "barrier, 1000 barriers"),
        ("sleep", "sleep, 1000 sleeps of 100 µs"),
        ("block", "block, 500 reads of 4 KiB"),
        ("idle", "idle, 2 s"),
    ];
    let (all, polling) = (kept("quick"), kept("quick-poll"));
    assert_eq!((all.clock.as_str(), polling.clock.as_str()), ("serial", "parallel"));
    let row = |(workload, title): (&str, &str)| {
        let cell = |mode| number(&all, workload, mode);
        let polls = |mode| number(&polling, workload, mode);
        format!(
            "| {title} | {} | {} | {} | **{}** | {} | **{}** |",
            cell("tickless-stop"),
            cell("tickless"),
            cell("paratick-ticks"),
            cell("paratick"),
            polls("tickless+poll"),
            polls("paratick+poll")
        )
    };
    let head = "| workload | tickless-stop | tickless | paratick-ticks | **paratick** | \
                tickless+poll | **…+poll** |\n|---|---|---|---|---|---|---|";
    let day = |kept: &Kept| kept.started[..10].to_string();
    let of = wrapped(&format!(
        "Medians of {} boots with {} runs each; commit {} and series {} on {}. `+poll`, on the \
         parallel clock: {} boots, on {}.",
        all.boots,
        all.runs,
        all.commit,
        all.patches,
        day(&all),
        polling.boots,
        day(&polling)
    ));
    let rows: Vec<String> = WORKLOADS.map(row).to_vec();
    format!("{head}\n{}\n\n{}", rows.join("\n"), of.replace("\n  ", "\n"))
}

pub fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    [head.to_string()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// An item of a list, its further lines indented.
fn wrapped(item: &str) -> String {
    let mut lines = vec![String::new()];
    for word in item.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("  {word}"));
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines.join("\n")
}
