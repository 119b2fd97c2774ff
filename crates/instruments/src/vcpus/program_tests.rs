// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs as functions of user space, and as text.

use std::{path::Path, process::Command};

#[test]
fn what_becomes_of_threads_and_clocks_changes_no_count() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/away");
    let program = Path::new(env!("OUT_DIR")).join("away");
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Werror", "-Wno-unused", "-fsanitize=address,undefined"])
        .args(["-fno-sanitize-recover", "-o"])
        .arg(&program)
        .arg(folder.join("main.c"))
        .output()
        .expect("a C compiler: scripts/bootstrap installs one");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
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
