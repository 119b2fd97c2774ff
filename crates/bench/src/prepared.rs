// SPDX-License-Identifier: GPL-2.0-only
//! The listed programs' inputs, and which files they read: found out once on the machine, where it
//! takes seconds, and not in every guest, where it takes minutes.

use anyhow::{bail, Context, Result};
use paratick_build::{
    cache,
    progress::{Events, Step, Warning},
};
use paratick_core::catalogue::programs;
use paratick_core::results::{PlannedWorkload, Program};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Changes whenever a package does.
const PACKAGES: &str = "/var/lib/dpkg/status";

/// By workload: a folder with `input/` and `trace`.  Workloads that are not in it are prepared in
/// the guest.
pub type Prepared = BTreeMap<String, PathBuf>;

/// Makes what is missing.  Only programs of the list are run on the machine, fio on a file instead
/// of a disk: nobody asked for the user's own to be run here.
pub fn ensure(workloads: &[PlannedWorkload], events: Events) -> Result<Prepared> {
    let listed = workloads
        .iter()
        .filter_map(|planned| Some((planned, programs::on_the_machine(planned)?)));
    let mut prepared = Prepared::new();
    let packages = fs_err::read(PACKAGES).unwrap_or_default();
    for (planned, program) in listed {
        let input = program.prepare.as_deref().unwrap_or("");
        let parts = [input.as_bytes(), program.command.as_bytes(), &packages];
        let folder = cache::dir()?.join("programs").join(cache::key(parts));
        if !folder.exists() {
            let name = &planned.workload;
            events(Step::MakingInput { workload: name }.into());
            if let Err(error) = make(&folder, &program) {
                let (workload, why) = (name, &format!("{error:#}"));
                events(Warning::PreparedInGuests { workload, why }.into());
                continue;
            }
        }
        prepared.insert(planned.workload.clone(), folder);
    }
    Ok(prepared)
}

/// What the agent does in the guest with a prepared folder, for the program's folder there.
pub fn preparation(stocked: &Path, agent: &str, folder: &str) -> Vec<String> {
    let stocked = |name: &str| stocked.join(name).display().to_string();
    vec![
        agent.into(),
        "make-root".into(),
        programs::ROOT.into(),
        stocked("trace"),
        stocked("input"),
        folder.into(),
    ]
}

fn make(folder: &Path, program: &Program) -> Result<()> {
    let above = folder.parent().context("the cache has folders")?;
    fs_err::create_dir_all(above)?;
    let made = tempfile::Builder::new()
        .prefix(".paratick-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in(above)?;
    // The run may leave files behind that are no input.
    let (input, run) = (made.path().join("input"), made.path().join("run"));
    fs_err::create_dir(&input)?;
    sh(&input, program.prepare.as_deref().unwrap_or("true"))?;
    sh(made.path(), "cp -R input run")?;
    let traced = programs::traced(&program.command, "../trace");
    sh(&run, &traced)?;
    fs_err::remove_dir_all(&run)?;
    match fs_err::rename(made.path(), folder) {
        Ok(()) => {
            let _ = made.keep();
            Ok(())
        }
        // Another bench was quicker.
        Err(_) if folder.exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn sh(folder: &Path, script: &str) -> Result<()> {
    let run = Command::new("sh")
        .args(["-c", &format!("set -e\n{script}")])
        .current_dir(folder)
        .env("DIR", folder)
        .stdin(Stdio::null())
        .output()
        .context("starting sh")?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        bail!("{script:?} ended with {}: {}", run.status, said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_files_are_found_out_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let program = Program {
            command: "cat text >copy".into(),
            prepare: Some("echo words >text".into()),
            stands_for: Some("dedup".into()),
        };
        if let Err(error) = make(&made, &program) {
            // Where tracing is forbidden or strace is missing, guests prepare themselves.
            assert!(format!("{error:#}").contains("strace"), "{error:#}");
            println!("NOT CHECKED: this machine does not let strace trace: {error:#}");
            return;
        }
        let input: Vec<_> = std::fs::read_dir(made.join("input")).unwrap().collect();
        assert_eq!(input.len(), 1);
        let trace = std::fs::read_to_string(made.join("trace")).unwrap();
        assert!(trace.contains("libc.so"), "{trace}");
        assert!(!made.join("run").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_what_is_listed_is_run_on_the_machine() {
        let own = PlannedWorkload {
            workload: "own".into(),
            work: 1,
            unit: "runs".into(),
            program: Some(Program {
                command: "touch /run/paratick-was-here".into(),
                prepare: None,
                stands_for: None,
            }),
        };
        assert!(ensure(&[own], &mut |_| ()).unwrap().is_empty());
        assert!(!Path::new("/run/paratick-was-here").exists());
    }
}
