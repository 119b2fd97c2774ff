// SPDX-License-Identifier: GPL-2.0-only
//! The files of the packages that a kernel of Debian's is made of.

use super::name::{Wanted, IMAGE};
use crate::{
    apt::{Apt, Kind},
    kernel::{deb, run},
    progress::{Events, Step},
};
use anyhow::{bail, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Since Linux 6.19 `linux-image-…` is empty, and these have what was in it.
const PARTS: [&str; 3] = ["linux-binary-", "linux-modules-", "linux-base-"];
/// Where Debian has kernels that this machine's release may not have.
const FURTHER: [&str; 2] = ["trixie-backports", "bookworm"];

/// What a package's file says of itself.
pub(super) struct About {
    pub package: String,
    pub version: String,
    depends: String,
    /// Empty where it is the package's own name.
    source: String,
}

impl About {
    pub fn of(deb: &Path) -> Result<About> {
        let mut ask = Command::new("dpkg-deb");
        ask.args(["--showformat", "${Package}\n${Version}\n${Depends}\n${Source}", "--show"])
            .arg(deb);
        let Ok(said) = run::output(&mut ask) else {
            let deb = deb.display();
            bail!(
                "{deb} is no package of Debian's\n\
                 hint: `dpkg-deb --info {deb}` says more; was its download stopped?"
            );
        };
        let mut lines = said.lines().map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        Ok(About { package: next(), version: next(), depends: next(), source: next() })
    }

    /// Whether `paratick kernel deb` made it.
    pub fn has_series(&self) -> bool {
        self.source.split(' ').next() == Some(deb::SOURCE)
    }

    /// What `uname -r` says, of a package with a kernel or a part of one.
    fn release(&self) -> Option<&str> {
        [IMAGE].iter().chain(&PARTS).find_map(|prefix| self.package.strip_prefix(prefix))
    }

    /// The other packages with parts of the same kernel.
    fn others(&self) -> Vec<String> {
        let Some(release) = self.release() else { return Vec::new() };
        let all = [IMAGE].into_iter().chain(PARTS).map(|prefix| format!("{prefix}{release}"));
        all.filter(|package| *package != self.package).collect()
    }
}

/// Fetches the packages of what is wanted into the folder `to`, the one that is named first.
pub(super) fn fetch(
    wanted: &Wanted,
    home: &Path,
    to: &Path,
    events: Events,
) -> Result<Vec<PathBuf>> {
    let machine = Apt::of_machine(&home.join("machine"))?;
    let known = machine.packages(&wanted.prefix).unwrap_or_default();
    if let Some(package) = wanted.take(&known).filter(|package| wanted.is_settled(package)) {
        // The machine's lists may be old: what cannot be fetched is looked up.
        if let Ok(debs) = download(&machine, &package, to, events) {
            return Ok(debs);
        }
    }
    let mut archives = 0;
    for suite in [None].into_iter().chain(FURTHER.map(Some)) {
        let folder = home.join(suite.unwrap_or("apt"));
        let Some(apt) = Apt::new(&folder, Kind::Packages, suite)? else { continue };
        archives += 1;
        apt.update()?;
        if let Some(package) = wanted.take(&apt.packages(&wanted.prefix)?) {
            wanted.warn(&package, events);
            return download(&apt, &package, to, events);
        }
    }
    let what = match &wanted.settled {
        Some(package) => format!("package {package}"),
        None => format!("package {}…", wanted.prefix),
    };
    match archives {
        0 => bail!(
            "no Debian archive in /etc/apt that could have the {what}\n\
             hint: give --kernel an image, a package's file, or a kernel that the lab builds"
        ),
        _ => bail!(
            "Debian has no {what}: not this machine's release, {}\n\
             hint: `apt-cache search --names-only {IMAGE}` lists what this machine's release has; \
             a package's file can be given, too",
            FURTHER.map(|suite| format!("nor {suite}")).join(", ")
        ),
    }
}

fn download(apt: &Apt, package: &str, to: &Path, events: Events) -> Result<Vec<PathBuf>> {
    events(Step::FetchingKernel { package }.into());
    let deb = apt.download(package, to)?;
    let about = About::of(&deb)?;
    let mut debs = vec![deb];
    // All parts are needed, of the same version, where it has none itself.
    for other in about.others() {
        if about.depends.contains(&other) {
            debs.push(apt.download(&format!("{other}={}", about.version), to)?);
        }
    }
    Ok(debs)
}

/// A package's file, and those with the other parts of its kernel that lie beside it.
pub(super) fn beside(deb: &Path) -> Result<Vec<PathBuf>> {
    let about = About::of(deb)?;
    let folder = deb.parent().unwrap_or(Path::new("/"));
    let file = |package: &String| folder.join(format!("{package}_{}_amd64.deb", about.version));
    let others = about.others();
    let others = others.iter().map(file).filter(|file| file.is_file());
    Ok([deb.to_path_buf()].into_iter().chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(package: &str) -> About {
        About {
            package: package.into(),
            version: "1".into(),
            depends: "".into(),
            source: "".into(),
        }
    }

    #[test]
    fn a_package_says_whether_it_has_the_series() {
        for (source, has) in [("", false), ("linux", false), ("linux-paratick (1)", true)] {
            assert_eq!(About { source: source.into(), ..about("a") }.has_series(), has, "{source}");
        }
    }

    #[test]
    fn a_kernel_in_parts_has_four_packages() {
        let others = about("linux-modules-7.3.4+deb13-amd64").others();
        let all = ["image", "binary", "base"].map(|it| format!("linux-{it}-7.3.4+deb13-amd64"));
        assert_eq!(others, all);
        assert!(about("hello").others().is_empty());
    }

    #[test]
    fn what_is_no_package_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), "no package").unwrap();
        let error = format!("{:#}", About::of(file.path()).err().unwrap());
        assert!(error.contains("is no package of Debian's\nhint: "), "{error}");
    }
}
