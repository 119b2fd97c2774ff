// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor`: what can be observed on this machine, what is missing for the lab, and how to
//! get it.

mod vm;

use crate::{
    errors::COULD_NOT_RUN,
    options::{duration, Format},
};
use anyhow::Result;
use paratick_build::{cache, project, qemu::system_qemu, requirements, tools::find_agent};
use paratick_core::size::Size;
use paratick_machine::{
    accel::{self, Accel},
    micro,
};
use paratick_observe::{as_guest, as_host, has_tracer, of_qemu, trial, Link};
use paratick_view::table::Table;
use serde::Serialize;
use std::{
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

/// What the kernels, the emulator and their sources take up (measured: 4.1 GB), and some air.
const DISK: Size = Size::mib(6 * 1024);
/// The host's 2 GB, the emulator's own, and a compiler or two.
const MEMORY: Size = Size::mib(3 * 1024);

/// Groups of packages for work on the project itself.
const OF_A_CHECKOUT: [&str; 8] =
    ["rust", "bpf", "checks", "browser", "intel", "packages", "matrix", "operators"];

/// Show what is missing on this machine and how to get it
///
/// First, what can be observed here: it loads the sensor of `paratick exits`, lets a micro VM exit
/// where /dev/kvm makes one, and takes both away.
/// Then the link that mode `paratick` lacks, as a guest of KVM and as a host, and, where the lab is
/// installed, what that lacks.
/// With --vm it looks at one VM instead, and lists what costs it time: each with its number, and
/// the line that mends it.  Needs what `paratick exits` does.
/// Exit codes: 0 done: the lab can run, or without a lab, VMs can be observed; 2 wrong usage; 69
/// they cannot.
#[derive(clap::Args)]
pub struct Args {
    /// Say what costs this VM, by its name, UUID or process
    #[arg(long, value_name = "VM")]
    vm: Option<String>,
    /// For how long to look at it
    #[arg(long = "for", id = "for", value_name = "TIME", value_parser = duration)]
    #[arg(default_value = "5s", requires = "vm")]
    time: Duration,
    #[command(flatten)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// The lab cannot run without it; or VMs cannot be observed, where there is no lab.
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
    /// Whether it is installed.
    lab: bool,
    items: Vec<Item>,
    /// One command for all missing packages.
    install: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(vm) = &args.vm {
        return vm::run(vm, args.time, &args.format);
    }
    let report = examine()?;
    args.format.print(&report, || text(&report))?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT_RUN) })
}

fn examine() -> Result<Report> {
    let lab = find_agent();
    let mut items = observable(if lab.is_ok() { State::Absent } else { State::Missing });
    items.extend(links());
    let mut wanted = vec![];
    match &lab {
        Ok(_) => wanted = examine_lab(&mut items)?,
        Err(error) => {
            let (why, get) = with_hint(error);
            items.push(item("lab", "paratick-agent", State::Absent, Err(why), &get));
        }
    }
    Ok(Report {
        ok: items.iter().all(|item| item.state != State::Missing),
        lab: lab.is_ok(),
        items,
        install: (!wanted.is_empty())
            .then(|| format!("apt-get install --no-install-recommends {}", wanted.join(" "))),
    })
}

const SILENT: &str = "the sensor works, but KVM told of no exit of a VM made to try (kvm_pvm?)";

/// What the observing verbs can see: of VMs here, and of this machine if it is one.
fn observable(otherwise: State) -> Vec<Item> {
    let vms = trial(micro::exits);
    let works = vms.is_ok();
    let (vms, get) = match vms {
        Ok(true) => (Ok("the sensor works".into()), String::new()),
        Ok(false) => (Err(SILENT.into()), "a KVM with the tracepoint kvm_exit".into()),
        Err(error) => {
            let (why, get) = with_hint(&error);
            (Err(why), get)
        }
    };
    let mut items = vec![item("observe", "VMs (exits)", otherwise, vms, &get)];
    for tracer in ["osnoise", "timerlat"] {
        let verb = if tracer == "osnoise" { "noise" } else { tracer };
        let get = format!("a kernel with CONFIG_{}_TRACER", tracer.to_uppercase());
        let found = match has_tracer(tracer) {
            Err(why) if works => Ok(format!("a program samples: {why}")),
            found => found,
        };
        let name = format!("itself ({verb} --side guest)");
        items.push(item("observe", &name, State::Absent, found, &get));
    }
    items
}

/// What mode `paratick` needs, of this machine as a guest and as a host.
fn links() -> Vec<Item> {
    let host = as_host();
    let qemu = host.as_ref().and_then(|_| system_qemu().ok());
    let help = |qemu: &Path| {
        let said = Command::new(qemu).args(["-cpu", "help"]).output().ok()?;
        Some(of_qemu(qemu, &String::from_utf8_lossy(&said.stdout)))
    };
    let links = [("as a guest", as_guest()), ("as a host", host)];
    let qemu = ("in QEMU's guests", qemu.and_then(|qemu| help(&qemu)));
    let shown = links.into_iter().chain([qemu]).filter_map(|(name, link)| Some((name, link?)));
    shown.map(|(name, link)| of_link(name, link)).collect()
}

fn of_link(name: &str, link: Link) -> Item {
    let get = link.as_ref().err().map_or(String::new(), |(_, get)| get.clone());
    item("paratick", name, State::Absent, link.map_err(|(why, _)| why), &get)
}

/// Adds what the lab needs; returns the packages that are missing.
fn examine_lab(items: &mut Vec<Item>) -> Result<Vec<String>> {
    let mut wanted = vec![];
    let in_checkout = project::checkout().is_ok();
    for package in requirements::packages()? {
        if !in_checkout && OF_A_CHECKOUT.contains(&&*package.group) {
            continue;
        }
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
    Ok(wanted)
}

/// What an error says, and how to mend it.
fn with_hint(error: &anyhow::Error) -> (String, String) {
    let text = format!("{error:#}");
    let (why, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    (why.replace('\n', " "), hint.replace('\n', " "))
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
            let or = if project::checkout().is_ok() { "\n(or `make deps`)" } else { "" };
            format!("To install everything: {install}{or}")
        }
        (None, true) if report.lab => "The lab can run here.".into(),
        (None, false) if report.lab => "The lab cannot run here: see MISSING.".into(),
        (None, true) => "VMs of this machine can be observed. The lab is not installed.".into(),
        (None, false) => "VMs of this machine cannot be observed: see MISSING.".into(),
    };
    format!("{}\n{end}\n", table.text())
}
