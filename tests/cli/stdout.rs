// SPDX-License-Identifier: GPL-2.0-only
//! Standard output that takes no more.

use crate::support::{bzimage, paratick, Checkout};
use std::{
    fs::{self, OpenOptions},
    os::{fd::OwnedFd, unix::net::UnixStream},
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

/// Of which nobody reads the other end.
fn unread() -> OwnedFd {
    UnixStream::pair().unwrap().1.into()
}

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded.json");

#[test]
fn no_verb_panics_where_nobody_reads() {
    let checkout = Checkout::new();
    let kernel = checkout.path("bzImage");
    fs::write(&kernel, bzimage("")).unwrap();
    for line in [
        "--help",
        "--version",
        "help",
        "bench quick --help",
        "bench show RECORDED",
        "bench show RECORDED --format json",
        "bench quick --no-such-option",
        "compare RECORDED RECORDED",
        "compare RECORDED /no/such/file",
        "doctor",
        "doctor --format json",
        "emulator status",
        "kernel check --quick",
        "kernel tree",
        "lab run --dry-run --kernel KERNEL -- true",
        "lab run -- no-such-command",
        "model",
        "model table1 --format json",
        "model --from RECORDED",
        "report RECORDED --output /no/such/folder/page.html",
    ] {
        let words = line.split(' ').map(|word| match word {
            "RECORDED" => RECORDED.to_string(),
            "KERNEL" => kernel.display().to_string(),
            word => word.to_string(),
        });
        let words: Vec<_> = words.collect();
        let run = || {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let prepared = checkout.paratick(&words);
            let mut command = Command::new(prepared.get_program());
            let set = |(name, value): (_, Option<_>)| Some((name, value?));
            command.args(&words).envs(prepared.get_envs().filter_map(set));
            command.env("PARATICK_QEMU", "/bin/true").env("PARATICK_AGENT", "/bin/true");
            command
        };
        let heard = run().output().unwrap().status.code();
        let output = run().stdout(unread()).output().unwrap();
        assert!(!said(&output).contains("panicked"), "{line}: {}", said(&output));
        assert_eq!(output.status.code(), heard, "{line}");
        let unheard = run().stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(unheard.code(), heard, "{line}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let output = table1().stdout(unread()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output), "");
}

#[test]
fn a_full_disk_is_one() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = table1().stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    let said = said(&output);
    assert!(said.starts_with("error: cannot write to standard output"), "{said}");
}
