// SPDX-License-Identifier: GPL-2.0-only
//! The parts of documents that the code states.  `PARATICK_BLESS=1` writes them again.

use crate::{
    evaluated,
    files::{self, File},
    idle, ipis, kept, noise, papers, polls, schema, swept, tested, would, COLUMNS,
};
use paratick_core::subject::HOST_SETTINGS;
use paratick_core::{
    catalogue::programs,
    mode::{Polling, TickMode, POLLINGS},
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

const BLOCKS: [Block; 71] = [
    ("modes", modes),
    ("host-settings", host_settings),
    ("workloads", workloads),
    ("figures", figures),
    ("programs", programs_and_kernels),
    ("quick", quick),
    ("default-papers", || never_loses("default-papers")),
    ("default-medium", || never_loses("multithreaded-medium")),
    ("default-large", || never_loses("multithreaded-large")),
    ("default-others", || never_loses("default-others")),
    ("default-waits", || never_loses("default-waits")),
    ("stock", stock),
    ("paper", paper),
    ("paper-starves", paper_starves),
    ("tables-2-to-4", evaluated::averages),
    ("most", evaluated::most),
    ("figure-4", || evaluated::programs_of("sequential")),
    ("figure-5", || evaluated::programs_of("multithreaded-small")),
    ("figure-5-medium", || evaluated::programs_of("multithreaded-medium")),
    ("figure-5-large", || evaluated::programs_of("multithreaded-large")),
    ("table1", evaluated::table1),
    ("figure-6", || evaluated::programs_of("io")),
    ("figure-6-kinds", evaluated::kinds),
    ("own", || evaluated::exits_of("own", &["tickless-stop", "paratick"])),
    ("origins", evaluated::origins),
    ("cross-over-computed", swept::computed_crossover),
    ("cross-over-measured", swept::measured_crossover),
    ("events", swept::events),
    ("model-errors", swept::model_errors),
    ("matrix", swept::matrix),
    ("idle", idle::idle),
    ("idle-1000", idle::idle_1000),
    ("idle-50", idle::idle_50),
    ("idle-50-1000", idle::idle_50_1000),
    ("idle-modes", idle::idle_modes),
    ("idle-modes-1000", idle::idle_modes_1000),
    ("clocks", idle::clocks),
    ("clocks-1000", idle::clocks_1000),
    ("idle-together", idle::together),
    ("coalesce", idle::coalesced),
    ("balance", idle::balance),
    ("balance-sockets", idle::balance_sockets),
    ("balance-jvm", idle::balance_jvm),
    ("balance-jvm-sockets", idle::balance_jvm_sockets),
    ("noise-times", noise::times),
    ("noise-claims", noise::claims),
    ("disk-polls", evaluated::devices::disk_polls),
    ("latencies", evaluated::devices::latencies),
    ("disk-devices", evaluated::devices::disk_devices),
    ("networks", evaluated::devices::networks),
    ("network-polls", evaluated::devices::network_polls),
    ("ipis", ipis::ipis),
    ("would", would::would),
    ("would-ticks", would::ticks),
    ("would-polls", would::polls),
    ("mix-of-exits", mix_of_exits),
    ("polling-exits", polls::polling_exits),
    ("polling-halts", polls::polling_halts),
    ("polling-cpu", polls::polling_cpu),
    ("polling-native", polls::native),
    ("polling-two", polls::polling_two),
    ("overcommit", polls::overcommit),
    ("polling-rules", polls::rules),
    ("polling-limits", polls::limits),
    ("polls", polls::polls),
    ("polls-others", polls::others),
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
    let names = names.chain(tested::TABLES.map(|(name, _)| name));
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
    let plain = plain.or_else(|| tested::table(name));
    let topic = || schema::TOPICS.iter().find(|(known, _)| *known == name);
    plain.or_else(|| topic().map(|(name, types)| (*name, schema::lists(types))))
}

fn modes() -> String {
    let parameters = |tick: TickMode| tick.plain().kernel_parameters();
    let tick = TickMode::ALL.map(|tick| item(tick.name(), tick.row().about, &parameters(tick)));
    let polls = POLLINGS.iter().map(|row| {
        // The mode that it says something of, and that has virtual ticks or has none.
        let ticks = row.polling == Polling::Off;
        let with = if ticks { "paratick" } else { "tickless" };
        let about = format!("with any of these, as in `{with}{}`: {}", row.suffix, row.about);
        item(row.suffix, &about, &row.polling.parameters(ticks))
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
pub type Kept = kept::Kept<OfBench>;

#[derive(serde::Deserialize)]
pub struct OfBench {
    /// Medians, by workload and mode.
    pub exits: Medians,
    /// Older files have none of the following.
    #[serde(default)]
    pub duration_ns: Medians,
    /// CPU time of the host.
    #[serde(default)]
    pub cpu_ns: Medians,
    /// Of several guests; `duration_ns` is that of the slowest.
    #[serde(default)]
    pub fastest_guest_ns: Medians,
    #[serde(default)]
    pub causes: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
    #[serde(default)]
    ticks_delivered: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

pub type Medians = BTreeMap<String, BTreeMap<String, f64>>;

pub fn kept(name: &str) -> Kept {
    let kept: Kept = kept::read(name);
    assert!(kept.command.starts_with("paratick bench "), "{name}: {}", kept.command);
    kept
}

/// What was kept of a bench on and in kernels of Debian's.
#[derive(serde::Deserialize)]
struct StockCell {
    host: String,
    guest: String,
    /// By workload; and of those by cause.
    exits: BTreeMap<String, u64>,
    by_cause: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Exits of each guest on each host.
fn stock() -> String {
    let kept = swept::kept::<StockCell>("stock");
    let row = |cell: &StockCell| {
        let number = |n: u64| count(n as f64).replace(NARROW_SPACE, " ");
        let [idle, cpu, sleep] = ["idle", "cpu", "sleep"].map(|name| number(cell.exits[name]));
        let causes = &cell.by_cause["cpu"];
        assert_eq!(causes.values().sum::<u64>(), cell.exits["cpu"]);
        let causes = ["arm", "expiry", "host-tick", "host-timer", "other"]
            .map(|name| causes.get(name).map_or("–".into(), u64::to_string));
        let (host, guest) = (&cell.host, &cell.guest);
        format!("| {host} | {guest} | {idle} | {sleep} | {cpu} | {} |", causes.join(" | "))
    };
    let head =
        "| host | guest | idle | sleep | cpu | arm | expiry | host-tick | host-timer | other |\n\
                |---|---|---|---|---|---|---|---|---|---|";
    kept.below(table(head, kept.rest.rows.iter().map(row)))
}

/// Exits by cause with the paper's algorithm, beside others.
fn paper() -> String {
    const WORKLOADS: [&str; 6] = ["cpu", "pingpong", "barrier", "sleep", "block", "idle"];
    const MODES: [&str; 4] =
        ["tickless-stop", "paratick-paper", "paratick-ticks", "paratick+nopoll"];
    const CAUSES: [&str; 9] =
        ["arm", "expiry", "host_tick", "halt", "ipi", "eoi", "clock", "io", "other"];
    let all = kept("paper");
    let cells = WORKLOADS.iter().flat_map(|workload| MODES.map(|mode| (*workload, mode)));
    let rows = cells.map(|(workload, mode)| {
        let causes = &all.rest.causes[workload][mode];
        let unknown = causes.keys().find(|cause| !CAUSES.contains(&cause.as_str()));
        assert_eq!(unknown, None, "{workload} {mode}");
        let said = |n: f64| count(n.round()).replace(NARROW_SPACE, " ");
        let causes = CAUSES.map(|cause| causes.get(cause).map_or("–".into(), |n| said(*n)));
        let ticks = all.rest.ticks_delivered[workload][mode].map_or("–".into(), said);
        let exits = number(&all, workload, mode);
        format!("| {workload} | {mode} | {exits} | {} | {ticks} |", causes.join(" | "))
    });
    let names = CAUSES.map(|cause| cause.replace('_', "-")).join(" | ");
    let lines = "---|".repeat(CAUSES.len() + 4);
    table(&format!("| | mode | exits | {names} | *ticks* |\n|{lines}"), rows)
}

/// What `tests/boot/paper.rs` printed.
#[derive(serde::Deserialize)]
struct StarvesRow {
    guest: String,
    /// What of it, with its unit.
    what: String,
    #[serde(rename = "paratick-paper")]
    paper: f64,
    #[serde(rename = "paratick-ticks")]
    ticks: f64,
}

fn paper_starves() -> String {
    let kept = swept::kept::<StarvesRow>("paper-starves");
    let said = |n: f64| count(n).replace(NARROW_SPACE, " ");
    let mut last = "";
    let rows = kept.rest.rows.iter().map(|row| {
        let (paper, ticks) = (said(row.paper), said(row.ticks));
        let guest = if row.guest == last { "" } else { &row.guest };
        last = &row.guest;
        format!("| {guest} | {} | {paper} | {ticks} |", row.what)
    });
    let head = "| a guest of one vCPU | | `paratick-paper` | `paratick-ticks` |\n|---|---|---|---|";
    kept.below(table(head, rows))
}

/// A median of exits, as it is kept in `docs/evaluation/tables`.
pub fn median(table: &str, workload: &str, mode: &str) -> String {
    number(&kept(table), workload, mode)
}

pub fn number(kept: &Kept, workload: &str, mode: &str) -> String {
    let median = kept.rest.exits.get(workload).and_then(|modes| modes.get(mode));
    let median = median.unwrap_or_else(|| panic!("{workload} {mode}"));
    count(median.round()).replace(NARROW_SPACE, " ")
}

/// The README's table.
fn quick() -> String {
    const WORKLOADS: [(&str, &str); 6] = [
        ("cpu", "cpu, 50 million loops"),
        ("pingpong", "pingpong, 1000 round trips"),
        ("barrier", "barrier, 1000 barriers"),
        ("sleep", "sleep, 1000 sleeps of 100 µs"),
        ("block", "block, 500 reads of 4 KiB"),
        ("idle", "idle, 2 s"),
    ];
    let all = kept("quick");
    // For CPUs that poll.
    assert_eq!(all.clock, "parallel");
    let row = |(workload, title): (&str, &str)| {
        let cell = |mode| number(&all, workload, mode);
        format!(
            "| {title} | {} | {} | {} | {} | {} | **{}** |",
            cell("tickless-stop"),
            cell("tickless"),
            cell("tickless+poll"),
            cell("paratick-ticks"),
            cell("paratick+nopoll"),
            cell("paratick")
        )
    };
    let head = "| workload | tickless-stop | tickless | …+poll | paratick-ticks | \
                paratick+nopoll | **paratick** |\n|---|---|---|---|---|---|---|";
    all.below(table(head, WORKLOADS.map(row).into_iter()))
}

/// What the exits of README's table are about, in per cent.
fn mix_of_exits() -> String {
    const CAUSES: [&str; 7] = ["halt", "arm", "expiry", "ipi", "eoi", "host_tick", "io"];
    let all = kept("quick");
    let cells = ["idle", "cpu", "pingpong", "barrier", "sleep", "block"]
        .into_iter()
        .flat_map(|workload| ["tickless", "tickless+poll"].map(|mode| (workload, mode)));
    let rows = cells.map(|(workload, mode)| {
        let causes = &all.rest.causes[workload][mode];
        let sum: f64 = causes.values().sum();
        let share = |n: f64| format!("{:.0}", n / sum * 100.0);
        let named = CAUSES.map(|cause| causes.get(cause).copied().unwrap_or_default());
        let rest = share(sum - named.iter().sum::<f64>());
        let exits = number(&all, workload, mode);
        format!("| {workload} | {mode} | {exits} | {} | {rest} |", named.map(share).join(" | "))
    });
    let names = CAUSES.map(|cause| cause.replace('_', "-")).join(" | ");
    let lines = "---|".repeat(CAUSES.len() + 4);
    table(&format!("| | mode | exits | {names} | others |\n|{lines}"), rows)
}

/// Programs of one file: exits by mode, and `paratick` against the better of the modes without.
fn never_loses(name: &str) -> String {
    const STOCK: [&str; 2] = ["tickless-stop", "tickless"];
    let all = kept(name);
    let measured = |mode: &&str| all.rest.exits.values().all(|modes| modes.contains_key(*mode));
    let modes = ["tickless-stop", "tickless", "paratick+nopoll", "paratick"];
    let modes: Vec<_> = modes.into_iter().filter(measured).collect();
    assert_eq!(all.clock, "parallel");
    let rows = all.rest.exits.keys().map(|workload| {
        let against = |figure: &Medians| {
            let of = |mode: &str| figure[workload][mode];
            let change = (of("paratick") / STOCK.map(of).into_iter().reduce(f64::min).unwrap()
                - 1.0)
                * 100.0;
            format!("{change:+.1} %").replace('-', "−")
        };
        let exits: Vec<_> = modes.iter().map(|mode| number(&all, workload, mode)).collect();
        format!(
            "| {workload} | {} | {} | {} | {} |",
            exits.join(" | "),
            against(&all.rest.exits),
            against(&all.rest.duration_ns),
            against(&all.rest.cpu_ns)
        )
    });
    let head = format!("| program | {} | exits | time | CPU time |", modes.join(" | "));
    let head = format!("{head}\n|{}", "---|".repeat(modes.len() + 4));
    all.below(table(&head, rows))
}

pub fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    [head.to_string()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// An item of a list, its further lines indented.
pub fn wrapped(item: &str) -> String {
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
