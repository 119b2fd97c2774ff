// SPDX-License-Identifier: GPL-2.0-only
//! The documents and the form of all texts: tables that are generated from the code, links,
//! lengths.

mod commands;
mod evaluated;
mod figures;
mod files;
mod generated;
mod idle;
mod ipis;
mod kept;
mod noise;
mod papers;
mod polls;
mod schema;
mod shown;
mod swept;
mod tested;
mod would;

use files::File;

const COLUMNS: usize = 100;

/// Whose lines nobody breaks: kernel patches, foreign texts, recorded data and output.
const NOT_OURS: [&str; 8] =
    [".patch", ".json", ".trace", ".snap", ".svg", ".trycmd", "LICENSE", "Cargo.lock"];

#[test]
fn no_line_is_longer_than_100_columns() {
    let ours = |file: &&File| !NOT_OURS.iter().any(|end| file.path.ends_with(end));
    let mut long = Vec::new();
    for file in files::all().iter().filter(ours) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let columns = line.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum::<usize>();
            // An address cannot be broken, nor a row that is made of a file of short lines.
            let is_row = file.path == "docs/papers.md" && line.starts_with('|');
            if columns > COLUMNS && !is_row && !line.contains("https://") {
                long.push(format!("{}:{number}: {columns} columns", file.path));
            }
        }
    }
    assert!(long.is_empty(), "{} lines are too long:\n{}", long.len(), long.join("\n"));
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let files = files::all();
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for link in file.links() {
            if !link.contains("://") && !file.leads(link, &files) {
                broken.push(format!("{}: {link}", file.path));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_readme_has_60_to_80_lines() {
    let lines = files::read("README.md").lines().count();
    assert!((60..=80).contains(&lines), "{lines} lines");
}
