// SPDX-License-Identifier: GPL-2.0-only
//! docs/papers.md, made of docs/papers.toml.  What an item names must exist, and each of our
//! numbers must stand in a section that the item links to, or in a file of a table.

use crate::{
    evaluated,
    files::{self, File},
    generated::{median, table},
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use strum::{Display, EnumIter, IntoEnumIterator};

const PAGE: &str = "docs/papers.md";
const DATA: &str = "docs/papers.toml";
/// Outside of the tables.
const MOST_WORDS: usize = 1200;

#[derive(Deserialize, Clone, Copy, PartialEq, Display, EnumIter)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum State {
    Done,
    Half,
    Missing,
    Contradicted,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    /// Unique; not on the page.
    id: String,
    /// What the paper says, and where.
    item: String,
    state: State,
    /// Commands, modes, tests, and patches as `series` NNNN.
    #[serde(default, rename = "where")]
    place: String,
    /// Sections, by links from docs/.
    #[serde(default)]
    measured: Vec<String>,
    #[serde(default)]
    printed: String,
    /// Our numbers, or why there are none; `{quick sleep paratick}` is one of a table's file, and
    /// `{io average paratick tickless-stop time}` a change.
    ours: String,
}

fn papers() -> BTreeMap<String, Vec<Item>> {
    toml::from_str(&files::read(DATA)).unwrap_or_else(|error| panic!("{DATA}: {error}"))
}

/// How many items of each paper are in which state.
pub fn counts() -> String {
    let all = papers();
    let row = |name: &str, items: &[&Item]| {
        let of = |state| items.iter().filter(|item| item.state == state).count().to_string();
        let states: Vec<_> = State::iter().map(of).collect();
        format!("| {name} | {} | {} |", items.len(), states.join(" | "))
    };
    let names = State::iter().map(|state| state.to_string()).collect::<Vec<_>>().join(" | ");
    let head = format!("| paper | items | {names} |\n|---|---|---|---|---|---|");
    let papers = all.iter().map(|(name, items)| row(name, &items.iter().collect::<Vec<_>>()));
    let sum = row("all", &all.values().flatten().collect::<Vec<_>>());
    table(&head, papers.chain([sum]))
}

pub fn items(paper: &str) -> String {
    let files = files::all();
    let rows = papers().remove(paper).unwrap_or_else(|| panic!("{DATA}: no {paper}"));
    let rows = rows.into_iter().map(|item| {
        let links: Vec<_> = item.measured.iter().map(|link| named(link, &files)).collect();
        let links =
            if links.is_empty() { links.join("") } else { format!(" ({})", links.join(", ")) };
        let ours = filled(&item.ours) + &links;
        let cells = [item.item, item.state.to_string(), item.place, item.printed, ours];
        format!("| {} |", cells.join(" | "))
    });
    let head = "| the paper has | state | where | printed | ours, or why not (measured where) |";
    table(&format!("{head}\n|---|---|---|---|---|"), rows)
}

/// The link, if it leads somewhere, with the name of the page as its text.
fn named(link: &str, files: &[File]) -> String {
    let (file, _) = target(link, files);
    let name = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
    format!("[{}]({link})", name.trim_start_matches("2026-11-"))
}

fn target<'a>(link: &str, files: &'a [File]) -> (&'a File, Option<&'a str>) {
    let page = File { path: PAGE.into(), text: String::new() };
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = page.target(path);
    let file = files.iter().find(|file| file.path == path);
    let file = file.unwrap_or_else(|| panic!("{DATA}: {link} leads to no file"));
    let line = file.heading(heading);
    assert!(heading.is_empty() || line.is_some(), "{DATA}: {link} leads to no heading");
    (file, line)
}

fn filled(ours: &str) -> String {
    let mut parts = ours.split('{');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once('}').expect("a number's name ends");
        let number = match name.split(' ').collect::<Vec<_>>()[..] {
            [file, workload, mode] => median(file, workload, mode),
            [file, workload, mode, baseline, figure] => {
                evaluated::named([file, workload, mode, baseline, figure])
            }
            _ => panic!("{DATA}: {{{name}}} is no number of a table"),
        };
        text += &(number + rest);
    }
    text
}

