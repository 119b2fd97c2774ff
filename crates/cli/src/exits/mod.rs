// SPDX-License-Identifier: GPL-2.0-only
//! `paratick exits`.

mod pages;

use crate::{
    errors::usage,
    input,
    options::{duration, refuse, Save, Vms},
    print::{errln, json, out},
    signals,
    top::{Ended, Screen, EVERY},
};
use anyhow::{bail, Result};
use clap::{Args as Arguments, ValueEnum};
use pages::Counts;
use paratick_core::observed::{Change, Observed, Vm, Would, SCHEMA};
use paratick_observe::{check, recorded, running, say_untimed, Identity, Wanted, Watch, STEP};
use paratick_view::tables::observed as tables;
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

/// Count the exits of the VMs that run on this machine, by cause, and where their time goes
///
/// Looks at running VMs of any VMM on any kernel with KVM, and restarts nothing: per VM and cause,
/// exits a second, their mean and 99th percentile, and the time in KVM, in the VMM, asleep and
/// stolen.  VMs may come and go meanwhile; one that ends keeps its rows.  Memory does not grow.
/// Needs root, or CAP_BPF, CAP_PERFMON, CAP_SYSLOG and CAP_DAC_READ_SEARCH, and CAP_SYS_ADMIN where
/// kernel.perf_event_paranoid is above 2.  docs/measuring.md has the causes, docs/exits.md more.
/// Exit codes: 0 done, 2 wrong usage, 69 could not look, 130 interrupted (what was counted until
/// then is printed and saved).
#[derive(Arguments)]
#[command(mut_arg("save", |save| save.help("Keep what was counted, for --compare")))]
pub struct Args {
    #[command(flatten)]
    vms: Vms,
    /// For how long to look [default: 10s; with --top, until q]
    #[arg(long = "for", id = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// What to print: text for people; or for programs one document, or a line of each VM, vCPU and
    /// kind of exit
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "top")]
    format: Format,
    #[command(flatten)]
    save: Save,
    /// Show it on the whole terminal while it is counted; q ends
    #[arg(long, conflicts_with = "compare")]
    top: bool,
    /// Show what is in a perf.data instead, of this machine or another one: a VM is named by its
    /// process there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["for", "save", "top", "compare"])]
    recording: Option<PathBuf>,
    /// Show what is different from a file of --save; or, of two files, in the second one
    #[arg(long, value_name = "FILE", num_args = 1..=2)]
    compare: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Jsonl,
    Csv,
}

const TIME: Duration = Duration::from_secs(10);

