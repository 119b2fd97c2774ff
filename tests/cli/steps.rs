// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/step`, which `make demo` and `make test` run their steps with.

use rustix::{
    process::{kill_process, Pid, Signal},
    pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags},
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/step");

/// The second of five steps, in `dir`: `script` for a shell, with its output in `log` if given.
fn step(dir: &TempDir, log: Option<&str>, script: &str) -> Command {
    // Whoever runs these tests in the background may ignore interrupts, and so would a shell.
    let mut step = Command::new("env");
    step.args(["--default-signal=INT", SCRIPT])
        .current_dir(dir.path())
        .env_remove("CI")
        .args(log.iter().flat_map(|log| ["--log", log]))
        .args(["2/5", "cook", "about 3 min", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    step
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Code, standard output and standard error.
fn seen(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_step_is_announced_and_its_output_goes_to_the_log() {
    let dir = folder();
    let mut step = step(&dir, Some("logs/cook.log"), "echo noise; echo more >&2");
    let (code, stdout, stderr) = seen(&step.output().unwrap());
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    assert_eq!(lines[0], "2 of 5  cook: about 3 min (output: logs/cook.log)");
    assert!(lines[1].ends_with(" s"), "{stderr}");
    let log = fs::read_to_string(dir.path().join("logs/cook.log")).unwrap();
    assert_eq!(log, "noise\nmore\n");
}

#[test]
fn a_step_that_took_a_while_says_how_long() {
    let output = step(&folder(), Some("log"), "sleep 3").output().unwrap();
    let stderr = text(&output.stderr);
    let last = stderr.lines().last().unwrap().trim();
    let took = last.strip_prefix("done: ").and_then(|rest| rest.strip_suffix(" s"));
    assert!(took.unwrap().parse::<u32>().unwrap() >= 3, "{stderr}");
}

#[test]
fn a_failing_step_shows_the_end_of_its_log_and_passes_its_code_on() {
    let script = "seq 100 130; echo boiled over >&2; exit 7";
    let output = step(&folder(), Some("log"), script).output().unwrap();
    let (code, stdout, stderr) = seen(&output);
    assert_eq!((code, stdout.as_str()), (Some(7), ""));
    let shown: Vec<_> = stderr.lines().filter(|line| line.starts_with("    ")).collect();
    assert_eq!(shown.len(), 20, "{stderr}");
    assert_eq!((shown[0], shown[19]), ("    112", "    boiled over"));
    assert!(stderr.contains("error: step 2 of 5 (cook) failed after"), "{stderr}");
    assert!(stderr.contains("with exit code 7\n"), "{stderr}");
    assert!(stderr.contains("hint: all of its output is in log\n"), "{stderr}");
}

#[test]
fn without_a_log_the_output_is_shown() {
    let output = step(&folder(), None, "echo table; echo progress >&2; exit 1").output().unwrap();
    let (code, stdout, stderr) = seen(&output);
    assert_eq!((code, stdout.as_str()), (Some(1), "table\n"));
    assert!(stderr.starts_with("2 of 5  cook: about 3 min\nprogress\nerror: "), "{stderr}");
}

#[test]
fn ci_sees_everything() {
    let dir = folder();
    let output = step(&dir, Some("log"), "echo noise").env("CI", "true").output().unwrap();
    assert_eq!(text(&output.stdout), "noise\n");
    assert!(!dir.path().join("log").exists());
}

#[test]
fn wrong_arguments_are_answered_with_the_usage() {
    let output = Command::new(SCRIPT).args(["--log", "x", "1/2", "cook"]).output().unwrap();
    let (code, _, stderr) = seen(&output);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("scripts/step --log FILE 2/5 WHAT TIME COMMAND"), "{stderr}");
}

#[test]
fn a_reader_that_has_enough_does_not_end_the_step() {
    let dir = folder();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let script = "echo noise; echo finished >file";
    let status = step(&dir, Some("log"), script).stderr(writer).status().unwrap();
    assert!(status.success());
    assert!(dir.path().join("file").exists());
}

/// Waits for the number that the step writes to `file`.
fn number_in(file: &Path) -> i32 {
    let begun = Instant::now();
    loop {
        let found = fs::read_to_string(file).unwrap_or_default();
        if let Some(line) = found.strip_suffix('\n') {
            return line.parse().unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing in {}", file.display());
        thread::sleep(Duration::from_millis(20));
    }
}

/// A dead process that nobody has asked for is not running.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_ends_the_step_and_all_that_it_started() {
    for log in [None, Some("log")] {
        let all = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
        // Under nohup(1), the step ignores what the test does.
        for (kind, code) in all.into_iter().filter(|(kind, _)| !is_ignored(*kind)) {
            let dir = folder();
            let script = "sh -c 'sleep 300 & echo $! >pid; wait'; echo not reached >late";
            let begun = Instant::now();
            let child = step(&dir, log, script).spawn().unwrap();
            let pid = number_in(&dir.path().join("pid"));
            assert!(is_running(pid));
            signal(&child, kind);
            let output = child.wait_with_output().unwrap();
            let (found, _, stderr) = seen(&output);
            assert_eq!(found, Some(code), "{stderr}");
            assert!(stderr.contains("stopped after"), "{stderr}");
            assert!(begun.elapsed() < Duration::from_secs(100));
            // The step waits for its own child; what that one started ends when it is its turn.
            while is_running(pid) {
                assert!(begun.elapsed() < Duration::from_secs(100), "{log:?} {kind:?}");
                thread::sleep(Duration::from_millis(10));
            }
            assert!(!dir.path().join("late").exists());
        }
    }
}

/// What the step shows on a terminal.
fn on_a_terminal(mut step: Command) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, vec![]).unwrap();
    let terminal = File::options().write(true).open(OsStr::from_bytes(name.to_bytes()));
    let mut child = step.stderr(terminal.unwrap()).spawn().unwrap();
    drop(step);
    let mut shown = vec![];
    // Ends with an error when nobody has the terminal any more.
    let _ = File::from(master).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    text(&shown)
}

#[test]
fn a_terminal_shows_the_time_and_the_latest_line_of_the_log() {
    let script = "printf 'stirring\\033[1m\\n'; sleep 3";
    let shown = on_a_terminal(step(&folder(), Some("log"), script));
    assert!(shown.contains(" s  stirring[1m\r"), "{shown:?}");
    let last = shown.rsplit('\r').nth(1).unwrap();
    assert!(last.starts_with("\x1b[K        done: "), "{shown:?}");
}
