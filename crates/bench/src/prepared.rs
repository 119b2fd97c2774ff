// SPDX-License-Identifier: GPL-2.0-only
//! Programs' inputs, and which files programs read: found out once on the machine, where it takes
//! seconds, and not in every guest, where it takes minutes.

use anyhow::{anyhow, bail, Context, Result};
use paratick_build::cache;
use paratick_core::{
    catalogue::programs,
    event::{Event, Events, Step, Warning},
    results::{PlannedWorkload, Program},
};
use paratick_machine::{exec::Exec, run_folder::RunFolder};
use paratick_service::process::Kept;
use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

/// Changes whenever a package does.
const PACKAGES: &str = "/var/lib/dpkg/status";
/// What a program may take on the machine where nobody says otherwise: `--prepare-limit`.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Wall-clock limit of one run; the longest, on 64 emulated vCPUs, take some minutes.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(900);
/// Where a program finds its input in the guest, as $DIR, and where it runs: in memory.
const FOLDER: &str = "/tmp/paratick";
/// How much of a failed program's output is shown.
const TAIL: u64 = 2000;

/// By program: a folder with `input/` and `trace`.  Programs that are not in it are prepared in the
/// guest.
#[derive(Default)]
pub struct Prepared {
    folders: HashMap<Program, PathBuf>,
    /// Has the folders of the user's own programs, which may change from bench to bench.
    _scratch: Option<RunFolder>,
}

/// Runs each program once, for no longer than `limit`: fio on a file instead of a disk.  Those of
/// the list that cannot run here are left to the guests; of the user's own that is an error.
pub fn ensure<'a>(
    workloads: impl IntoIterator<Item = &'a PlannedWorkload>,
    limit: Duration,
    events: Events,
) -> Result<Prepared> {
    let mut prepared = Prepared::default();
    let shown = |planned: &&PlannedWorkload| programs::on_the_machine(planned).is_some();
    let planned: Vec<_> = workloads.into_iter().filter(shown).collect();
    if planned.is_empty() {
        return Ok(prepared);
    }
    if let Err(error) = can_trace(programs::TRACER) {
        let names: Vec<_> = planned.iter().map(|one| one.workload.as_str()).collect();
        let (workload, why) = (&*names.join(", "), &*format!("{error:#}"));
        events(Warning::PreparedInGuests { workload, why }.into());
        return Ok(prepared);
    }
    let base = cache::dir()?.join("programs");
    let scratch = RunFolder::create_in(&base, false)?;
    for (number, planned) in planned.into_iter().enumerate() {
        let made = scratch.path().join(number.to_string());
        prepared.add(planned, &base, &made, limit, events)?;
    }
    prepared._scratch = Some(scratch);
    Ok(prepared)
}

impl Prepared {
    /// What the agent does in the guest, for the program's folder there.
    pub fn preparation(&self, program: &Program, agent: &str, folder: &str) -> Option<Vec<String>> {
        let made = self.folders.get(program)?;
        let made = |name: &str| made.join(name).display().to_string();
        Some(vec![
            agent.into(),
            "make-root".into(),
            programs::ROOT.into(),
            made("trace"),
            made("input"),
            folder.into(),
        ])
    }

    /// What is missing is made in the folder `made`; what a listed program needs is kept in `base`.
    fn add(
        &mut self,
        planned: &PlannedWorkload,
        base: &Path,
        made: &Path,
        limit: Duration,
        events: Events,
    ) -> Result<()> {
        let here = programs::on_the_machine(planned);
        let (Some(asked), Some(program)) = (&planned.program, here) else { return Ok(()) };
        let workload = planned.workload.as_str();
        if self.folders.contains_key(asked) {
            return Ok(());
        }
        if !programs::is_listed(planned) {
            events(Step::RunningOnce { workload, limit }.into());
            make(made, &program, limit, events).map_err(|error| {
                anyhow!(
                    "preparing {workload}: {error:#}\nhint: give it less to do, or more time with \
                     --prepare-limit, or measure it with --no-prepare"
                )
            })?;
            self.folders.insert(asked.clone(), made.into());
            return Ok(());
        }
        let input = program.prepare.as_deref().unwrap_or("");
        let packages = fs_err::read(PACKAGES).unwrap_or_default();
        let parts = [input.as_bytes(), program.command.as_bytes(), &packages];
        let folder = base.join(cache::key(parts));
        if !folder.exists() {
            events(Step::MakingInput { workload }.into());
            let kept = make(made, &program, limit, events).and_then(|()| keep(made, &folder));
            if let Err(error) = kept {
                let why = &*format!("{error:#}");
                events(Warning::PreparedInGuests { workload, why }.into());
                return Ok(());
            }
        }
        self.folders.insert(asked.clone(), folder);
        Ok(())
    }
}

