// SPDX-License-Identifier: GPL-2.0-only
//! `paratick idle`.

use crate::{
    errors::usage,
    input::{self, Kind, NO_SIDE},
    options::{duration, refuse, Format, LabOptions, SideChoice},
    print::{clear_terminal, errln},
    progress, signals,
};
use anyhow::Result;
use clap::Args as Arguments;
use paratick_bench::{
    noise::{check_ran, Sides},
    wakeups::{record, record_here, Load, Recorded},
};
use paratick_core::{
    event::Events,
    noise::{Absence, HostNoise},
    units::Nanos,
    wakeups::{
        advice, lateness, offenders, rounds, summary, with_slack, Advice, Class, GuestWakeups,
        Knob, Lateness, Offender, Round, Saving, Summary, Trial,
    },
};
use paratick_machine::spec::Clock;
use paratick_view::{figure, tables::wakeups as tables};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Say what wakes a guest that should be idle, and what each wake-up costs in exits
///
/// Records every interrupt, every timer with who started it, and every exit, for a guest in the lab
/// that runs COMMAND or nothing.  Each exit is charged to what woke the vCPU: a timer of a process
/// or of the kernel, a device, or whatever woke the CPU from which it was woken.  With --host here
/// it shows the VMs that run on this machine, and with --side guest what wakes this machine, which
/// may itself be somebody's VM.  Stock kernels can be recorded.  docs/idle.md explains the tables.
/// Exit codes: 0 done, 2 wrong usage, 69 could not be recorded.
#[derive(Arguments)]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    /// For how long to record, in the guest's time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    #[arg(default_value_if("top", "true", "2s"))]
    time: Duration,
    #[command(flatten)]
    side: SideChoice,
    /// Predict what this much timer slack would save for processes that sleep
    #[arg(long, value_name = "TIME")]
    slack: Option<Nanos>,
    /// Predict what a setting would save: sysctl:KEY=VALUE, boot:PARAMETER, mode:MODE,
    /// defer:FUNCTION or round:FUNCTION
    ///
    /// It is the guest's.  Several make one prediction.  The last two are about a kernel whose
    /// timers of this function are deferrable, or rounded to full seconds, and stand alone.
    #[arg(long = "try", value_name = "SETTING", conflicts_with = "slack")]
    knobs: Vec<Knob>,
    /// Then try it in another guest, and count
    #[arg(long)]
    confirm: bool,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Draw what keeps it busy, as SVG
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Show a new table each --time [default: 2s], until interrupted; needs --host here
    #[arg(long, conflicts_with_all = ["save", "recording", "confirm", "figure", "command"])]
    top: bool,
    /// Read what was saved before, and record nothing
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["save", "time", "side", "confirm", "command"])]
    recording: Option<PathBuf>,
    /// Stop after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
    /// What runs in the guest meanwhile, in the background
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    signals::watch()?;
    args.lab.check_recorded(args.recording.is_some())?;
    if let Some(file) = &args.figure {
        input::check_figure(file)?;
    }
    if let Some(file) = &args.recording {
        let recorded = read(file)?;
        args.check_sides(recorded.host.is_some(), recorded.guest.is_some())?;
        return args.show(&Report::of(&recorded, args));
    }
    let sides = args.side.sides(&args.lab)?;
    args.check_sides(sides.host, sides.guest)?;
    if args.top {
        return args.top(sides);
    }
    if !args.command.is_empty() && !args.lab.host.host.boots() {
        return Err(usage(
            "a command runs in a guest of the lab, and none is booted\n\
             hint: start it yourself, or leave --host here out",
        ));
    }
    args.check_confirm(sides)?;
    if let Some(file) = &args.save {
        input::check_writable(file)?;
    }
    let recorded = progress::during(|events| args.record(sides, None, &[], events))?;
    if let Some(file) = &args.save {
        input::keep(file, &recorded)?;
    }
    let mut report = Report::of(&recorded, args);
    if args.confirm {
        let slack = report.saving.as_ref().map(|saving| (&saving.processes, saving.slack_ns));
        let again = progress::during(|events| args.record(sides, slack, &args.knobs, events))?;
        let counted = Report::of(&again, args);
        if let (Some(trial), Some(counted)) = (&mut report.trial, &counted.trial) {
            trial.counted_exits = Some(counted.exits);
        }
        report.counted = counted.saving;
    }
    args.show(&report)
}

/// A file of --save.
fn read(file: &Path) -> Result<Recorded> {
    const KIND: Kind = Kind { verb: "explain", of: "wake-ups", command: "idle" };
    let mut recorded: Recorded = KIND.read(file)?;
    if recorded.host.is_none() && recorded.guest.is_none() {
        return Err(KIND.wrong(file, NO_SIDE));
    }
    let sound = recorded.host.as_ref().is_none_or(HostNoise::is_sound)
        && recorded.guest.as_ref().is_none_or(GuestWakeups::is_sound);
    if !sound {
        return Err(KIND.damaged(file));
    }
    // Somebody may have put it together by hand.
    if let Some(guest) = &mut recorded.guest {
        guest.events.sort_by_key(|event| event.at_ns);
    }
    Ok(recorded)
}

impl Args {
    fn check_sides(&self, host: bool, guest: bool) -> Result<()> {
        if !guest {
            const WHY: &str = "of a host alone, which does not know what wakes a guest";
            refuse(&["slack", "figure"], WHY)?;
        }
        if !(self.knobs.is_empty() || host && guest) {
            let hint = match self.recording.is_none() && self.lab.host.host.boots() {
                true => "leave --side out",
                false => "omit --try",
            };
            return Err(usage(format!(
                "--try predicts exits by what woke a guest, and both sides have to tell\n\
                 hint: {hint}"
            )));
        }
        Ok(())
    }