/// The document for programs.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    seen: &'a Observed,
    would: Vec<Would<'a>>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if !args.compare.is_empty() && matches!(args.format, Format::Jsonl | Format::Csv) {
        return Err(usage(
            "what is different has no lines for programs\nhint: give --format json, or text",
        ));
    }
    if args.compare.len() == 2 {
        refuse(&["vm", "vcpu", "for", "save"], "where two files are compared")?;
    }
    if let Some(file) = &args.recording {
        args.show(&args.of_recording(file)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let before = args.compare.first().map(|file| read(file)).transpose()?;
    if let Some((before, after)) = before.as_ref().zip(args.compare.get(1)) {
        args.show_change(before, &read(after)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.top {
        Screen::<Counts>::check()?;
    }
    args.save.check()?;
    let leaving = match args.top {
        true => signals::watch().map(|()| None)?,
        false => Some(signals::watch_for_end()?),
    };
    check()?;
    let running = if args.vms.vm.is_empty() { Vec::new() } else { running() };
    let wanted = Wanted::of(&args.vms.vm, &running).map_err(|error| usage(error.to_string()))?;
    let mut watch = Watch::start(wanted, args.vms.vcpu.clone(), &running)?;
    let (seen, ended) = match leaving {
        None => live(&mut watch, args.time)?,
        Some(leaving) => {
            let time = args.time.unwrap_or(TIME);
            errln!("counting for {} s; Ctrl-C ends it", time.as_secs_f64());
            look(&mut watch, time, &leaving)?
        }
    };
    let is_interrupted = matches!(ended, Ended::Interrupted(_));
    // An older file has more in it than this.
    if seen.vms.is_empty() && !args.top {
        match is_interrupted {
            true => return Ok(ended.code()),
            false => check_told(&watch, &seen)?,
        }
    }
    // A disk that is full does not take away what was counted.
    let kept = args.save.keep(&seen);
    if args.top {
        return kept.map(|()| ended.code());
    }
    if !is_interrupted {
        check_told(&watch, &seen)?;
    }
    match before {
        Some(before) => args.show_change(&before, &seen)?,
        None => args.show(&seen)?,
    }
    kept.map(|()| ended.code())
}

fn read(file: &Path) -> Result<Observed> {
    let what = "a file that `paratick exits --save FILE` wrote";
    let text = input::text("compare", file, what)?;
    let wrong = |why: &dyn std::fmt::Display| {
        let why = format!("it has no counts of exits: {why}\nhint: give {what}");
        input::wrong("compare", file, why)
    };
    let seen: Observed = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if seen.schema != SCHEMA {
        return Err(wrong(&format_args!("its schema is {}", seen.schema)));
    }
    if !seen.is_sound() {
        return Err(input::wrong("compare", file, input::DAMAGED));
    }
    Ok(seen)
}

/// Until the time is over, all that was chosen has ended, or somebody interrupts it.
fn look(watch: &mut Watch, time: Duration, leaving: &AtomicUsize) -> Result<(Observed, Ended)> {
    let end = Instant::now() + time;
    while Instant::now() < end && !watch.is_over() {
        if let code @ 1.. = leaving.load(Ordering::SeqCst) {
            return Ok((watch.read()?, Ended::Interrupted(code as u8)));
        }
        sleep(end.saturating_duration_since(Instant::now()).min(STEP));
        watch.look()?;
    }
    Ok((watch.read()?, Ended::Done))
}

/// On the whole terminal, until somebody ends it or the time is over: all since the start.
fn live(watch: &mut Watch, time: Option<Duration>) -> Result<(Observed, Ended)> {
    let mut screen = Screen::take()?;
    let mut before = watch.read()?;
    screen.show(Counts::of(before.clone()))?;
    let end = time.map(|time| Instant::now() + time);
    let mut next = Instant::now() + EVERY;
    loop {
        let until = end.map_or(next, |end| end.min(next));
        screen.attend(until.saturating_duration_since(Instant::now()).min(STEP))?;
        if let Some(ended) = screen.ended() {
            return Ok((watch.read()?, ended));
        }
        watch.look()?;
        if Instant::now() >= until {
            let seen = watch.read()?;
            if end.is_some_and(|end| until >= end) {
                return Ok((seen, Ended::Done));
            }
            screen.show(Counts { lately: seen.since(&before), seen: seen.clone() })?;
            before = seen;
            next = Instant::now() + EVERY;
        }
    }
}

/// Nobody ran, or nobody told.
fn check_told(watch: &Watch, seen: &Observed) -> Result<()> {
    watch.check_told(seen)?;
    if watch.was_told() {
        return Ok(());
    }
    // Some KVMs tell of none, such as one that needs no extension of the processor (kvm_pvm).
    match running().as_slice() {
        [] => bail!(
            "no vCPU made an exit on this machine while it was looked at\n\
             hint: start a VM, or look longer with --for"
        ),
        [first, ..] => bail!(
            "KVM told of no exit, though VMs run here, such as process {}: their vCPUs slept, or \
             this KVM does not tell (kvm_pvm, or one that was changed)\n\
             hint: look longer with --for; where that is of no use, its exits cannot be seen",
            first.process
        ),
    }
}

impl Args {
    fn of_recording(&self, file: &Path) -> Result<Observed> {
        let wrong = |error| input::wrong("read", file, format_args!("{error:#}"));
        let mut seen = recorded(file).map_err(wrong)?;
        let of = |vm: &Vm| vm.exits.iter().map(|one| (vm.process, one.vcpu)).collect::<Vec<_>>();
        let there = seen.vms.iter().flat_map(of).collect();
        let known = seen.vms.iter().map(|vm| Identity {
            process: vm.process,
            name: Some(vm.name.clone()),
            others: vm.others.clone(),
        });
        let chosen = self.vms.among(&there, known.collect())?;
        seen.vms.retain(|vm| chosen.has_vm(vm.process));
        for vm in &mut seen.vms {
            vm.exits.retain(|one| chosen.has(vm.process, one.vcpu));
        }
        say_untimed(&mut seen);
        Ok(seen)
    }

    fn show(&self, seen: &Observed) -> Result<()> {
        match self.format {
            Format::Text => {
                out!("{}", tables::observed(seen).text())?;
                if let Some(would) = tables::would(&seen.would()) {
                    out!("\n{}", would.text())?;
                }
            }
            Format::Json => json(&Told { seen, would: seen.would() })?,
            Format::Jsonl => out!("{}", seen.jsonl()?)?,
            Format::Csv => out!("{}", seen.csv()?)?,
        }
        // Their lines have no place for it.
        if matches!(self.format, Format::Jsonl | Format::Csv) {
            tables::notes(&seen.missing()).iter().for_each(|note| errln!("{note}"));
        }
        Ok(())
    }

    fn show_change(&self, before: &Observed, after: &Observed) -> Result<()> {
        let change = Change::of(before, after);
        match self.format {
            Format::Json => json(&change)?,
            _ => out!("{}", tables::change(&change).text())?,
        }
        Ok(())
    }
}
