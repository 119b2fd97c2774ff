// SPDX-License-Identifier: GPL-2.0-only
//! `kernel/bases.toml`: what a base is made of, and whether this machine has its source.

use crate::{
    cache,
    kernel::series::Folder,
    progress::{Events, Warning},
    project, requirements,
};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    #[serde(skip)]
    pub name: String,
    /// `kernel/` of the project.
    #[serde(skip)]
    pub dir: PathBuf,
    pub package: String,
    /// The package version that the series were last tested on.
    pub version: String,
    pub tarball: PathBuf,
    pub sha256: String,
    /// The series that one would mail, from the bottom up.
    pub series: Vec<String>,
    /// What only the lab adds on top of those.
    #[serde(default)]
    pub lab_series: Vec<String>,
    /// Fragments of the configuration, by name; later ones win.
    pub config: Vec<String>,
    /// The rate of the tick that they come to.
    pub hz: u32,
    /// Lines that `make` prints for a full build; only the progress bar needs it.
    pub build_steps: u64,
}

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
        Base::read(name, &project::root()?)
    }

    /// For work on its series.
    pub fn in_checkout(name: &str) -> Result<Self> {
        Base::read(name, &project::checkout()?)
    }

    fn read(name: &str, root: &Path) -> Result<Self> {
        let dir = root.join("kernel");
        let path = dir.join("bases.toml");
        let text = fs_err::read_to_string(&path)?;
        let bases: BTreeMap<String, Base> =
            toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
        let known = bases.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(base) = bases.into_iter().find(|(key, _)| key == name) else {
            bail!("there is no base kernel {name}\nhint: {} knows {known}", path.display());
        };
        Ok(Base { name: name.to_owned(), dir, ..base.1 })
    }

    /// The folders of the stack, from the bottom up: what one would mail, then the lab's.
    pub fn stack(&self) -> Vec<Folder> {
        let folder = |name: &String, mailed| Folder {
            name: name.clone(),
            dir: self.dir.join("series").join(name).join(&self.name),
            mailed,
        };
        let mailed = self.series.iter().map(|name| folder(name, true));
        let lab = self.lab_series.iter().map(|name| folder(name, false));
        mailed.chain(lab).collect()
    }

    /// The files with the fragments of the configuration.
    pub fn config(&self) -> Vec<PathBuf> {
        self.config.iter().map(|name| self.fragment(name)).collect()
    }

    /// The fragment that makes the tick `hz` fast.
    pub fn tick(&self, hz: u32) -> Result<PathBuf> {
        let file = self.fragment(&format!("hz{hz}"));
        if !file.is_file() {
            bail!(
                "there is no configuration of Linux {} with HZ={hz}: {} does not exist\n\
                 hint: without --hz and -hzN the tick is {} Hz",
                self.name,
                file.display(),
                self.hz
            );
        }
        Ok(file)
    }

    /// One of `kernel/config`, by name.
    pub fn fragment(&self, name: &str) -> PathBuf {
        self.dir.join("config").join(format!("{name}.config"))
    }

    /// Looks at the tarball; warns when it is not the one that the series were tested on.
    pub fn source(&self, events: Events) -> Result<Source> {
        if !self.tarball.is_file() {
            bail!(
                "the source of Linux {} is missing: {} does not exist\nhint: apt-get install {}",
                self.name,
                self.tarball.display(),
                self.package
            );
        }
        let sha256 = cache::sha256(&self.tarball)?;
        let version = requirements::installed_version(&self.package);
        if let Some(found) = version.as_ref().filter(|found| **found != self.version) {
            let warning = Warning::PackageNotTested {
                package: &self.package,
                version: found,
                tested: &self.version,
            };
            events(warning.into());
        } else if sha256 != self.sha256 {
            let warning = Warning::TarballNotTested {
                tarball: &self.tarball,
                sha256: &sha256,
                tested: &self.sha256,
            };
            events(warning.into());
        }
        Ok(Source { base: self.clone(), sha256, version })
    }
}

impl Source {
    pub fn key(&self) -> &str {
        &self.sha256[..16]
    }
}
