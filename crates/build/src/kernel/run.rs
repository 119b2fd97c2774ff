// SPDX-License-Identifier: GPL-2.0-only
//! Running other programs: output on success, the command and its last words on failure.

use anyhow::{bail, Context, Result};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

/// How many lines of a failed program are worth showing.
const LAST_LINES: usize = 30;

/// Lets a program end with this one, however that ends: a `make` must not go on in a folder whose
/// lock is gone.
fn tied(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        })
    }
}

/// Standard output of a program that must succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let output = tied(command)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", show(command)))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "{} failed ({}):\n{}",
            show(command),
            output.status,
            last_lines(&String::from_utf8_lossy(&said))
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Runs a program that talks a lot: each line goes to `log` and to `line`.
pub fn logged(command: &Command, log: &Path, mut line: impl FnMut(&str)) -> Result<()> {
    // One pipe for both streams, so that an error stands where it happened.
    let mut child = Command::new("sh");
    child.args(["-c", "exec \"$@\" 2>&1", "sh"]);
    child.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        child.current_dir(dir);
    }
    let mut file = fs_err::OpenOptions::new().create(true).append(true).open(log)?;
    writeln!(file, "$ {}", show(command))?;
    let mut child = tied(&mut child)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", show(command)))?;
    let mut said = String::new();
    for text in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let text = text.context("cannot read a program's output")?;
        writeln!(file, "{text}")?;
        line(&text);
        said.push_str(&text);
        said.push('\n');
    }
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "{} failed ({status}):\n{}\nhint: the whole output is in {}",
            show(command),
            last_lines(&said),
            log.display()
        );
    }
    Ok(())
}

fn show(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
