// SPDX-License-Identifier: GPL-2.0-only
//! Every command line that a document, a hint or the help shows is one that `paratick` takes.

use crate::files::{self, File};
use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

/// Words of a text that are not part of the command line.
const ENDS: [&str; 9] = ["--", "|", ">", ">>", "<", "2>", "#", "&&", ";"];

/// The command lines in a document: in blocks of code, and between backticks.
fn shown(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    if file.path.ends_with(".md") {
        // The first line keeps what makes it one of a block.
        let mut parts = file.text.split("\\\n");
        let first = parts.next().unwrap_or_default().to_string();
        let whole = parts.fold(first, |text, part| text + part.trim_start());
        let blocks = whole.lines().filter_map(|line| line.strip_prefix("    "));
        found.extend(blocks.filter_map(command));
    }
    found.extend(quoted(&file.text));
    found
}

fn quoted(text: &str) -> Vec<String> {
    // What a source breaks into lines, its reader sees as one.
    let mut lines = text.lines().map(|line| {
        let line = line.trim_start();
        line.trim_start_matches("///").trim_start_matches("//!").trim_end_matches("\\n\\").trim()
    });
    let text = lines.by_ref().collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = text.split('`').collect();
    parts.iter().filter_map(|part| command(part)).collect()
}

/// What follows the program's name, if it is the first word.
fn command(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("# ");
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let rest = line.strip_prefix("bin/").unwrap_or(line).strip_prefix("paratick ")?;
    // A sentence, or a name that the source fills in.
    let is_command =
        rest.starts_with(|c: char| c.is_ascii_lowercase()) && !rest.contains(['{', '…']);
    is_command.then(|| rest.to_string())
}

/// None if `paratick` would take it; else what it says.
fn refused(line: &str) -> Option<String> {
    let words = words(line);
    let program = assert_cmd::cargo::cargo_bin("paratick");
    // Everything before --help is read, and nothing is run; what would run all the same has no
    // place for its files.
    let mut command = Command::new(program);
    command.args(&words).arg("--help").env("PARATICK_CACHE", "/dev/null").stdin(Stdio::null());
    let output = command.output().expect("paratick");
    let said = String::from_utf8_lossy(&output.stderr);
    let wrong = (!output.status.success()).then(|| said.lines().next().unwrap_or("").to_string());
    // A word in capitals stands for others.
    let names_none = |said: &String| {
        let name = said.split('\'').nth(1).unwrap_or_default();
        name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase()) || name == "N"
    };
    wrong.filter(|said| !names_none(said))
}

/// Up to a comment, a pipe, or a guest's own command.
fn words(line: &str) -> Vec<String> {
    let line = line.split("  ").next().unwrap_or_default();
    let mut words = Vec::new();
    let mut quoted = line.split(['\'', '"']);
    while let Some(plain) = quoted.next() {
        for word in plain.split_ascii_whitespace() {
            if ENDS.contains(&word) {
                return words;
            }
            // `[=RULE]`, and a sentence's end.
            words.push(word.trim_matches(|c| "[],.\"".contains(c)).to_string());
        }
        words.extend(quoted.next().map(String::from));
    }
    words
}

#[test]
fn every_command_line_that_is_shown_is_taken() {
    let mut all = BTreeSet::new();
    for file in files::all() {
        let texts = [".md", ".rs", "Makefile"];
        let is_ours = texts.iter().any(|end| file.path.ends_with(end));
        if is_ours && !file.path.starts_with("tests/") && file.path != "CHANGELOG.md" {
            all.extend(shown(&file).into_iter().map(|line| (line, file.path.clone())));
        }
    }
    assert!(all.len() > 100, "{} command lines were found", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|(line, path)| Some(format!("{path}: paratick {line}: {}", refused(line)?)))
        .collect();
    assert!(wrong.is_empty(), "{} are not taken:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_command_line_that_is_none_is_noticed() {
    assert!(refused("tune --save").is_some());
    assert!(refused("lab run --no-such-option -- true").is_some());
    assert!(refused("bench show FILE").is_none());
    assert_eq!(quoted("so `paratick lab\n    run` boots"), ["lab run"]);
    assert_eq!(command("bin/paratick bench quick"), Some("bench quick".into()));
    assert_eq!(command("paratick's lab"), None);
}