/// With their signs, and without the spaces between thousands.
fn numbers(text: &str) -> BTreeSet<String> {
    let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let mut found = BTreeSet::new();
    let mut number = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let between = !number.is_empty() && is_digit(at + 1);
        let thousands = (1..=3).all(|next| is_digit(at + next)) && !is_digit(at + 4);
        match c {
            '0'..='9' => number.push(c),
            '.' if between => number.push(c),
            ' ' if between && thousands => {}
            _ => {
                found.insert(std::mem::take(&mut number));
                if "−+×".contains(c) {
                    number.push(c);
                }
            }
        }
    }
    found.insert(number);
    found.retain(|number| number.contains(|c: char| c.is_ascii_digit()));
    found
}

/// What stands between backticks, each with the word after it.
fn quoted(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    let pair = |at: usize| {
        let after = parts.get(at + 1).and_then(|rest| rest.split_whitespace().next());
        (parts[at], after.unwrap_or_default())
    };
    (1..parts.len()).step_by(2).map(pair).collect::<Vec<_>>().into_iter()
}

#[test]
fn our_numbers_stand_where_they_are_said_to() {
    let files = files::all();
    let mut wrong = Vec::new();
    for item in papers().values().flatten() {
        let stands = item.measured.iter().flat_map(|link| {
            let (file, heading) = target(link, &files);
            numbers(&file.section(heading))
        });
        let stands: BTreeSet<_> = stands.collect();
        let without =
            item.ours.split('{').map(|part| part.split_once('}').map_or(part, |(_, r)| r));
        for number in numbers(&without.collect::<String>()) {
            if !stands.contains(&number) {
                wrong.push(format!("{}: {number} is in none of {:?}", item.id, item.measured));
            }
        }
    }
    assert!(wrong.is_empty(), "{DATA}:\n{}", wrong.join("\n"));
}

#[test]
fn what_an_item_names_exists() {
    let all = files::all();
    let others: Vec<&File> =
        all.iter().filter(|file| !file.path.starts_with("docs/papers")).collect();
    let (mut ids, mut wrong) = (BTreeSet::new(), Vec::new());
    for item in papers().values().flatten() {
        assert!(ids.insert(&item.id), "{DATA}: {} twice", item.id);
        let is_there = item.state == State::Missing || !item.place.is_empty();
        assert!(is_there, "{DATA}: {} is {} nowhere", item.id, item.state);
        // The command lines have a test of their own.
        for (name, after) in quoted(&item.place).filter(|(name, _)| !name.starts_with("paratick "))
        {
            let patch =
                format!("kernel/series/{name}/6.12/{}-", after.trim_end_matches([',', ';', ':']));
            let exists = match after.starts_with("00") {
                true => others.iter().any(|file| file.path.starts_with(&patch)),
                false => others.iter().any(|file| file.text.contains(name)),
            };
            if !exists {
                wrong.push(format!("{}: `{name}` {after}", item.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{DATA} names what does not exist:\n{}", wrong.join("\n"));
}

#[test]
fn the_page_has_few_words_outside_of_its_tables() {
    let text = files::read(PAGE);
    let words = text.lines().filter(|line| !line.starts_with('|')).flat_map(str::split_whitespace);
    let words = words.count();
    assert!(words <= MOST_WORDS, "{words} words");
}

#[test]
fn a_number_is_taken_with_its_sign_and_as_a_whole() {
    let found = numbers("−37 % [−38 to 2.5], 12 438 of `6.12`, ×6.46 in 2026.");
    let expected = ["−37", "−38", "2.5", "12438", "×6.46", "2026"];
    assert_eq!(found, expected.map(String::from).into());
    assert!(!numbers("137 %").contains("37"));
}
