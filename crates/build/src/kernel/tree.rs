// SPDX-License-Identifier: GPL-2.0-only
//! The git tree in which the series is worked on, and the way back into `kernel/patches`.
//!
//! Tag `base` is Debian's source, branch `paratick` the series, branch `lab` what only the lab adds on top.
//! `refs/paratick/saved/BRANCH` is what the folders of patches hold: work beyond it is never overwritten.

use crate::{
    cache,
    kernel::{
        base::{Base, Source},
        git::Git,
        series::{Series, COVER_LETTER, LIST},
        source,
    },
    progress::{Event, Events},
};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

const SERIES: &str = "paratick";
const LAB: &str = "lab";

/// What was written by [`export`].
#[derive(Debug)]
pub struct Exported {
    pub dir: PathBuf,
    pub patches: Vec<String>,
}

/// Where a base's tree is unless the user says otherwise.
pub fn default_dir(base: &str) -> Result<PathBuf> {
    Ok(cache::dir()?.join("tree").join(base))
}

/// Makes (or makes anew) a tree with the series applied; with `lab`, also the lab's patches on a branch on top.
pub fn create(base: &str, dir: &Path, lab: bool, events: Events) -> Result<()> {
    let base = Base::load(base)?;
    let source = base.source(events)?;
    let git = Git::at(dir);
    if dir.join(".git").exists() {
        refuse_if_unsaved(&git, dir)?;
        refuse_if_foreign(&git, dir, &source)?;
    } else {
        unpack_as_commit(&source, dir, events)?;
    }
    events(Event::Step("applying the series".into()));
    git.run(["checkout", "--quiet", "--force", "-B", SERIES, "base"])?;
    apply(&git, &source, &Series::read(&base.patches()?)?)?;
    save(&git, SERIES)?;
    if lab {
        git.run(["checkout", "--quiet", "-B", LAB])?;
        apply(&git, &source, &Series::read(&base.lab_patches()?)?)?;
        save(&git, LAB)?;
        git.run(["checkout", "--quiet", SERIES])?;
    } else if git.commit(&head(LAB)).is_some() {
        git.run(["branch", "--quiet", "-D", LAB])?;
        git.run(["update-ref", "-d", &saved(LAB)])?;
    }
    Ok(())
}

/// Rewrites the folders of patches from a tree.
pub fn export(base: &str, dir: &Path, events: Events) -> Result<Vec<Exported>> {
    let base = Base::load(base)?;
    let git = Git::at(dir);
    if !dir.join(".git").exists()
        || git.commit("base").is_none()
        || git.commit(&head(SERIES)).is_none()
    {
        bail!(
            "{} is not a tree of the series: it needs a tag 'base' and a branch '{SERIES}'\nhint: paratick kernel tree {} makes one",
            dir.display(),
            base.name
        );
    }
    refuse_if_uncommitted(&git, dir)?;
    let mut written = vec![];
    events(Event::Step("writing the series".into()));
    refuse_bad_commits(&git, "base", SERIES)?;
    written.push(write(&git, "base", SERIES, base.patches()?)?);
    if git.commit(&head(LAB)).is_some() {
        if git
            .run(["merge-base", "--is-ancestor", SERIES, LAB])
            .is_err()
        {
            bail!(
                "branch '{LAB}' is not on top of '{SERIES}' in {}\nhint: git rebase --onto {SERIES} {} {LAB}; git checkout {SERIES}",
                dir.display(),
                saved(SERIES)
            );
        }
        refuse_bad_commits(&git, SERIES, LAB)?;
        written.push(write(&git, SERIES, LAB, base.lab_patches()?)?);
        save(&git, LAB)?;
    }
    save(&git, SERIES)?;
    Ok(written)
}

fn unpack_as_commit(source: &Source, dir: &Path, events: Events) -> Result<()> {
    if dir.exists() && fs_err::read_dir(dir)?.next().is_some() {
        bail!(
            "{} is there already and is no git tree\nhint: name another folder with --dir",
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
    events(Event::Step(format!(
        "unpacking {}",
        source.base.tarball.display()
    )));
    source::build_into(dir, |part| {
        source::unpack(source, part)?;
        events(Event::Step("committing the base (about a minute)".into()));
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

fn apply(git: &Git, source: &Source, series: &Series) -> Result<()> {
    for patch in &series.patches {
        git.am(&patch.path).with_context(|| {
            format!(
                "{} does not apply to {} {}",
                patch.name,
                source.base.package,
                source.version.as_deref().unwrap_or(&source.sha256)
            )
        })?;
    }
    Ok(())
}

fn write(git: &Git, from: &str, branch: &str, dir: PathBuf) -> Result<Exported> {
    let parent = dir.parent().context("no folder for the patches")?;
    fs_err::create_dir_all(parent)?;
    let new = tempfile::Builder::new()
        .prefix(".export-")
        .tempdir_in(parent)?;
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

fn refuse_if_unsaved(git: &Git, dir: &Path) -> Result<()> {
    refuse_if_uncommitted(git, dir)?;
    for branch in [SERIES, LAB] {
        let now = git.commit(&head(branch));
        if now.is_some() && now != git.commit(&saved(branch)) {
            bail!(
                "branch '{branch}' in {} has work that was not exported\nhint: paratick kernel export, or move the tree away",
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
            "{} has {others} commits on other branches, which are in no series\nhint: bring them onto '{SERIES}' and export, or move the tree away",
            dir.display()
        );
    }
    Ok(())
}

fn refuse_if_uncommitted(git: &Git, dir: &Path) -> Result<()> {
    let dirty = git.run(["status", "--porcelain"])?;
    if !dirty.is_empty() {
        bail!(
            "{} has uncommitted work:\n{dirty}\nhint: commit it there (git commit --amend for a patch of the series), or git stash",
            dir.display()
        );
    }
    Ok(())
}

fn refuse_if_foreign(git: &Git, dir: &Path, source: &Source) -> Result<()> {
    let message = git.run(["log", "-1", "--format=%B", "base"])?;
    if !message.contains(&source.sha256) {
        bail!(
            "{} was made from another source than {}\nhint: move it away, or name another folder with --dir",
            dir.display(),
            source.base.tarball.display()
        );
    }
    Ok(())
}

/// Patches are linear, and signed off by the one who wrote them: a machine's own identity must not slip in.
fn refuse_bad_commits(git: &Git, from: &str, branch: &str) -> Result<()> {
    let range = format!("{from}..{branch}");
    let merges = git.run(["rev-list", "--merges", &range])?;
    if !merges.is_empty() {
        bail!("{range} has a merge, a series has none: {merges}\nhint: git rebase {from} {branch}");
    }
    let commits = git.run(["rev-list", "--reverse", &range])?;
    for commit in commits.lines() {
        let author = git.run(["log", "-1", "--format=%an <%ae>", commit])?;
        let body = git.run(["log", "-1", "--format=%B", commit])?;
        let wanted = format!("Signed-off-by: {author}");
        if !body.lines().any(|line| line == wanted) {
            let subject = git.run(["log", "-1", "--format=%s", commit])?;
            bail!(
                "'{subject}' is by {author}, who has not signed it off\nhint: git commit --amend --signoff, with --author= if the author is wrong"
            );
        }
    }
    Ok(())
}

fn save(git: &Git, branch: &str) -> Result<()> {
    git.run(["update-ref", &saved(branch), &head(branch)])
        .map(drop)
}

fn head(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn saved(branch: &str) -> String {
    format!("refs/paratick/saved/{branch}")
}