    fn check_confirm(&self, sides: Sides) -> Result<()> {
        if self.confirm && self.slack.is_none() && self.knobs.is_empty() {
            return Err(usage(
                "there is nothing to confirm\n\
                 hint: say what to try, with --slack or --try",
            ));
        }
        if self.confirm && !(sides.host && sides.guest) {
            return Err(usage(
                "what a change saves is counted from both sides\n\
                 hint: leave --side and --host here out",
            ));
        }
        if let Some(knob) = self.knobs.iter().find(|knob| knob.parameters().is_none()) {
            if self.confirm {
                return Err(usage(format!(
                    "{knob} takes a change of the guest's kernel, so it cannot be confirmed\n\
                     hint: leave --confirm out; the lab can do it to lab_sampler_fn alone, with \
                     --append lab_sampler.period_us=N"
                )));
            }
        }
        if self.confirm {
            self.lab.host.check(self.knobs.iter().filter_map(Knob::mode))?;
        }
        Ok(())
    }

    fn record(
        &self,
        sides: Sides,
        slack: Option<(&BTreeSet<String>, u64)>,
        knobs: &[Knob],
        events: Events,
    ) -> Result<Recorded> {
        if !self.lab.host.host.boots() {
            let recorded = record_here(sides, self.time)?;
            check_ran(recorded.host.as_ref())?;
            return Ok(recorded);
        }
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        for knob in knobs {
            match knob {
                Knob::Mode(mode) => plan.guest.mode = *mode,
                other => plan.guest.append.extend(other.parameters().into_iter().flatten()),
            }
        }
        let (host, guest) = plan.boot(events)?;
        let load = Load { command: &self.command, slack, knobs };
        let recorded = record(&host, &guest, sides, self.time, load, self.timeout)?;
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    /// Until somebody ends it.
    fn top(&self, sides: Sides) -> Result<ExitCode> {
        if self.lab.host.host.boots() {
            return Err(usage(
                "--top is for what runs already, and a guest of the lab does not\n\
                 hint: give --host here, and --side guest if this machine is a VM",
            ));
        }
        loop {
            let recorded = record_here(sides, self.time)?;
            clear_terminal();
            self.show(&Report::of(&recorded, self))?;
        }
    }

    fn show(&self, report: &Report) -> Result<ExitCode> {
        if let Some(file) = &self.figure {
            let drawn = figure::wakers(&report.offenders, report.window_ns);
            input::put(file, drawn.as_bytes())?;
            errln!("figure: {}", file.display());
        }
        self.format.print(report, || report.text())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    summary: Option<Summary>,
    offenders: Vec<Offender>,
    /// By what timers allow.
    lateness: BTreeMap<Class, Lateness>,
    rounds: Vec<Round>,
    /// Where no guest was asked: all exits of all VMs.
    absences: &'a [Absence],
    window_ns: u64,
    /// What --slack would save.
    saving: Option<Saving>,
    /// … and what there was with it.
    counted: Option<Saving>,
    /// What is known to end some of it.
    advice: Vec<Advice>,
    /// What --try would save.
    trial: Option<Trial>,
    #[serde(skip)]
    with_host: bool,
}

impl Report<'_> {
    fn of<'a>(recorded: &'a Recorded, args: &Args) -> Report<'a> {
        let host = recorded.host.as_ref();
        let Some(guest) = &recorded.guest else {
            let clock = host.map(|host| host.clock);
            return Report {
                schema: SCHEMA,
                summary: None,
                offenders: Vec::new(),
                lateness: BTreeMap::new(),
                rounds: Vec::new(),
                absences: host.map_or(&[], |host| &host.absences),
                window_ns: clock.map_or(0, |clock| clock.end.ns.saturating_sub(clock.begin.ns)),
                saving: None,
                counted: None,
                advice: Vec::new(),
                trial: None,
                with_host: true,
            };
        };
        let rounds = rounds(guest, host.zip(recorded.process));
        let summary = summary(guest, &rounds);
        Report {
            schema: SCHEMA,
            offenders: offenders(&rounds),
            lateness: lateness([guest]),
            saving: args.slack.map(|slack| with_slack(guest, &rounds, slack.0)),
            counted: None,
            advice: advice(&rounds),
            trial: (!args.knobs.is_empty()).then(|| Trial::predict(guest, &rounds, &args.knobs)),
            rounds,
            absences: &[],
            window_ns: summary.window_ns,
            with_host: host.is_some(),
            summary: Some(summary),
        }
    }

    fn text(&self) -> String {
        let Some(summary) = &self.summary else {
            return tables::vms(self.absences, self.window_ns).text();
        };
        let in_all = tables::summary(summary, self.with_host).text();
        let who = tables::offenders(&self.offenders, self.window_ns, self.with_host).text();
        let late = match self.lateness.is_empty() {
            true => String::new(),
            false => format!("\n{}", tables::lateness(&self.lateness).text()),
        };
        let saving = self.saving.as_ref().map_or(String::new(), |saving| {
            let counted = self.counted.as_ref();
            format!("\n{}", tables::saving(saving, counted, self.with_host).text())
        });
        let advice = match self.advice.is_empty() {
            true => String::new(),
            false => format!("\n{}", tables::advice(&self.advice, self.window_ns).text()),
        };
        let trial = self.trial.as_ref().map_or(String::new(), |trial| {
            format!("\n{}", tables::trial(trial, self.window_ns).text())
        });
        format!("{in_all}\n{who}{late}{advice}{saving}{trial}")
    }
}

const SCHEMA: &str = "paratick-idle/1";
