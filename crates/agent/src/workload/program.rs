// SPDX-License-Identifier: GPL-2.0-only
//! Any command, in a window from before it is started until it has ended.
//!
//! What it writes goes to a file in memory: reading a pipe would wake this process inside the
//! window.  It may use all the CPUs that this process may use; nothing here is pinned.

use super::{fio, measure::measure, options::Options, redis};
use anyhow::{Context, Result};
use paratick_core::workload::Report;
use std::{
    fmt,
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// How much of a failed program's output is shown.
const TAIL: u64 = 2000;
/// fio's output has half of it.
const FIO: u64 = 4000;

pub fn run(options: &Options) -> Result<Report> {
    let output = memory_file()?;
    let mut measured = measure(options, || {
        for _ in 0..options.work {
            let status = run_once(options, &output)?;
            if !status.success() {
                return Err(failed(options, status, &output).into());
            }
        }
        Ok(options.work)
    })?;
    let text = tail(&output, FIO).unwrap_or_default();
    let told = fio::told(&text).into_iter().flatten().chain(redis::told(&text));
    measured.more.extend(told.map(|(name, n)| (name.into(), n.into())));
    Ok(measured)
}

fn run_once(options: &Options, output: &File) -> Result<ExitStatus> {
    let (program, arguments) = options.command.split_first().context("no command to run")?;
    output.set_len(0).context("emptying the program's output")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    if let Some(root) = &options.root {
        enter(&mut command, root)?;
    }
    command.status().with_context(|| {
        format!(
            "cannot start {program}\n\
            hint: the guest has the programs of this machine; is it installed?"
        )
    })
}

/// Lets the command run in another root file system, in the same folder.
fn enter(command: &mut Command, root: &Path) -> Result<()> {
    let folder = std::env::current_dir().context("this process's folder is gone")?;
    let root = root.to_owned();
    // SAFETY: two system calls between fork and exec, and nothing is allocated for short paths.
    unsafe {
        command.pre_exec(move || {
            rustix::process::chroot(&root)?;
            Ok(rustix::process::chdir(&folder)?)
        });
    }
    Ok(())
}

/// Every write of the program's appends, whoever writes.
fn memory_file() -> Result<File> {
    let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)
        .context("making a file in memory")?;
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)
        .context("making a file in memory appendable")?;
    Ok(file.into())
}

/// A program that ran and failed, as opposed to one that could not be run.
#[derive(Debug)]
pub struct Failed {
    command: String,
    /// As a shell reports it: 128 + n for one ended by signal n.
    pub code: i32,
    tail: String,
}

fn failed(options: &Options, status: ExitStatus, output: &File) -> Failed {
    Failed {
        command: options.command.join(" "),
        code: status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1),
        tail: tail(output, TAIL).unwrap_or_default(),
    }
}

fn tail(mut output: &File, most: u64) -> std::io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    output.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_string())
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the program failed with code {}: {}", self.code, self.command)?;
        match self.tail.as_str() {
            "" => write!(f, "\nit wrote nothing"),
            tail => write!(f, "\nthe end of its output:\n{tail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(work: &str, script: &str) -> Result<Report> {
        let args = ["program", "--work", work, "--", "sh", "-c", script].map(String::from);
        run(&Options::parse(&args, 1).unwrap())
    }

    #[test]
    fn a_program_runs_as_often_as_it_is_asked_for_and_its_time_is_counted() {
        let file = std::env::temp_dir().join(format!("paratick-runs-{}", std::process::id()));
        let path = file.display();
        let busy = format!("echo x >>{path}; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done");
        let measured = run_here("3", &busy).unwrap();
        assert_eq!(measured.work, 3);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\nx\nx\n");
        std::fs::remove_file(file).unwrap();
        assert!(measured.user_ns + measured.system_ns > 0);
    }

    #[test]
    fn a_program_that_fails_says_its_code_and_the_end_of_what_it_wrote() {
        let error = run_here("1", "seq 100000; echo the reason >&2; exit 7").unwrap_err();
        let failed = error.downcast_ref::<Failed>().unwrap();
        assert_eq!(failed.code, 7);
        let text = error.to_string();
        assert!(text.ends_with("99999\n100000\nthe reason"), "{text}");
        assert!(text.len() < 2200);
        let error = run_here("1", "kill -9 $$").unwrap_err();
        assert_eq!(error.downcast_ref::<Failed>().unwrap().code, 137);
    }

    #[test]
    fn a_program_that_cannot_be_started_is_another_error() {
        let args = ["program", "--", "/no/such/program"].map(String::from);
        let error = run(&Options::parse(&args, 1).unwrap()).unwrap_err();
        assert!(error.downcast_ref::<Failed>().is_none());
        assert!(format!("{error:#}").contains("/no/such/program"));
    }

    #[test]
    fn a_program_may_use_every_cpu_that_its_parent_may_use() {
        let cpus = super::super::measure::cpus();
        run_here("1", &format!("[ $(nproc) = {cpus} ]")).unwrap();
    }
}
