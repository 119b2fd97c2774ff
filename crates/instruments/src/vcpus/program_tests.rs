// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs as functions of user space, and as text.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// tests/away, compiled.
fn away(name: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/away");
    let program = Path::new(env!("OUT_DIR")).join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Werror", "-Wno-unused", "-o"])
        .arg(&program)
        .args(options)
        .arg(folder.join("main.c"))
        .output()
        .expect("a C compiler: scripts/bootstrap installs one");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

#[test]
fn what_becomes_of_threads_and_clocks_changes_no_count() {
    let checks = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"];
    let run = Command::new(away("away", &checks)).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// The same functions as the host's kernel runs, without a kernel: its maps and counts neither grow
/// nor run over, and each exit is counted.
#[test]
#[ignore = "2 minutes"]
fn a_thousand_million_exits_of_1500_vms_are_counted_and_nothing_grows() {
    let run = Command::new(away("many", &["-O2"])).arg("1000000000").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let seen: u64 = String::from_utf8(run.stdout).unwrap().trim().parse().unwrap();
    assert!(seen >= 1_000_000_000, "{seen}");
}

/// perf records no event, for nobody, where a program of its tracepoint returns 0.
#[test]
fn no_program_hides_its_event_from_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let mut programs = 0;
    for file in fs_err::read_dir(folder).unwrap() {
        let text = fs_err::read_to_string(file.unwrap().path()).unwrap();
        for program in text.split("SEC(\"tracepoint/").skip(1) {
            let (body, _) = program.split_once("\n}\n").unwrap();
            let returns: Vec<_> = body.lines().filter(|line| line.contains("return ")).collect();
            let records = |line: &&str| line.trim() == "return RECORD_TOO;";
            assert!(!returns.is_empty() && returns.iter().all(records), "{body}");
            programs += 1;
        }
    }
    assert!(programs > 30, "{programs}");
}
