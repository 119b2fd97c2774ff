// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab run`.

use super::{dry_run, inside::Inside};
use crate::{
    options::{check_agent, duration, Format, LabOptions, LabPlan},
    print::{errln, out, pass_on},
    progress::Progress,
};
use anyhow::{bail, Result};
use clap::Args;
use paratick_build::tools::find_agent;
use paratick_core::{event::Event, exits::WindowCounts, wire::Stream};
use paratick_machine::{
    exec::{Exec, Input},
    failure::Failure,
    guest::Guest,
    host::Host,
    spec::Clock,
};
use paratick_service::{find_program, guest::OWN_FOLDERS};
use paratick_view::terminal;
use std::{io::IsTerminal, path::PathBuf, process::ExitCode, time::Duration};

/// As timeout(1) says it.
const TIME_LIMIT: u8 = 124;
/// As a shell says it.
const NO_SUCH_COMMAND: u8 = 127;
/// Around a command that marks no window itself; no workload uses so high a number.
const WHOLE_COMMAND: u32 = 0xff_ffff;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: LabOptions,
    /// Where the command runs; a script on the host can start a VMM of its own there
    #[arg(long = "in", value_enum, default_value_t = Inside::Guest)]
    inside: Inside,
    /// Stop the command after this (wall-clock) time; each boot has a limit of its own
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// Count VM exits while the command runs, by cause and reason, per vCPU
    #[arg(long)]
    exits: bool,
    #[command(flatten)]
    format: Format,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub fn run(options: Options) -> Result<ExitCode> {
    options.inside.check(&options.common)?;
    // A system of its own has its own commands.
    if options.common.root.is_none() {
        if let Err(error) = find_command(&options.command[0], options.inside) {
            errln!("error: {error}");
            return Ok(ExitCode::from(NO_SUCH_COMMAND));
        }
    }
    check_agent()?;
    let mut progress = Progress::new();
    let plan = options.common.plan(Clock::Leaping, &mut |event| progress.show(event))?;
    if options.common.dry_run {
        drop(progress);
        out!("{}", dry_run::text(&plan, options.inside)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    match boot_and_run(&options, &plan, progress) {
        Err(error) => match error.downcast_ref() {
            Some(Failure::TimeLimit { what, .. }) if *what == options.command.join(" ") => {
                errln!("error: {error}\nhint: give it more time with --timeout");
                Ok(ExitCode::from(TIME_LIMIT))
            }
            Some(Failure::NotStarted(_)) if plan.guest.has_own_root() => {
                errln!(
                    "error: {error}\n\
                     hint: the guest has the commands of a system of its own, not this machine's"
                );
                Ok(ExitCode::from(NO_SUCH_COMMAND))
            }
            _ => Err(error),
        },
        code => code,
    }
}

/// The same answer that the guest would give, before the time of a boot is spent.
fn find_command(name: &str, inside: Inside) -> Result<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let Some(program) = find_program(name, &path) else {
        bail!(
            "no command '{name}'\n\
            hint: the {inside} runs what is installed on this machine; is it in PATH?"
        );
    };
    let absolute = std::path::absolute(&program)?;
    let own = OWN_FOLDERS.iter().chain(&["/dev"]);
    let agent = find_agent().is_ok_and(|agent| agent == absolute);
    match own.filter(|_| !agent).find(|top| absolute.starts_with(top)) {
        Some(top) => bail!(
            "no command '{name}' in the {inside}: {top} is its own there\n\
             hint: copy {} to another folder",
            absolute.display()
        ),
        None => Ok(program),
    }
}

fn boot_and_run(options: &Options, plan: &LabPlan, progress: Progress) -> Result<ExitCode> {
    let (host, guest) = boot(options, plan, progress)?;
    if options.exits {
        host.counting_start()?;
    }
    let mut exec = Exec::new(options.command.clone()).timeout(options.timeout);
    exec.window = options.exits.then_some(WHOLE_COMMAND);
    if !std::io::stdin().is_terminal() {
        exec.stdin = Input::From(Box::new(std::io::stdin()));
    }
    let code = match options.format.is_json() {
        false => {
            let finished = match &guest {
                Some(guest) => guest.exec_streaming(exec, &mut pass_through)?,
                None => host.exec_streaming(exec, &mut pass_through)?,
            };
            if let Some(windows) = windows(options, guest.as_ref())? {
                errln!("{}", terminal::windows(&windows, WHOLE_COMMAND).trim_end());
            }
            finished.code
        }
        true => {
            let result = match &guest {
                Some(guest) => guest.exec(exec)?,
                None => host.exec(exec)?,
            };
            let windows = windows(options, guest.as_ref())?;
            let code = result.code;
            let report = Report {
                schema: "paratick-lab-run/1",
                command: &options.command,
                mode: guest.as_ref().map(|_| plan.guest.mode.to_string()),
                vcpus: guest.as_ref().map(|_| plan.guest.vcpus),
                code,
                duration_ns: result.duration_ns,
                stdout: String::from_utf8_lossy(&result.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&result.stderr).into_owned(),
                host: Side::new(host.ready(), host.command_line()),
                guest: guest.as_ref().map(|it| Side::new(it.ready(), it.command_line())),
                windows,
            };
            options.format.print(&report, String::new)?;
            code
        }
    };
    if options.common.keep {
        errln!("kept: {}", host.run_folder().display());
    }
    guest.map_or(Ok(()), Guest::shutdown)?;
    host.shutdown()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn windows(options: &Options, guest: Option<&Guest>) -> Result<Option<Vec<WindowCounts>>> {
    guest.filter(|_| options.exits).map(Guest::windows).transpose()
}

fn boot(
    options: &Options,
    plan: &LabPlan,
    mut progress: Progress,
) -> Result<(Host, Option<Guest>)> {
    // Only a terminal is told of steps that take seconds: elsewhere the command's own
    // standard error must stay as it is.
    let talk = std::io::stderr().is_terminal() || options.common.verbose;
    let mut show = |event: Event| {
        // Nor may a warning be missed.
        if talk || matches!(event, Event::Warning(_)) {
            progress.show(event);
        }
    };
    match options.inside {
        Inside::Host => Ok((plan.boot_host(&mut show)?, None)),
        Inside::Guest => plan.boot(&mut show).map(|(host, guest)| (host, Some(guest))),
    }
}

fn pass_through(stream: Stream, bytes: &[u8]) -> Result<()> {
    match stream {
        Stream::Stderr => pass_on(std::io::stderr().lock(), bytes),
        _ => pass_on(std::io::stdout().lock(), bytes),
    }
}

/// What `--format json` prints.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema: &'static str,
    command: &'a [String],
    /// These two and `guest` are null where the command ran on the host.
    mode: Option<String>,
    vcpus: Option<u32>,
    code: i32,
    /// On the guest's clock.
    duration_ns: u64,
    stdout: String,
    stderr: String,
    host: Side,
    guest: Option<Side>,
    /// Null where exits were not counted.
    windows: Option<Vec<WindowCounts>>,
}

#[derive(serde::Serialize)]
struct Side {
    kernel: String,
    cpus: u32,
    kernel_parameters: String,
    qemu: Vec<String>,
}

impl Side {
    fn new(ready: &paratick_core::wire::Ready, qemu: &[String]) -> Side {
        Side {
            kernel: ready.kernel.clone(),
            cpus: ready.cpus,
            kernel_parameters: ready.command_line.clone(),
            qemu: qemu.to_vec(),
        }
    }
}
