// SPDX-License-Identifier: GPL-2.0-only
//! The way from the git tree back into `kernel/series`.

use crate::{
    kernel::{
        base::Base,
        git::{Git, Person},
        series::{Folder, COVER_LETTER, LIST},
        tree::{head, refuse_if_uncommitted, save, saved},
    },
    progress::{Events, Step},
};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Exported {
    pub dir: PathBuf,
    pub patches: Vec<String>,
}

/// Rewrites the folders of the whole stack from a tree; changes nothing when one of them is wrong.
pub fn export(base: &str, dir: &Path, events: Events) -> Result<Vec<Exported>> {
    let base = Base::in_checkout(base)?;
    let git = open(&base, dir)?;
    events(Step::WritingSeries.into());
    let mut written = vec![];
    for (from, folder) in steps(&base.stack()) {
        written.push(write(&git, &from, &folder)?);
        save(&git, &folder.name)?;
    }
    Ok(written)
}

/// Writes the series that one would mail, signed off and sent by `sender`, each to a folder of its
/// own in `to`; what is kept in the project stays as it is.
pub fn for_sending(
    base: &str,
    dir: &Path,
    sender: &Person,
    to: &Path,
    events: Events,
) -> Result<Vec<Exported>> {
    let base = Base::in_checkout(base)?;
    refuse_bad_output(&base, to)?;
    let git = open(&base, dir)?;
    events(Step::WritingSeries.into());
    let mut written = vec![];
    for (from, folder) in steps(&base.stack()).into_iter().filter(|(_, folder)| folder.mailed) {
        let dir = to.join(&folder.name);
        fs_err::create_dir_all(&dir)?;
        let mut patches = git.format_patch((&from, &folder.name), Some(sender), &dir)?;
        let letter = folder.dir.join(COVER_LETTER);
        if let Some(first) = patches.first().filter(|_| letter.exists()) {
            let patch = fs_err::read_to_string(dir.join(first))?;
            let from = patch.lines().find(|line| line.starts_with("From: ")).unwrap_or_default();
            let letter = format!("{from}\n{}", fs_err::read_to_string(letter)?);
            fs_err::write(dir.join(SENT_LETTER), letter)?;
            patches.insert(0, SENT_LETTER.into());
        }
        written.push(Exported { dir, patches });
    }
    Ok(written)
}

/// Where `git send-email` expects the cover letter: before the first patch.
const SENT_LETTER: &str = "0000-cover-letter.patch";

/// Signed patches are for mailing only, and never mix with older ones.
fn refuse_bad_output(base: &Base, to: &Path) -> Result<()> {
    let kept = base.dir.join("series").canonicalize()?;
    let there = to.ancestors().find_map(|folder| folder.canonicalize().ok());
    if there.is_some_and(|there| there.starts_with(&kept)) {
        bail!(
            "{} is where the project keeps its patches, which nobody signed off\n\
             hint: name a folder elsewhere with --output",
            to.display()
        );
    }
    if to.exists() && fs_err::read_dir(to)?.next().is_some() {
        bail!("{} is not empty\nhint: name a new folder with --output", to.display());
    }
    Ok(())
}

/// The tree, if what it has can be written.
fn open(base: &Base, dir: &Path) -> Result<Git> {
    let git = Git::at(dir);
    if !dir.join(".git").exists() || git.commit("base").is_none() {
        bail!(
            "{} is not a tree of the series: it needs a tag 'base'\n\
             hint: paratick kernel tree {} makes one",
            dir.display(),
            base.name
        );
    }
    refuse_if_uncommitted(&git, dir)?;
    let stack = base.stack();
    refuse_if_not_stacked(&git, dir, &stack)?;
    for (from, folder) in steps(&stack) {
        refuse_merges(&git, &from, &folder.name)?;
    }
    Ok(git)
}

/// Each series with what it begins on: the series below it, or the base.
fn steps(stack: &[Folder]) -> Vec<(String, Folder)> {
    let branches = stack.iter().map(|folder| folder.name.clone());
    let below = ["base".to_owned()].into_iter().chain(branches);
    below.zip(stack.iter().cloned()).collect()
}

/// Every series has a branch, and each is on top of the one below it.
fn refuse_if_not_stacked(git: &Git, dir: &Path, stack: &[Folder]) -> Result<()> {
    let mut below = "base";
    for Folder { name, dir: kept, .. } in stack {
        if git.commit(&head(name)).is_none() {
            bail!(
                "there is no branch '{name}' in {}\n\
                 hint: git checkout -b {name} {below}, then git am -3 {}/*.patch",
                dir.display(),
                kept.display()
            );
        }
        below = name;
    }
    let names: Vec<&str> = stack.iter().map(|folder| &*folder.name).collect();
    let on_top = |pair: &[&str]| git.run(["merge-base", "--is-ancestor", pair[0], pair[1]]).is_ok();
    let Some(place) = names.windows(2).position(|pair| !on_top(pair)) else { return Ok(()) };
    let (below, name) = (names[place], names[place + 1]);
    // What stands on the upper branch moves with it.
    let still = names[place + 1..].windows(2).take_while(|pair| on_top(pair));
    let top = names[place + 1 + still.count()];
    let hint = if on_top(&[&saved(below), name]) {
        format!("git rebase --update-refs --onto {below} {} {top}", saved(below))
    } else {
        format!(
            "git branch --force {below} COMMIT, the last commit of '{below}' in '{name}'; \
             git rebase --update-refs moves it by itself"
        )
    };
    bail!("branch '{name}' is not on top of '{below}' in {}\nhint: {hint}", dir.display());
}

fn write(git: &Git, from: &str, folder: &Folder) -> Result<Exported> {
    let dir = folder.dir.clone();
    let parent = dir.parent().context("no folder for the patches")?;
    fs_err::create_dir_all(parent)?;
    let new = tempfile::Builder::new().prefix(".export-").tempdir_in(parent)?;
    let patches = git.format_patch((from, &folder.name), None, new.path())?;
    let list: String = patches.iter().map(|name| format!("{name}\n")).collect();
    fs_err::write(new.path().join(LIST), list)?;
    let letter = dir.join(COVER_LETTER);
    if letter.exists() {
        fs_err::copy(&letter, new.path().join(COVER_LETTER))?;
    }
    if !dir.exists() {
        fs_err::create_dir(&dir)?;
    }
    for entry in fs_err::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !new.path().join(&name).exists() && name.to_string_lossy().ends_with(".patch") {
            fs_err::remove_file(entry.path())?;
        }
    }
    for name in patches.iter().map(String::as_str).chain([LIST]) {
        fs_err::rename(new.path().join(name), dir.join(name))?;
    }
    Ok(Exported { dir, patches })
}

fn refuse_merges(git: &Git, from: &str, branch: &str) -> Result<()> {
    let range = format!("{from}..{branch}");
    let merges = git.run(["rev-list", "--merges", &range])?;
    if !merges.is_empty() {
        bail!(
            "{range} has a merge, which a series cannot have: {merges}\n\
            hint: git rebase {from} {branch}"
        );
    }
    Ok(())
}
