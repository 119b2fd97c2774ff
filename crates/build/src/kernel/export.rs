// SPDX-License-Identifier: GPL-2.0-only
//! The way from the git tree back into `kernel/series`.

use crate::{
    kernel::{
        base::Base,
        git::Git,
        series::{Folder, COVER_LETTER, LIST},
        tree::{head, refuse_if_uncommitted, save, saved},
    },
    progress::{Events, Step},
};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// What was written by [`export`].
#[derive(Debug)]
pub struct Exported {
    pub dir: PathBuf,
    pub patches: Vec<String>,
}

/// Rewrites the folders of the whole stack from a tree; changes nothing when one of them is wrong.
pub fn export(base: &str, dir: &Path, events: Events) -> Result<Vec<Exported>> {
    let base = Base::in_checkout(base)?;
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
    let branches = stack.iter().map(|folder| &*folder.name);
    let below: Vec<&str> = ["base"].into_iter().chain(branches).collect();
    for (from, folder) in below.iter().zip(&stack) {
        refuse_bad_commits(&git, from, &folder.name)?;
    }
    events(Step::WritingSeries.into());
    let mut written = vec![];
    for (from, folder) in below.iter().zip(stack.iter()) {
        written.push(write(&git, from, &folder.name, folder.dir.clone())?);
        save(&git, &folder.name)?;
    }
    Ok(written)
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
    let Some(place) = names.windows(2).position(|pair| !on_top(pair)) else {
        return Ok(());
    };
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

fn write(git: &Git, from: &str, branch: &str, dir: PathBuf) -> Result<Exported> {
    let parent = dir.parent().context("no folder for the patches")?;
    fs_err::create_dir_all(parent)?;
    let new = tempfile::Builder::new().prefix(".export-").tempdir_in(parent)?;
    let patches = git.format_patch(&format!("{from}..{branch}"), new.path())?;
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

/// Patches are linear, and signed off by the one who wrote them: a machine's own identity must not
/// slip in.
fn refuse_bad_commits(git: &Git, from: &str, branch: &str) -> Result<()> {
    let range = format!("{from}..{branch}");
    let merges = git.run(["rev-list", "--merges", &range])?;
    if !merges.is_empty() {
        bail!(
            "{range} has a merge, which a series cannot have: {merges}\n\
            hint: git rebase {from} {branch}"
        );
    }
    let commits = git.run(["rev-list", "--reverse", &range])?;
    for commit in commits.lines() {
        let author = git.run(["log", "-1", "--format=%an <%ae>", commit])?;
        let body = git.run(["log", "-1", "--format=%B", commit])?;
        let wanted = format!("Signed-off-by: {author}");
        if !body.lines().any(|line| line == wanted) {
            let subject = git.run(["log", "-1", "--format=%s", commit])?;
            bail!(
                "'{subject}' is by {author}, who did not sign it off\n\
                 hint: git commit --amend --signoff, with --author= if the author is wrong"
            );
        }
    }
    Ok(())
}
