// SPDX-License-Identifier: GPL-2.0-only
//! Which configuration packages are of, and where Debian has it.

use crate::{
    apt::{Apt, Kind},
    cache,
    kernel::{
        base::Base,
        run,
        source::{build_into, lock},
    },
    progress::{Events, Step},
};
use anyhow::{bail, Context, Result};
use std::{
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Debian's for all machines.
    Debian,
    /// Debian's for virtual machines of clouds: fewer drivers.
    Cloud,
    /// The lab's own, which has no drivers but the lab's.
    Lab,
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavour::Debian => "debian",
            Flavour::Cloud => "cloud",
            Flavour::Lab => "lab",
        })
    }
}

impl Flavour {
    pub const ALL: [Flavour; 3] = [Flavour::Debian, Flavour::Cloud, Flavour::Lab];

    /// What `uname -r` ends in.
    pub(in crate::kernel) fn suffix(self) -> &'static str {
        match self {
            Flavour::Debian => "-paratick-amd64",
            Flavour::Cloud => "-paratick-cloud-amd64",
            Flavour::Lab => "-paratick-lab",
        }
    }

    /// What Debian calls its configuration; none of the lab's.
    fn file(self) -> Option<&'static str> {
        match self {
            Flavour::Debian => Some("config.amd64_none_amd64"),
            Flavour::Cloud => Some("config.amd64_none_cloud-amd64"),
            Flavour::Lab => None,
        }
    }

    /// The file with Debian's configuration of this version, fetched unless the cache has it; none
    /// of the lab's.
    pub(super) fn configuration(
        self,
        base: &Base,
        version: &str,
        events: Events,
    ) -> Result<Option<PathBuf>> {
        let Some(file) = self.file() else { return Ok(None) };
        let package = format!("linux-config-{}", base.name);
        let dir = cache::dir()?.join("config").join(format!("{package}_{version}"));
        let _lock = lock("linux-config", events)?;
        if !dir.is_dir() {
            events(Step::FetchingKernel { package: &package }.into());
            fs_err::create_dir_all(dir.parent().context("in the cache")?)?;
            build_into(&dir, |part| {
                fs_err::create_dir_all(part)?;
                let deb = download(&package, version, part)?;
                run::output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(part))?;
                fs_err::remove_file(deb).map_err(Into::into)
            })?;
        }
        let packed = dir.join("usr/src").join(&package).join(format!("{file}.xz"));
        let plain = dir.join(file);
        if !plain.is_file() {
            unpack(&packed, &plain)
                .with_context(|| format!("{package} {version} has no {file}.xz"))?;
        }
        Ok(Some(plain))
    }
}

fn download(package: &str, version: &str, to: &Path) -> Result<PathBuf> {
    let wanted = format!("{package}={version}");
    let home = cache::dir()?.join("work/debian");
    let machine = Apt::of_machine(&home.join("machine"))?;
    // The machine's lists may be old: what cannot be fetched is looked up.
    if let Ok(deb) = machine.download(&wanted, to) {
        return Ok(deb);
    }
    let Some(apt) = Apt::new(&home.join("apt"), Kind::Packages, None)? else {
        bail!(
            "no Debian archive in /etc/apt that could have the package {package}\n\
             hint: `--config lab` needs none"
        );
    };
    apt.update()?;
    apt.download(&wanted, to).or_else(|error| {
        bail!(
            "{error:#}\n\
             The source of Linux is of version {version}, and Debian has no {package} of that \
             version any more\n\
             hint: `apt-get install linux-source-{}` brings the version that Debian has",
            package.trim_start_matches("linux-config-")
        )
    })
}

fn unpack(packed: &Path, plain: &Path) -> Result<()> {
    let part = plain.with_extension("part");
    let mut xz = Command::new("xz");
    xz.arg("-dc").arg(packed).stdout(Stdio::from(std::fs::File::create(&part)?));
    if !xz.status().context("cannot run xz\nhint: apt-get install xz-utils")?.success() {
        bail!("cannot unpack {}", packed.display());
    }
    fs_err::rename(part, plain).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_packages_have_the_same_release() {
        let mut suffixes = Flavour::ALL.map(Flavour::suffix);
        suffixes.sort();
        assert!(suffixes.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(Flavour::ALL.iter().all(|one| one.suffix().starts_with("-paratick-")));
    }
}