fn make(folder: &Path, program: &Program, limit: Duration, events: Events) -> Result<()> {
    // The run may leave files behind that are no input.
    let (input, run) = (folder.join("input"), folder.join("run"));
    fs_err::create_dir_all(&input)?;
    sh(&input, program.prepare.as_deref().unwrap_or("true"), limit, events)?;
    sh(folder, "cp -R input run", limit, events)?;
    let traced = programs::traced(&program.command, "../trace");
    sh(&run, &traced, limit, events)?;
    Ok(fs_err::remove_dir_all(&run)?)
}

fn keep(made: &Path, folder: &Path) -> Result<()> {
    match fs_err::rename(made, folder) {
        // Another bench was quicker.
        Err(_) if folder.exists() => Ok(()),
        renamed => Ok(renamed?),
    }
}

/// Runs a script as in the guest: without input, and with what a guest's environment has.  It ends
/// with us, at the latest at the limit, and all that it started too.
fn sh(folder: &Path, script: &str, limit: Duration, events: Events) -> Result<()> {
    let output = tempfile::tempfile().context("making a file for a program's output")?;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("set -e\n{script}")])
        .current_dir(folder)
        .env_clear()
        .envs(Exec::new::<String>([]).env)
        .env("DIR", folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let (tell, ended) = mpsc::channel();
    let running = Kept::spawn(command, None, |_| (), move |status| _ = tell.send(status))?;
    let begun = Instant::now();
    let status = loop {
        let left = limit.saturating_sub(begun.elapsed());
        match ended.recv_timeout(left.min(Duration::from_secs(1))) {
            Ok(status) => break status,
            Err(RecvTimeoutError::Timeout) if left > Duration::ZERO => events(Event::Progress {
                done: begun.elapsed().as_secs(),
                total: Some(limit.as_secs()),
                left: Some(left),
            }),
            Err(_) => {
                running.stop(Duration::ZERO);
                bail!("it did not end within {} s{}", limit.as_secs_f32(), tail(&output));
            }
        }
    };
    if !status.success() {
        bail!("it ended with {status}{}", tail(&output));
    }
    Ok(())
}

/// The end of what was written, as the end of a message.
fn tail(output: &File) -> String {
    let length = output.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = vec![0; length.min(TAIL) as usize];
    let read = output.read_at(&mut bytes, length.saturating_sub(TAIL));
    bytes.truncate(read.unwrap_or(0));
    match String::from_utf8_lossy(&bytes).trim() {
        "" => "; it wrote nothing".into(),
        said => format!("; the last that it wrote:\n{said}"),
    }
}

/// An error says why this machine does not let programs be traced.
fn can_trace(tracer: &str) -> Result<()> {
    let traced = programs::traced("true", "/dev/null").replacen(programs::TRACER, tracer, 1);
    sh(Path::new("/"), &traced, Duration::from_secs(30), &mut |_| ())
}

