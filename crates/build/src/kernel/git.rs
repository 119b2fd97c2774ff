// SPDX-License-Identifier: GPL-2.0-only
//! git as the series needs it: the same answer whatever the user's or the machine's settings are.

use crate::kernel::run;
use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

/// Who makes the base commit and applies patches.  It never reaches a patch: those carry their
/// author.
const NAME: &str = "paratick";
const EMAIL: &str = "paratick@invalid";

/// When the base commit was made; fixed, so that every machine gets the same commit.
const BASE_DATE: &str = "2026-01-01T00:00:00+00:00";

/// How patches are written (design: byte-identical in a round trip).
const FORMAT: &[&str] = &["--zero-commit", "--no-signature", "--no-renames"];

/// What the message of a commit has, and a kept patch has not: it is said by who sends a patch.
const SIGN_OFF: &str = "Signed-off-by:";

pub struct Git {
    dir: PathBuf,
}

/// Who sends patches, written `Name <mail>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    name: String,
    mail: String,
}

impl FromStr for Person {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, mail) = text
            .strip_suffix('>')
            .and_then(|text| text.split_once('<'))
            .map(|(name, mail)| (name.trim(), mail.trim()))
            .filter(|(name, mail)| !name.is_empty() && mail.contains('@'))
            .filter(|(name, mail)| !name.contains(['<', '>', '\n']) && !mail.contains(['<', ' ']))
            .ok_or("that is no name and mail address\nhint: write it as 'Name <mail>'")?;
        Ok(Person { name: name.into(), mail: mail.into() })
    }
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

    /// Writes the commits of `from..tip` as patches into `to` and returns their names in order:
    /// without anybody's sign-off, or as those of the `sender`, with that.
    pub fn format_patch(
        &self,
        (from, tip): (&str, &str),
        sender: Option<&Person>,
        to: &Path,
    ) -> Result<Vec<String>> {
        let range = format!("{from}..{}", self.restate((from, tip), sender)?);
        let mut command = self.command();
        command.args(["format-patch", "--quiet", "-o"]).arg(to).arg(&range).args(FORMAT);
        if let Some(Person { name, mail }) = sender {
            command.arg("--signoff");
            command.envs([("GIT_COMMITTER_NAME", name), ("GIT_COMMITTER_EMAIL", mail)]);
        } else {
            // One more patch must not change the others.
            command.arg("--no-numbered");
        }
        run::output(&mut command)?;
        let mut names: Vec<_> = fs_err::read_dir(to)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort();
        Ok(names)
    }

    /// Makes the commits of `from..tip`, which are linear, again without sign-offs, and by
    /// `author` if there is one; returns the last.  No branch is moved.
    fn restate(&self, (from, tip): (&str, &str), author: Option<&Person>) -> Result<String> {
        let mut parent = self.run(["rev-parse", &format!("{from}^{{commit}}")])?;
        for commit in self.run(["rev-list", "--reverse", &format!("{from}..{tip}")])?.lines() {
            let show = |format: &str| self.run(["log", "-1", "--date=raw", format, commit]);
            let (name, mail) = match author {
                Some(person) => (person.name.clone(), person.mail.clone()),
                None => (show("--format=%an")?, show("--format=%ae")?),
            };
            let date = format!("@{}", show("--format=%ad")?);
            let message = without_sign_offs(&show("--format=%B")?);
            let tree = format!("{commit}^{{tree}}");
            let mut command = self.command();
            command.args(["commit-tree", &tree, "-p", &parent, "-m", &message]);
            command.envs([("GIT_AUTHOR_NAME", name), ("GIT_AUTHOR_EMAIL", mail)]);
            command.env("GIT_AUTHOR_DATE", date);
            parent = run::output(&mut command)?;
        }
        Ok(parent)
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
        git.args(["-c", "core.abbrev=12", "-c", "core.autocrlf=false"]);
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "diff.algorithm=histogram"]);
        git.args(["-c", "gc.auto=0"]);
        git
    }
}

fn without_sign_offs(message: &str) -> String {
    let kept: Vec<_> = message.lines().filter(|line| !line.starts_with(SIGN_OFF)).collect();
    kept.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_a_name_and_a_mail_address() {
        let person: Person = "A U Thor <a@b.org>".parse().unwrap();
        assert_eq!((person.name.as_str(), person.mail.as_str()), ("A U Thor", "a@b.org"));
        for text in ["", "A U Thor", "a@b.org", "<a@b.org>", "A <b>", "A <a@b.org> B", "A <B <c@d>"]
        {
            assert!(text.parse::<Person>().unwrap_err().contains("hint: "), "{text}");
        }
    }

    #[test]
    fn only_sign_offs_leave_a_message() {
        let message = "x\n\nBecause.\n\nFixes: 1\nSigned-off-by: A <a@b>\nLink: 2";
        assert_eq!(without_sign_offs(message), "x\n\nBecause.\n\nFixes: 1\nLink: 2");
        assert_eq!(without_sign_offs("x\n\nSigned-off-by: A <a@b>\n"), "x");
    }
}
