// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab shell`.

use super::{dry_run, inside::Inside};
use crate::{
    errors::usage,
    options::{check_agent, LabOptions},
    print::{errln, out, pass_on},
    progress, signals,
};
use anyhow::{Context, Result};
use clap::Args;
use paratick_core::wire::TerminalSize;
use paratick_machine::{
    exec::{Exec, Input},
    spec::Clock,
};
use paratick_service::find_program;
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr, OptionalActions};
use signal_hook::{consts::SIGWINCH, iterator::Signals};
use std::{io::IsTerminal, process::ExitCode, sync::mpsc, thread};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: LabOptions,
    /// Where the shell runs
    #[arg(long = "in", value_enum, default_value_t = Inside::Guest)]
    inside: Inside,
}

pub fn run(options: Options) -> Result<ExitCode> {
    options.inside.check(&options.common)?;
    check_agent()?;
    if !options.common.dry_run && !std::io::stdin().is_terminal() {
        return Err(usage(
            "a shell needs a terminal\n\
             hint: `paratick lab run -- sh` reads a script from standard input",
        ));
    }
    // A person types at it: its clock must not leap ahead while it waits.
    let plan = progress::during(|events| options.common.plan(Clock::Real, events))?;
    if options.common.dry_run {
        out!("{}", dry_run::text(&plan, options.inside)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (host, guest) = progress::during(|events| match options.inside {
        Inside::Host => Ok((plan.boot_host(events)?, None)),
        Inside::Guest => plan.boot(events).map(|(host, guest)| (host, Some(guest))),
    })?;
    errln!("exit the shell (Ctrl-D) to end the lab");
    let exec = shell()?;
    take_terminal()?;
    let mut show = |_, bytes: &[u8]| pass_on(std::io::stdout().lock(), bytes);
    let finished = match &guest {
        Some(guest) => guest.exec_streaming(exec, &mut show),
        None => host.exec_streaming(exec, &mut show),
    };
    signals::restore_terminal();
    let code = finished?.code;
    drop(guest);
    host.shutdown()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn shell() -> Result<Exec> {
    let path = std::env::var("PATH").unwrap_or_default();
    let wanted = std::env::var("SHELL").unwrap_or_default();
    let shell = [wanted.as_str(), "bash", "sh"]
        .into_iter()
        .find_map(|name| find_program(name, &path))
        .context("no shell on this machine\nhint: set SHELL")?;
    let mut exec = Exec::new([shell.display().to_string(), "-i".into()]);
    exec.terminal = Some(size());
    exec.resizes = Some(watch_size()?);
    exec.stdin = Input::From(Box::new(std::io::stdin()));
    Ok(exec)
}

fn size() -> TerminalSize {
    let size = tcgetwinsize(std::io::stdin());
    let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
    TerminalSize { rows, columns }
}

fn watch_size() -> Result<mpsc::Receiver<TerminalSize>> {
    let (send, receive) = mpsc::channel();
    let mut signals = Signals::new([SIGWINCH]).context("watching the size of the terminal")?;
    thread::spawn(move || {
        for _ in signals.forever() {
            if send.send(size()).is_err() {
                return;
            }
        }
    });
    Ok(receive)
}

/// Every key goes to the shell inside, Ctrl-C too.
fn take_terminal() -> Result<()> {
    let before = tcgetattr(std::io::stdin()).context("reading the terminal's settings")?;
    let mut raw = before.clone();
    signals::remember_terminal(before);
    raw.make_raw();
    tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).context("taking over the terminal")
}
