// SPDX-License-Identifier: GPL-2.0-only
//! A program of the user's own is run on the machine before anything is built or booted.

use crate::support::paratick;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A bench that could boot nothing: its cache is empty, and its agent is none.
fn sequential(cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(paratick(&[]).get_program());
    command
        .args(["bench", "sequential"])
        .args(args)
        .env("PARATICK_CACHE", cache)
        .env("PARATICK_AGENT", "/bin/true")
        .env("PARATICK_QEMU", "/no/such/qemu");
    command
}

fn fails(args: &[&str]) -> String {
    let cache = TempDir::new().unwrap();
    let output = sequential(cache.path(), args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(output.stdout.is_empty());
    let left = fs::read_dir(cache.path().join("programs"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
    said
}

/// Where strace is missing or may not trace, guests prepare themselves.
fn traces() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let traces = traced.is_ok_and(|status| status.success());
    if !traces {
        println!("NOT CHECKED: this machine does not let strace trace");
    }
    traces
}

#[test]
fn one_that_fails_or_takes_too_long_ends_the_bench_with_its_output_and_a_hint() {
    if !traces() {
        return;
    }
    let said = fails(&["--program", "bad=echo no luck >&2; exit 3"]);
    assert!(said.contains("unknown time for bad"), "{said}");
    assert!(
        said.contains("running bad once on this machine") && said.contains("for 120 s at most")
    );
    assert!(said.contains("preparing bad: it ended with exit status: 3"), "{said}");
    assert!(said.contains("no luck\nhint: "), "{said}");
    let said = fails(&["--program", "slow=sleep 100", "--prepare-limit", "1s"]);
    assert!(said.contains("did not end within 1 s") && said.contains("--no-prepare"), "{said}");
}

#[test]
fn without_preparation_it_is_not_run_on_the_machine() {
    let folder = TempDir::new().unwrap();
    let here = folder.path().join("was-here");
    let program = format!("touch=touch {}", here.display());
    let said = fails(&["--program", &program, "--no-prepare"]);
    assert!(said.contains("/no/such/qemu") && !said.contains("once on this machine"), "{said}");
    assert!(!here.exists());
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    if !traces() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let program = format!("slow=echo $$ >{0}.new; mv {0}.new {0}; sleep 1000; true", pid.display());
    let cache = folder.path().join("cache");
    let mut bench =
        sequential(&cache, &["--program", &program]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(bench.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("running slow once")));
    let begun = Instant::now();
    let wait = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&|| pid.exists());
    let bench_id = bench.id().to_string();
    let killed = Command::new("kill").args(["-INT", &bench_id]).status();
    assert!(killed.unwrap().success());
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    let child = fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", child.trim());
    wait(&|| fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    assert_eq!(fs::read_dir(cache.join("programs")).unwrap().count(), 0);
}
