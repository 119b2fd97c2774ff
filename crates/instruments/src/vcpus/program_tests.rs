// SPDX-License-Identifier: GPL-2.0-only
//! The BPF programs as functions of user space.

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