/// Where a workload runs in guests.
pub(super) fn folder(workload: &PlannedWorkload) -> String {
    format!("{FOLDER}/{}", workload.workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn program(command: &str, prepare: Option<&str>) -> Program {
        let (command, prepare) = (command.into(), prepare.map(String::from));
        Program { command, prepare, ..Program::default() }
    }

    /// A workload of the user's own is added to an empty prepared.
    fn add_own(base: &Path, program: Program, limit: Duration) -> (Result<Prepared>, Vec<String>) {
        let own = PlannedWorkload::run_of("own", program);
        let (mut prepared, mut said) = (Prepared::default(), Vec::new());
        let mut events = |event: Event| said.push(format!("{event:?}"));
        let added = prepared.add(&own, base, &base.join("made"), limit, &mut events);
        (added.map(|()| prepared), said)
    }

    /// Where tracing is forbidden or strace is missing, guests prepare themselves.
    fn traces() -> bool {
        match can_trace(programs::TRACER) {
            Ok(()) => true,
            Err(error) => {
                println!("NOT CHECKED: this machine does not let strace trace: {error:#}");
                false
            }
        }
    }

    #[test]
    fn input_and_files_are_found_out_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let program = program("cat text >copy", Some("echo words >text"));
        if !traces() {
            return;
        }
        make(&made, &program, LIMIT, &mut |_| ()).unwrap();
        let input: Vec<_> = std::fs::read_dir(made.join("input")).unwrap().collect();
        assert_eq!(input.len(), 1);
        let trace = std::fs::read_to_string(made.join("trace")).unwrap();
        assert!(trace.contains("libc.so"), "{trace}");
        assert!(!made.join("run").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn ones_own_program_is_run_once_and_that_is_said_with_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        if !traces() {
            return;
        }
        let own = program("[ -z \"$SECRET\" ] && [ $PWD = $DIR ] && cat /etc/hostname", None);
        let (prepared, said) = add_own(folder.path(), own.clone(), LIMIT);
        let argv = prepared.unwrap().preparation(&own, "agent", "/tmp/x").unwrap();
        assert_eq!(argv[..2], ["agent", "make-root"]);
        let trace = std::fs::read_to_string(&argv[3]).unwrap();
        assert!(trace.contains("/etc/hostname"), "{trace}");
        assert!(said[0].contains("RunningOnce") && said[0].contains("limit: 60s"), "{said:?}");
    }

    #[test]
    fn ones_own_program_that_fails_is_an_error_with_the_end_of_its_output_and_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        if !traces() {
            return;
        }
        let own = program("seq 100000; echo no luck >&2; exit 3", None);
        let error = add_own(folder.path(), own, LIMIT).0.err().unwrap().to_string();
        let (said, hint) = error.rsplit_once('\n').unwrap();
        assert!(said.starts_with("preparing own: it ended with exit status: 3"), "{error}");
        assert!(said.ends_with("100000\nno luck") && error.len() < 2300, "{error}");
        assert!(hint.starts_with("hint: ") && hint.contains("--no-prepare"), "{hint}");
    }

    #[test]
    fn at_the_limit_a_program_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        if !traces() {
            return;
        }
        let begun = Instant::now();
        let own = program("sleep 1000 & echo $! >../child; echo waiting; wait", None);
        let (prepared, said) = add_own(folder.path(), own, Duration::from_millis(1500));
        let error = prepared.err().unwrap().to_string();
        assert!(error.contains("did not end within 1.5 s") && error.contains("waiting"), "{error}");
        assert!(error.contains("hint: ") && error.contains("--prepare-limit"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(said[1].contains("Progress") && said[1].contains("left: Some"), "{said:?}");
        let child = std::fs::read_to_string(folder.path().join("made/child")).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{child} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn without_strace_nothing_can_be_traced() {
        let error = can_trace("no-such-strace").unwrap_err().to_string();
        assert!(error.contains("no-such-strace"), "{error}");
    }

    #[test]
    fn what_shall_run_in_place_is_not_run_on_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("was-here");
        let own = Program { in_place: true, ..program(&format!("touch {}", here.display()), None) };
        let (prepared, said) = add_own(folder.path(), own.clone(), LIMIT);
        assert!(prepared.unwrap().preparation(&own, "agent", "/tmp/x").is_none());
        assert!(said.is_empty() && !here.exists());
    }
}
