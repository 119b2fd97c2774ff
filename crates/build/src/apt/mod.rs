// SPDX-License-Identifier: GPL-2.0-only
//! Debian's packages, through apt, without touching the machine's own lists.
//!
//! The machine already says where it gets its packages from and whom it trusts.  Its entries are
//! copied, for sources with `deb` turned into `deb-src`, and used with lists and a cache of our
//! own, so that apt checks what it fetches exactly as it does for the machine, and the machine does
//! not change.

mod entries;

pub use entries::Kind;

use crate::kernel::run;
use anyhow::{bail, Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

pub struct Apt {
    dir: PathBuf,
    /// The lists are the machine's; only the cache is ours.
    of_machine: bool,
}

impl Apt {
    /// Sets it up in `dir` from what the machine's apt uses, for the machine's release or another
    /// suite of Debian's; None where there is no Debian archive.
    pub fn new(dir: &Path, kind: Kind, suite: Option<&str>) -> Result<Option<Apt>> {
        let apt = Apt { of_machine: false, ..Apt::of_machine(dir)? };
        Ok(entries::write(&dir.join("parts"), kind, suite)?.then_some(apt))
    }

    /// One that reads the lists which the machine has already.
    pub fn of_machine(dir: &Path) -> Result<Apt> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs_err::create_dir_all(dir.join(folder))?;
        }
        Ok(Apt { dir: dir.to_path_buf(), of_machine: true })
    }

    pub fn update(&self) -> Result<()> {
        // A list that cannot be fetched is an error, not a warning.
        let mut update = self.command("apt-get");
        update.args(["update", "--error-on=any"]);
        run::output(&mut update).map(drop).context(
            "cannot fetch the list of Debian's packages\n\
                hint: this needs the network once; the lists go to the cache, not to the machine's \
                apt",
        )
    }

    /// The names of the packages that begin so.
    pub fn packages(&self, prefix: &str) -> Result<Vec<String>> {
        let said = run::output(self.command("apt-cache").args(["pkgnames", prefix]))?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// Downloads a package's newest version into `to`, or another: `PACKAGE=VERSION`; the .deb's
    /// path.
    pub fn download(&self, package: &str, to: &Path) -> Result<PathBuf> {
        let mut get = self.command("apt-get");
        get.args(["download", package]).current_dir(to);
        run::output(&mut get).with_context(|| {
            format!("cannot fetch the package {package}\nhint: this needs the network once")
        })?;
        let prefix = format!("{}_", package.split('=').next().unwrap_or(package));
        let found = fs_err::read_dir(to)?
            .flatten()
            .find(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
        match found {
            Some(entry) => Ok(entry.path()),
            None => bail!("apt-get fetched {package}, but no file of it is in {}", to.display()),
        }
    }

    /// The version to take: the tested one, else the newest of the series.
    pub fn choose(&self, source: &str, tested: &str, series: &str) -> Result<String> {
        let said =
            run::output(self.command("apt-cache").args(["showsrc", "--only-source", source]))?;
        let versions = versions(&said);
        let newest = || {
            versions.iter().filter(|version| version.starts_with(series)).max_by(|a, b| order(a, b))
        };
        versions.iter().find(|version| *version == tested).or_else(newest).cloned().with_context(
            || {
                format!(
                    "the archive has no {source} {series}…, only {}\n\
                     hint: check whether emulator/patches fits another version; see \
                     emulator/README.md",
                    versions.join(", ")
                )
            },
        )
    }

    /// Downloads (or finds again) the package's files; the .dsc's path.
    pub fn fetch(&self, source: &str, version: &str) -> Result<PathBuf> {
        let files = self.dir.join("files");
        fs_err::create_dir_all(&files)?;
        let mut get = self.command("apt-get");
        get.args(["--download-only", "--only-source", "source"])
            .arg(format!("{source}={version}"))
            .current_dir(&files);
        run::output(&mut get)
            .with_context(|| format!("cannot fetch the source of {source} {version}"))?;
        let without_epoch = version.split_once(':').map_or(version, |(_, rest)| rest);
        let dsc = files.join(format!("{source}_{without_epoch}.dsc"));
        if !dsc.is_file() {
            bail!("apt-get fetched {source} {version}, but not {}", dsc.display());
        }
        Ok(dsc)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut option = |name: &str, value: &str| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        let at = |name: &str| self.dir.join(name).display().to_string();
        if !self.of_machine {
            option("Dir::Etc::sourcelist", "/dev/null");
            option("Dir::Etc::sourceparts", &at("parts"));
            option("Dir::State::lists", &at("lists"));
        }
        option("Dir::Cache", &at("cache"));
        option("Acquire::Retries", "3");
        // Nobody else can write to these folders, and apt's own user may not be able to.
        option("APT::Sandbox::User", "root");
        command.env("LC_ALL", "C");
        command
    }
}

/// Of `apt-cache showsrc`.
fn versions(said: &str) -> Vec<String> {
    said.lines()
        .filter_map(|line| line.strip_prefix("Version: "))
        .map(|version| version.trim().to_owned())
        .collect()
}

/// Debian's order of versions; dpkg knows it.
pub fn order(a: &str, b: &str) -> std::cmp::Ordering {
    let is = |relation| {
        Command::new("dpkg")
            .args(["--compare-versions", a, relation, b])
            .status()
            .is_ok_and(|status| status.success())
    };
    match (is("lt"), is("gt")) {
        (true, _) => std::cmp::Ordering::Less,
        (_, true) => std::cmp::Ordering::Greater,
        _ => std::cmp::Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_listed() {
        let said = "Package: qemu\nVersion: 1:7.2+dfsg-7+deb12u18\n\nVersion: 1:7.2+dfsg-7\n";
        assert_eq!(versions(said), ["1:7.2+dfsg-7+deb12u18", "1:7.2+dfsg-7"]);
    }
}
