// SPDX-License-Identifier: GPL-2.0-only
//! Standard output that takes no more.

use crate::support::paratick;
use std::{
    fs::OpenOptions,
    process::{Command, Output, Stdio},
};

/// `paratick model table1`, which prints some pages.
fn table1() -> Command {
    let mut command = Command::new(paratick(&[]).get_program());
    command.args(["model", "table1"]).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = table1().stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output), "");
}

#[test]
fn a_full_disk_is_one() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = table1().stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let said = said(&output);
    assert!(
        said.starts_with("error: cannot write to standard output"),
        "{said}"
    );
}
