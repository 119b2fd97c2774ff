// SPDX-License-Identifier: GPL-2.0-only
//! The git tree in which the stack of series is worked on.
//!
//! Tag `base` is Debian's source.  Each series is a branch on top of the one below it.
//! `refs/paratick/saved/BRANCH` is what its folder of patches holds: work beyond it is never
//! overwritten.

use crate::{
    cache,
    kernel::{
        base::{Base, Source},
        git::Git,
        series::{Patch, Stack},
        source,
    },
    progress::{Events, Step},
};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// Where a base's tree is unless the user says otherwise.
pub fn default_dir(base: &str) -> Result<PathBuf> {
    Ok(cache::dir()?.join("tree").join(base))
}

/// Makes (or makes anew) a tree with the whole stack; the last series that one would mail is
/// checked out.
pub fn create(base: &str, dir: &Path, events: Events) -> Result<()> {
    let base = Base::in_checkout(base)?;
    let source = base.source(events)?;
    let stack = Stack::read(base.stack())?;
    let git = Git::at(dir);
    if dir.join(".git").exists() {
        refuse_if_unsaved(&git, dir)?;
        refuse_if_foreign(&git, dir, &source)?;
        forget(&git)?;
    } else {
        unpack_as_commit(&source, dir, events)?;
    }
    // A rebase of the upper branches then moves those that it passes.
    git.run(["config", "rebase.updateRefs", "true"])?;
    for series in &stack.0 {
        let name = &series.folder.name;
        events(Step::ApplyingSeries { series: name }.into());
        git.run(["checkout", "--quiet", "-B", name])?;
        for patch in &series.patches {
            apply(&git, dir, &source, patch)?;
        }
        save(&git, name)?;
    }
    match base.series.last() {
        Some(name) => git.run(["checkout", "--quiet", name]).map(drop),
        None => Ok(()),
    }
}

fn unpack_as_commit(source: &Source, dir: &Path, events: Events) -> Result<()> {
    if dir.exists() && fs_err::read_dir(dir)?.next().is_some() {
        bail!(
            "{} exists and is not a git tree\nhint: name another folder with --dir",
            dir.display()
        );
    }
    let parent = dir.parent().context("a tree needs a folder to be in")?;
    fs_err::create_dir_all(parent)?;
    let _lock = source::lock(
        &format!("tree-{}", cache::key([dir.as_os_str().as_encoded_bytes()])),
        events,
    )?;
    if dir.exists() {
        fs_err::remove_dir(dir)?;
    }
    let tarball = &source.base.tarball;
    events(Step::UnpackingKernel { tarball }.into());
    source::build_into(dir, |part| {
        source::unpack(source, part)?;
        events(Step::CommittingBase.into());
        Git::at(part).init(&base_message(source))
    })
}

/// The base commit is the same on every machine that has the same tarball.
fn base_message(source: &Source) -> String {
    format!(
        "{} {}\n\nThe source as Debian ships it.\n\nsha256 of the tarball: {}",
        source.base.package,
        source.version.as_deref().unwrap_or("(version unknown)"),
        source.sha256
    )
}

fn apply(git: &Git, dir: &Path, source: &Source, patch: &Patch) -> Result<()> {
    if let Err(error) = git.am(&patch.path) {
        bail!(
            "{patch} does not apply to {} {}: {error:#}\n\
             hint: in {}: git am -3 {}, and so on; kernel/README.md has the rest",
            source.base.package,
            source.version.as_deref().unwrap_or(&source.sha256),
            dir.display(),
            patch.path.display()
        );
    }
    Ok(())
}

/// Removes the branches that the folders hold, also those of series that the stack lost.
fn forget(git: &Git) -> Result<()> {
    git.run(["checkout", "--quiet", "--force", "--detach", "base"])?;
    for name in saved_names(git)? {
        if git.commit(&head(&name)).is_some() {
            git.run(["branch", "--quiet", "-D", &name])?;
        }
        git.run(["update-ref", "-d", &saved(&name)])?;
    }
    Ok(())
}

fn refuse_if_unsaved(git: &Git, dir: &Path) -> Result<()> {
    refuse_if_uncommitted(git, dir)?;
    for name in saved_names(git)? {
        let now = git.commit(&head(&name));
        if now.is_some() && now != git.commit(&saved(&name)) {
            bail!(
                "branch '{name}' in {} has work that was not exported\n\
                 hint: run paratick kernel export, or move the tree elsewhere",
                dir.display()
            );
        }
    }
    let others = git.run([
        "rev-list",
        "--count",
        "--branches",
        "--not",
        "base",
        "--glob=refs/paratick/saved/*",
    ])?;
    if others != "0" {
        bail!(
            "{} has {others} commits on other branches, which belong to no series\n\
             hint: bring them onto the branch of a series and export, or move the tree away",
            dir.display()
        );
    }
    Ok(())
}

pub fn refuse_if_uncommitted(git: &Git, dir: &Path) -> Result<()> {
    let dirty = git.run(["status", "--porcelain"])?;
    if !dirty.is_empty() {
        bail!(
            "{} has uncommitted work:\n{dirty}\n\
             hint: commit it there (git commit --amend for a patch of the series), or git stash",
            dir.display()
        );
    }
    Ok(())
}

fn refuse_if_foreign(git: &Git, dir: &Path, source: &Source) -> Result<()> {
    let message = git.run(["log", "-1", "--format=%B", "base"])?;
    if !message.contains(&source.sha256) {
        bail!(
            "{} was made from another source than {}\n\
             hint: move it elsewhere, or name another folder with --dir",
            dir.display(),
            source.base.tarball.display()
        );
    }
    Ok(())
}

fn saved_names(git: &Git) -> Result<Vec<String>> {
    let names = git.run(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/paratick/saved"])?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// Notes that the folder holds what the branch is.
pub fn save(git: &Git, branch: &str) -> Result<()> {
    git.run(["update-ref", &saved(branch), &head(branch)]).map(drop)
}

pub fn head(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

pub fn saved(branch: &str) -> String {
    format!("refs/paratick/saved/{branch}")
}
