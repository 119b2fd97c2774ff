// SPDX-License-Identifier: GPL-2.0-only
//! Man pages and completions, as packages have them.

use crate::support::paratick;
use std::{fs, path::Path};
use tempfile::TempDir;

/// What the help of these words lists as commands.
fn verbs(words: &[&str]) -> Vec<String> {
    let output = paratick(words).arg("-h").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let Some((_, list)) = help.split_once("Commands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let lines = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    lines.filter(|verb| !["", "help"].contains(verb)).map(String::from).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A page for these words, which explains this.
fn check_page(folder: &Path, words: &[&str], text: &str) {
    let name = [&["paratick"], words].concat().join("-");
    let page = read(&folder.join(format!("man/{name}.1"))).replace('\\', "");
    assert!(page.contains(text) && page.contains(".SH SYNOPSIS"), "{name}: {page}");
}

#[test]
fn each_verb_has_a_man_page_and_is_completed() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    paratick(&["generate"]).arg(folder).assert().success().stdout("");
    let files = ["bash/paratick.bash", "zsh/_paratick", "fish/paratick.fish"];
    let shells = files.map(|file| read(&folder.join(file)));
    let verbs_of_all = verbs(&[]);
    assert!(verbs_of_all.len() > 10 && !verbs_of_all.contains(&"generate".into()));
    for verb in &verbs_of_all {
        check_page(folder, &[], &format!("paratick-{verb}(1)"));
        check_page(folder, &[verb], &format!("paratick {verb}"));
        let words = verbs(&[verb]);
        for word in &words {
            check_page(folder, &[verb, word], &format!("paratick {verb} {word}"));
        }
        for shell in &shells {
            assert!(shell.contains(verb), "{verb}");
            assert!(words.iter().all(|word| shell.contains(word)), "{verb}");
        }
    }
    check_page(folder, &["exits"], "CAP_DAC_READ_SEARCH");
    check_page(folder, &["lab", "halts"], "--halt-poll");
    assert!(shells.iter().all(|shell| !shell.contains("generate")));
}
