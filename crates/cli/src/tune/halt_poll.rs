// SPDX-License-Identifier: GPL-2.0-only
//! `paratick tune halt-poll`.

use super::{
    apply::{apply, Wanted},
    judge::{judge, Judged},
};
use crate::{
    errors::usage,
    input::{self, Kind},
    options::{check_agent, duration, number, refuse, Format, LabOptions},
    progress,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_bench::tune::{self, Interrupted, Load};
use paratick_build::tools::Tools;
use paratick_core::{
    event::Events,
    halts::{Floor, Halts, HostRule},
};
use paratick_machine::{guest::Guest, host::Host, spec::Clock};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Instructions in a round of the lab's parallel clock, so about ns: the shortest polls take less
/// than its usual 4000.
const ROUND: u32 = 200;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    lab: LabOptions,
    /// Read halts that were saved before, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "apply", "time"])]
    recording: Option<PathBuf>,
    /// For how long to record this machine's guests
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    time: Duration,
    /// What it costs to block and to wake up [default: as the recording says, else 10000]
    #[arg(long, value_name = "NS", value_parser = number(1..=10_000_000))]
    cost: Option<u32>,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Look only at this VM, of several that were recorded; may be repeated
    #[arg(long, value_name = "PID")]
    vm: Vec<u32>,
    /// Set the host to this rule, or to the best that its kernel has, record again, and set it back
    /// if the prediction does not come true: none, 2021, paper, default, or NS,GROW,START,SHRINK
    #[arg(long, value_name = "RULE", require_equals = true, value_parser = stock)]
    apply: Option<Option<HostRule>>,
    /// Apply the rule even if some of several VMs lose by it
    #[arg(long)]
    all: bool,
    /// Whose polling: KVM's, before it lets a vCPU's thread sleep, or the lab guest's own, before
    /// it halts (needs a mode with +poll)
    #[arg(long, value_name = "SIDE", default_value = "host")]
    side: SideOption,
    /// Stop the command after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
    /// What the lab's guest runs while it is recorded, with arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SideOption {
    Host,
    Guest,
}

/// A rule that stock parameters can express.
fn stock(text: &str) -> Result<HostRule, String> {
    let rule: HostRule = text.parse().map_err(|error| format!("{error}"))?;
    match rule.floor {
        Floor::ToZero => Ok(rule),
        _ => Err("only a kernel of the lab has another floor than Linux".into()),
    }
}

/// A host with what makes its vCPUs halt.
struct Subject<'a> {
    options: &'a Options,
    host: Host,
    guest: Option<Guest>,
    argv: Vec<String>,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    options.lab.check_recorded(options.recording.is_some())?;
    options.check_vms()?;
    if let Some(file) = &options.recording {
        refuse(&["side"], "with --recording, which knows whose halts it has")?;
        if !options.command.is_empty() {
            return Err(usage(
                "a command has no effect with --recording: nothing is recorded\nhint: omit it",
            ));
        }
        let kind = Kind { verb: "replay", of: "halts", command: "tune halt-poll" };
        let halts: Halts = kind.read(file)?;
        return show(options, halts).map(|_| ExitCode::SUCCESS);
    }
    options.check()?;
    let (subject, halts) = progress::during(|events| {
        let subject = Subject::boot(options, events)?;
        if options.apply.is_some() && subject.guest.is_some() {
            // The first run of a program is not like those that follow: it fills caches.
            subject.record()?;
        }
        let halts = subject.record();
        Ok((subject, halts))
    })?;
    let halts = halts.or_else(|error| keep(options, error))?;
    if let Some(file) = &options.save {
        input::keep(file, &halts)?;
    }
    let judged = show(options, halts)?;
    let code = match options.apply {
        Some(rule) => {
            let wanted = Wanted { rule, all: options.all };
            apply(&subject.host, &|| subject.record(), &judged, &wanted)?
        }
        None => ExitCode::SUCCESS,
    };
    subject.end()?;
    Ok(code)
}

/// What was recorded until it failed is shown and saved all the same.
fn keep(options: &Options, error: anyhow::Error) -> Result<Halts> {
    if let Some(Interrupted(halts)) = error.downcast_ref() {
        if let Some(file) = &options.save {
            input::keep(file, halts)?;
        }
        show(options, halts.clone())?;
    }
    Err(error)
}

