// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench timeline`.

use super::{
    common::{once, Format},
    kernel::Choice,
};
use crate::stdout::{out, outln};
use crate::{progress::Progress, signals, usage::usage};
use anyhow::Result;
use clap::Args;
use paratick_bench::{self, timeline, Settings};
use paratick_build::{
    kernel::DEFAULT_BASE,
    progress::{Event, Events},
    tools::{self, Tools},
};
use paratick_core::{
    cause::Cause,
    mode::{Mode, TickMode},
    results::{Plan, PlannedWorkload},
    size::Size,
    timeline::{Event as Happening, Line, Timeline, What},
    units::Nanos,
};
use paratick_machine::{accel::Accel, backend::EMULATED};
use std::{fmt::Write, path::PathBuf, process::ExitCode};

const MODES: &str = "tickless-stop,tickless,paratick";
/// Of each guest.
const MEMORY: Size = Size::mib(512);
/// In the host's memory, for the workload that reads one.
const DISK: Size = Size::mib(64);

#[derive(Args)]
pub struct Options {
    /// Tick modes to trace, with +poll for guest halt polling
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = MODES)]
    modes: Vec<Mode>,
    /// CPUs of each guest; the host has one more
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=127))]
    vcpus: u32,
    /// What runs while the host traces: pingpong, barrier, sleep or block
    #[arg(long, value_name = "NAME", default_value = "pingpong", value_parser = timeline::workload)]
    workload: PlannedWorkload,
    /// What the emulator adds to virtual time for each world switch, in ns
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    exit_cost: u32,
    /// Where the time line goes [default: results/timeline-TIME.json in the cache]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to print: the events of each mode in order, or the whole file as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The guests' kernel: a bzImage, `6.12` (with the series) or `6.12-base` (without)
    #[arg(long, value_name = "KERNEL", default_value = DEFAULT_BASE)]
    kernel: String,
    /// The host's kernel [default: the guests']
    #[arg(long, value_name = "KERNEL")]
    host_kernel: Option<String>,
    /// How the lab's host runs: by hardware virtualization, by emulation, or whichever works
    #[arg(long, value_name = "auto|kvm|tcg", default_value = "auto")]
    accel: Accel,
}

/// The kernels as they were named: the guests' and the host's.
type Kernels = (Choice, Choice);

