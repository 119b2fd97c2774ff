// SPDX-License-Identifier: GPL-2.0-only
//! git as the series needs it: the same answer whatever the user's or the machine's settings are.

use crate::kernel::run;
use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Who makes the base commit and applies patches.  It never reaches a patch: those carry their
/// author.
const NAME: &str = "paratick";
const EMAIL: &str = "paratick@invalid";

/// When the base commit was made; fixed, so that every machine gets the same commit.
const BASE_DATE: &str = "2026-01-01T00:00:00+00:00";

/// How patches are written (design: byte-identical in a round trip).
const FORMAT: &[&str] = &["--zero-commit", "--no-signature", "--no-numbered", "--no-renames"];

pub struct Git {
    dir: PathBuf,
}

impl Git {
    pub fn at(dir: &Path) -> Self {
        Git { dir: dir.into() }
    }

    /// Output of `git ARGS` in the tree; fails when git does.
    pub fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<String> {
        let mut command = self.command();
        command.args(args);
        run::output(&mut command)
    }

    /// What a revision is, if it is there at all.
    pub fn commit(&self, revision: &str) -> Option<String> {
        let wanted = format!("{revision}^{{commit}}");
        self.run(["rev-parse", "--verify", "--quiet", &wanted]).ok()
    }

    /// A new repository without a branch, whose only commit, tagged `base`, is everything in the
    /// folder.
    pub fn init(&self, message: &str) -> Result<()> {
        self.run(["init", "--quiet", "--initial-branch=unpacked"])?;
        // The source has its own .gitignore files, and ships files that they name.
        self.run(["add", "--all", "--force"])?;
        self.run(["commit", "--quiet", "--allow-empty", "-m", message])?;
        self.run(["tag", "base"])?;
        self.run(["checkout", "--quiet", "--detach"])?;
        self.run(["branch", "--quiet", "-D", "unpacked"]).map(drop)
    }

    /// Applies one patch as a commit, exactly: no fuzz, no three-way merge.
    pub fn am(&self, patch: &Path) -> Result<()> {
        let path = patch.to_string_lossy();
        let applied = self.run([
            "am",
            "--quiet",
            "--no-3way",
            "--keep-non-patch",
            "--committer-date-is-author-date",
            "--whitespace=nowarn",
            &path,
        ]);
        if applied.is_err() {
            let _ = self.run(["am", "--abort"]);
        }
        applied.map(drop)
    }

    /// Writes `range` as patches into `to` and returns their names in order.
    pub fn format_patch(&self, range: &str, to: &Path) -> Result<Vec<String>> {
        let to = to.to_string_lossy();
        let args = ["format-patch", "--quiet", "-o", &to, range];
        self.run(args.into_iter().chain(FORMAT.iter().copied()))?;
        let mut names: Vec<_> = fs_err::read_dir(&*to)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort();
        Ok(names)
    }

    fn command(&self) -> Command {
        let mut git = Command::new("git");
        git.current_dir(&self.dir);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                git.env_remove(name);
            }
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.dir.parent().unwrap_or(&self.dir))
            .env("LC_ALL", "C")
            .envs([
                ("GIT_AUTHOR_NAME", NAME),
                ("GIT_AUTHOR_EMAIL", EMAIL),
                ("GIT_AUTHOR_DATE", BASE_DATE),
                ("GIT_COMMITTER_NAME", NAME),
                ("GIT_COMMITTER_EMAIL", EMAIL),
                ("GIT_COMMITTER_DATE", BASE_DATE),
            ]);
        for setting in [
            "core.abbrev=12",
            "core.autocrlf=false",
            "core.hooksPath=/dev/null",
            "diff.algorithm=histogram",
            "gc.auto=0",
        ] {
            git.args(["-c", setting]);
        }
        git
    }
}
