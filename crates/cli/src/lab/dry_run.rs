// SPDX-License-Identifier: GPL-2.0-only
//! The command lines of a run, to read and to paste.

use super::inside::Inside;
use crate::options::LabPlan;
use anyhow::Result;
use paratick_core::shell::quote;
use paratick_machine::{guest::command_line, run_folder, spec::disk_file};

pub fn text(plan: &LabPlan, inside: Inside) -> Result<String> {
    let run = run_folder::example()?;
    let host = plan.host.command_line(&plan.tools, &run)?;
    let places = plan.host.backend.places(&run);
    let guest = command_line(plan.guest(&run), &plan.host, &plan.tools, &places)?;
    let mut text = String::new();
    if !host.is_empty() {
        text += "# the host, on this machine\n";
        text += &format!("mkdir -p {}\n", quote(&run.display().to_string()));
        for (number, size) in plan.host.disks.iter().enumerate() {
            let disk = disk_file(&run, number);
            text += &format!("truncate -s {size} {}\n", disk.display());
        }
        text += &shell_line(&host);
    }
    if inside == Inside::Guest {
        text += "\n# the guest, on the host\n";
        text += &shell_line(&guest);
    }
    Ok(text)
}

/// One option and its value per line.
fn shell_line(words: &[String]) -> String {
    let mut line = String::new();
    for (number, word) in words.iter().enumerate() {
        let separator = match number {
            0 => "",
            _ if word.starts_with('-') => " \\\n    ",
            _ => " ",
        };
        line += separator;
        line += &quote(word);
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_and_its_value_have_a_line() {
        let line = shell_line(&["qemu".into(), "-m".into(), "1G".into()]);
        assert_eq!(line, "qemu \\\n    -m 1G\n");
    }
}