fn show(options: &Options, halts: Halts) -> Result<Judged> {
    let halts = options.chosen(halts)?;
    let judged = judge(&halts, options.cost, options.apply.flatten());
    options.format.print(&judged.report(), || judged.text(&halts))?;
    Ok(judged)
}

impl Options {
    /// What is about several VMs has an effect where there may be several.
    fn check_vms(&self) -> Result<()> {
        if self.apply.is_none() {
            refuse(&["all"], "without --apply")?;
        }
        if self.recording.is_none() && self.lab.host.host.boots() {
            refuse(&["all", "vm"], "in the lab: there is one VM")?;
        }
        match self.apply.is_some() && !self.vm.is_empty() {
            true => Err(usage(
                "--vm looks at some VMs, and --apply sets KVM's parameters for every VM\n\
                 hint: omit --vm; every VM's gain or loss is shown",
            )),
            false => Ok(()),
        }
    }

    /// The halts of the VMs that were asked for.
    fn chosen(&self, mut halts: Halts) -> Result<Halts> {
        if self.vm.is_empty() {
            return Ok(halts);
        }
        let mut there: Vec<u32> = halts.vcpus.iter().filter_map(|vcpu| vcpu.process).collect();
        there.sort_unstable();
        there.dedup();
        if let Some(missing) = self.vm.iter().find(|vm| !there.contains(vm)) {
            let there: Vec<String> = there.iter().map(|vm| format!("--vm {vm}")).collect();
            let hint = match there.is_empty() {
                true => "omit --vm: no process was recorded".to_string(),
                false => format!("give {}", there.join(" or ")),
            };
            return Err(usage(format!("VM {missing} has no halts here\nhint: {hint}")));
        }
        halts.vcpus.retain(|vcpu| vcpu.process.is_some_and(|vm| self.vm.contains(&vm)));
        Ok(halts)
    }

    fn check(&self) -> Result<()> {
        if self.lab.host.host.boots() {
            refuse(&["time"], "in the lab: the recording ends with the command")?;
        }
        if let Some(file) = &self.save {
            input::check_writable(file)?;
        }
        if self.side == SideOption::Guest {
            if !self.lab.host.host.boots() {
                return Err(usage(
                    "a guest's own polling is recorded in the lab only\n\
                     hint: omit --host here, or --side guest",
                ));
            }
            if self.apply.is_some() {
                return Err(usage(
                    "--apply sets the host\n\
                     hint: give the guest its rule at boot, by a mode such as +poll-50k",
                ));
            }
        }
        match (self.lab.host.host.boots(), self.command.is_empty()) {
            (true, true) => Err(usage(
                "nothing is to run in the lab's guest\n\
                 hint: end the command line in `-- COMMAND`, or record this machine's guests with \
                 --host here",
            )),
            (false, false) => Err(usage(
                "a command is for a guest of the lab's\n\
                 hint: omit it with --host here: what runs in its guests is recorded",
            )),
            (true, false) => check_agent(),
            (false, true) => Ok(()),
        }
    }
}

impl Subject<'_> {
    fn boot<'a>(options: &'a Options, events: Events) -> Result<Subject<'a>> {
        let argv = options.command.clone();
        if !options.lab.host.host.boots() {
            let host = Host::boot(options.lab.machine()?, &Tools::default(), events)?;
            return Ok(Subject { options, host, guest: None, argv });
        }
        let mut plan = options.lab.plan(Clock::Leaping, events)?;
        plan.host.emulation.round = options.lab.parallel_clock.then_some(ROUND);
        let (host, guest) = plan.boot(events)?;
        Ok(Subject { options, host, guest: Some(guest), argv })
    }

    fn record(&self) -> Result<Halts> {
        let load = match &self.guest {
            Some(guest) if self.options.side == SideOption::Guest => {
                return tune::record_in(guest, &self.argv, self.options.timeout);
            }
            Some(guest) => Load::Command { guest, argv: &self.argv, limit: self.options.timeout },
            None => Load::Time(self.options.time),
        };
        tune::record(&self.host, &load)
    }

    fn end(self) -> Result<()> {
        self.guest.map_or(Ok(()), Guest::shutdown)?;
        self.host.shutdown()
    }
}
