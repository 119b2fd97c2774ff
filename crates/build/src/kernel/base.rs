// SPDX-License-Identifier: GPL-2.0-only
//! `kernel/bases.toml`: which source a series is for, and whether this machine has it.

use crate::{
    kernel::run,
    progress::{Event, Events},
    repo, requirements,
};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, process::Command};

/// One entry of `kernel/bases.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    #[serde(skip)]
    pub name: String,
    pub package: String,
    /// The package version that the series was last tested on.
    pub version: String,
    pub tarball: PathBuf,
    pub sha256: String,
    /// Lines that `make` prints for a full build; only the progress bar needs it.
    pub build_steps: u64,
}

/// The source as this machine has it.
#[derive(Debug, Clone)]
pub struct Source {
    pub base: Base,
    /// Of the tarball that is there, which need not be the tested one.
    pub sha256: String,
    /// The installed package's version; none where dpkg does not know the package.
    pub version: Option<String>,
}

impl Base {
    pub fn load(name: &str) -> Result<Self> {
        let path = repo::root()?.join("kernel/bases.toml");
        let text = fs_err::read_to_string(&path)?;
        let bases: BTreeMap<String, Base> =
            toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
        let known = bases.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(base) = bases.into_iter().find(|(key, _)| key == name) else {
            bail!(
                "there is no base kernel {name}\nhint: {} knows {known}",
                path.display()
            );
        };
        Ok(Base {
            name: name.to_owned(),
            ..base.1
        })
    }

    /// The folder of the series for this base.
    pub fn patches(&self) -> Result<PathBuf> {
        Ok(repo::root()?.join("kernel/patches").join(&self.name))
    }

    /// The folder of what only the lab adds on top of the series.
    pub fn lab_patches(&self) -> Result<PathBuf> {
        Ok(repo::root()?.join("kernel/lab-patches").join(&self.name))
    }

    /// Looks at the tarball; warns when it is not the one that the series was tested on.
    pub fn source(&self, events: Events) -> Result<Source> {
        if !self.tarball.is_file() {
            bail!(
                "the source of Linux {} is not here: {} does not exist\nhint: apt-get install {}",
                self.name,
                self.tarball.display(),
                self.package
            );
        }
        let sha256 = run::output(Command::new("sha256sum").arg(&self.tarball))?
            .split_whitespace()
            .next()
            .context("sha256sum printed nothing")?
            .to_owned();
        let version = requirements::installed_version(&self.package);
        if let Some(found) = version.as_ref().filter(|found| **found != self.version) {
            events(Event::Warning(format!(
                "{} is {found}; the series was last tested on {}",
                self.package, self.version
            )));
        } else if sha256 != self.sha256 {
            events(Event::Warning(format!(
                "{} is not the file that the series was tested on (sha256 {sha256}, tested {})",
                self.tarball.display(),
                self.sha256
            )));
        }
        Ok(Source {
            base: self.clone(),
            sha256,
            version,
        })
    }
}

impl Source {
    /// Names the source in the cache.
    pub fn key(&self) -> &str {
        &self.sha256[..16]
    }
}
