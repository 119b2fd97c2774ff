// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor`: what is missing on this machine, and how to get it.

use crate::{errors::COULD_NOT_RUN, options::Format};
use anyhow::Result;
use paratick_build::{cache, requirements};
use paratick_core::size::Size;
use paratick_machine::accel::{self, Accel};
use paratick_view::table::Table;
use serde::Serialize;
use std::{path::Path, process::ExitCode};

/// What the kernels, the emulator and their sources take up (measured: 4.1 GB), and some air.
const DISK: Size = Size::mib(6 * 1024);
/// The host's 2 GB, the emulator's own, and a compiler or two.
const MEMORY: Size = Size::mib(3 * 1024);

/// Show what is missing on this machine and how to get it
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// The lab cannot run without it.
    Missing,
    /// Something works only with it, or works better.
    Absent,
}

#[derive(Serialize)]
struct Item {
    group: String,
    name: String,
    state: State,
    detail: String,
    /// How to get it; empty where nothing is to be done.
    get: String,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    items: Vec<Item>,
    /// One command for all missing packages.
    install: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let report = examine()?;
    args.format.print(&report, || text(&report))?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT_RUN) })
}

fn examine() -> Result<Report> {
    let packages = requirements::packages()?;
    let mut wanted = vec![];
    let mut items = vec![];
    for package in packages {
        let found = package.look();
        let otherwise = if package.optional { State::Absent } else { State::Missing };
        if found.is_err() && !package.optional {
            wanted.push(package.name.clone());
        }
        let get = format!("apt-get install {}", package.name);
        items.push(item(&package.group, &package.name, otherwise, found, &get));
    }
    let machine = [
        ("disk", State::Missing, disk(), "free some, or set PARATICK_CACHE to a folder elsewhere"),
        ("memory", State::Missing, memory(), "end other programs, or use a larger machine"),
        ("nested KVM", State::Absent, nested_kvm(), "nothing: the lab emulates, which is slower"),
        ("root", State::Absent, root(), "sudo; only --host here needs it"),
    ];
    for (name, otherwise, found, get) in machine {
        items.push(item("machine", name, otherwise, found, get));
    }
    Ok(Report {
        ok: items.iter().all(|item| item.state != State::Missing),
        items,
        install: (!wanted.is_empty())
            .then(|| format!("apt-get install --no-install-recommends {}", wanted.join(" "))),
    })
}

fn item(
    group: &str,
    name: &str,
    otherwise: State,
    found: Result<String, String>,
    get: &str,
) -> Item {
    let (state, detail, get) = match found {
        Ok(detail) => (State::Ok, detail, ""),
        Err(detail) => (otherwise, detail, get),
    };
    Item { group: group.into(), name: name.into(), state, detail, get: get.into() }
}

fn disk() -> Result<String, String> {
    let free = || -> Result<(String, u64)> {
        let dir = cache::dir()?;
        let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
        let stat = rustix::fs::statvfs(there)?;
        Ok((dir.display().to_string(), stat.f_bavail * stat.f_frsize))
    };
    match free() {
        Ok((dir, free)) => enough(free, DISK, &format!("free for {dir}")),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn memory() -> Result<String, String> {
    let free = paratick_bench::available_memory();
    enough(free.ok_or("/proc/meminfo has no MemAvailable")?, MEMORY, "available")
}

fn enough(have: u64, need: Size, what: &str) -> Result<String, String> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let have_text = format!("{:.1} GiB {what}", gib(have));
    match have >= need.bytes() {
        true => Ok(have_text),
        false => Err(format!("{have_text}, {:.1} needed", gib(need.bytes()))),
    }
}

fn nested_kvm() -> Result<String, String> {
    accel::kvm_works()?;
    match Accel::Auto.resolve() {
        Accel::Kvm => Ok("the processor can run KVM in a guest".into()),
        _ => Err("KVM works, but not inside a guest of it".into()),
    }
}

fn root() -> Result<String, String> {
    match rustix::process::geteuid().is_root() {
        true => Ok("yes".into()),
        false => Err("no".into()),
    }
}

fn text(report: &Report) -> String {
    let head = ["For", "What", "", "Found", "How to get it"];
    let mut table = Table::new("", head).words(..);
    for item in &report.items {
        let state = match item.state {
            State::Ok => "ok",
            State::Missing => "MISSING",
            State::Absent => "no",
        };
        let cells = [&item.name, state, &item.detail, &item.get];
        table.row(&item.group, cells.map(String::from));
    }
    let end = match (&report.install, report.ok) {
        (Some(install), _) => {
            format!("To install everything: {install}\n(or `make deps`)")
        }
        (None, true) => "The lab can run here.".into(),
        (None, false) => "The lab cannot run here: see MISSING.".into(),
    };
    format!("{}\n{end}\n", table.text())
}