pub fn run(options: Options) -> Result<ExitCode> {
    let started = paratick_bench::now();
    let kernels = options.check()?;
    let output = match &options.output {
        Some(path) => std::path::absolute(path)?,
        None => paratick_bench::default_path("timeline", false, &started)?,
    };
    timeline::check_output(&output).map_err(|error| usage(error.to_string()))?;
    tools::find_agent()?;
    signals::watch()?;
    let mut progress = Progress::new();
    let mut events = |event| progress.show(event);
    let settings = options.settings(&kernels, output, started, &mut events)?;
    let traced = timeline::run(&settings, &mut events);
    drop(progress);
    let traced = traced?;
    timeline::write(&settings.output, &traced)?;
    match options.format {
        Format::Text => out!("{}", text(&traced))?,
        Format::Json => outln!("{}", serde_json::to_string_pretty(&traced)?)?,
    }
    for problem in &traced.problems {
        eprintln!("failed: {problem}");
    }
    eprintln!("time line: {}", settings.output.display());
    Ok(match traced.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Options {
    fn check(&self) -> Result<Kernels> {
        once(&self.modes, "mode", "--modes")?;
        let guest = Choice::parse(&self.kernel)?;
        let patched =
            |mode: &&Mode| matches!(mode.tick, TickMode::Paratick | TickMode::TicklessStop);
        if let Some(mode) = self
            .modes
            .iter()
            .find(patched)
            .filter(|_| guest.is_unpatched())
        {
            return Err(usage(format!(
                "kernel {} has no mode {mode}\nhint: trace it with --modes periodic,tickless, or name a kernel with the series, such as --kernel {DEFAULT_BASE}",
                self.kernel
            )));
        }
        if self.vcpus == 1 && self.workload.workload == "pingpong" {
            return Err(usage(
                "pingpong on one vCPU has no idle cycles: its two threads share the vCPU\nhint: give it --vcpus 2, or choose --workload sleep",
            ));
        }
        let host = match &self.host_kernel {
            Some(name) => Choice::parse(name)?,
            None => guest.clone(),
        };
        Ok((guest, host))
    }

    fn settings(
        &self,
        (guest, host): &Kernels,
        output: PathBuf,
        started: String,
        events: Events,
    ) -> Result<Settings> {
        let tools = Tools::find(events)?;
        let kernel = guest.ensure(events)?;
        let host_kernel = match host == guest {
            true => kernel.clone(),
            false => host.ensure(events)?,
        };
        events(Event::Step(format!(
            "the time line goes to {}",
            output.display()
        )));
        Ok(Settings {
            bench: "timeline",
            plan: Plan::new(
                self.vcpus,
                self.modes.clone(),
                [self.workload.clone()],
                1,
                1,
            ),
            kernel,
            host_kernel: Some(host_kernel),
            tools,
            backend: EMULATED,
            accel: self.accel,
            memory: MEMORY,
            disk: (self.workload.workload == "block").then_some(DISK),
            exit_cost_ns: self.exit_cost,
            parallel_clock: false,
            jobs: None,
            output,
            resume: false,
            started,
        })
    }
}

/// The chosen cycles, one event a line.
fn text(timeline: &Timeline) -> String {
    let mut text = format!(
        "One idle cycle of {} ({} {} in each mode, guests of {} vCPUs)\n",
        timeline.workload, timeline.work, timeline.unit, timeline.vcpus
    );
    for line in &timeline.lines {
        text += "\n";
        text += &heading(line);
        for (event, next) in line
            .chosen
            .events
            .iter()
            .zip(line.chosen.events.iter().skip(1))
        {
            text += &row(event, next.t_ns - event.t_ns);
        }
        let _ = writeln!(
            text,
            "  {:>9}  the next cycle begins",
            micros(line.chosen.length_ns())
        );
    }
    text
}

fn heading(line: &Line) -> String {
    let chosen = &line.chosen;
    let mut text = format!(
        "{}, vCPU {}: {} exits in {} µs ({} of {} cycles are like this one; median {} exits)\n",
        line.mode,
        line.vcpu,
        chosen.exits(),
        micros(chosen.length_ns()),
        chosen.alike,
        chosen.cycles,
        chosen.exits_per_cycle.median
    );
    let causes = Cause::ALL.into_iter().filter_map(|cause| {
        let mean = chosen.exits_by_cause.get(&cause)?;
        Some(format!("{cause} {mean:.2}"))
    });
    let causes: Vec<_> = causes.collect();
    let _ = writeln!(text, "  mean exits of a cycle: {}", causes.join(", "));
    let _ = writeln!(
        text,
        "  the run took {} with tracing, {} without",
        Nanos(line.traced_ns),
        Nanos(line.untraced_ns)
    );
    let _ = writeln!(text, "  {:>9}  {:>9}", "at µs", "for µs");
    text
}

fn row(event: &Happening, lasts: u64) -> String {
    let (what, more) = match &event.what {
        What::Exit {
            reason,
            cause,
            msr,
            moved_ns,
        } => (
            format!("exit   {cause:9}"),
            exit(reason, msr.as_deref(), *moved_ns),
        ),
        What::Entry => ("entry".into(), "the guest runs".into()),
        What::Sleep => ("sleep".into(), "the vCPU waits, its pCPU is free".into()),
        What::Wake { by } => (format!("wake   {by}"), String::new()),
        What::Tick { what } => (format!("tick   {what}"), "a virtual tick is raised".into()),
        What::NoTick { what } => (format!("no tick {what}"), String::new()),
        What::End => ("end".into(), String::new()),
    };
    let row = format!(
        "  {:>9}  {:>9}  {what:18} {more}",
        micros(event.t_ns),
        micros(lasts)
    );
    row.trim_end().to_string() + "\n"
}

fn exit(reason: &str, msr: Option<&str>, moved_ns: Option<i64>) -> String {
    let mut text = reason.to_string();
    if let Some(msr) = msr {
        let _ = write!(text, " {msr}");
    }
    if let Some(moved) = moved_ns {
        let side = if moved < 0 { "earlier" } else { "later" };
        let _ = write!(text, ", deadline {} {side}", Nanos(moved.unsigned_abs()));
    }
    text
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
