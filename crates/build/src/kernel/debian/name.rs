// SPDX-License-Identifier: GPL-2.0-only
//! How a kernel of Debian's is named, and which package is meant.

use crate::{
    apt,
    kernel::base::Base,
    progress::{Events, Warning},
};
use anyhow::Result;
use std::{fmt, path::PathBuf, str::FromStr};

/// What the name of a package with a kernel begins with.
pub(super) const IMAGE: &str = "linux-image-";
/// … or with the kernel that such a package only depends on, since Linux 6.19.
const BINARY: &str = "linux-binary-";
const ARCH: &str = "amd64";
/// Other kernels of the same series.
const FLAVOURS: [&str; 2] = ["cloud", "rt"];
/// What the names of all but packages' files begin with.
pub const PREFIX: &str = "debian:";

/// A kernel as Debian built it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stock {
    /// One of the archive's.
    Named(Name),
    /// What is in a package's file.
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The newest of a series, such as `6.1`, or the one that this project's series are made for;
    /// with a flavour, such as `6.1-cloud`.
    Series(String),
    /// What comes with this package, `linux-image-…`.
    Package(String),
}

impl FromStr for Name {
    type Err = String;

    /// What follows [`PREFIX`].
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let begins_with_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let release = [IMAGE, BINARY].iter().find_map(|prefix| name.strip_prefix(prefix));
        if let Some(release) = release.filter(|release| begins_with_number(release)) {
            return Ok(Name::Package(format!("{IMAGE}{release}")));
        }
        let (series, flavour) = parts(name);
        let numbers: Vec<&str> = series.split('.').collect();
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let is_known = flavour.is_none_or(|flavour| FLAVOURS.contains(&flavour));
        match is_known && numbers.len() == 2 && numbers.iter().all(is_number) {
            true => Ok(Name::Series(name.into())),
            false => Err(format!(
                "no series and no package with a kernel of Debian's\n\
                 hint: name a series, such as {PREFIX}6.12, a flavour of one, such as \
                 {PREFIX}6.12-cloud, or a package, such as {PREFIX}{IMAGE}6.1.0-56-{ARCH}"
            )),
        }
    }
}

/// A series' name and its flavour.
fn parts(name: &str) -> (&str, Option<&str>) {
    name.split_once('-').map_or((name, None), |(series, flavour)| (series, Some(flavour)))
}

impl fmt::Display for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stock::Named(Name::Series(name) | Name::Package(name)) => write!(f, "{PREFIX}{name}"),
            Stock::File(file) => file.display().fmt(f),
        }
    }
}

/// Which package is meant by a series' or a package's name.
pub(super) struct Wanted {
    /// What all packages in question begin with.
    pub prefix: String,
    /// The one that this project's series are made for, or the only one that will do.
    pub settled: Option<String>,
    /// What the names of all packages in question end in; none where one is named.
    ending: Option<String>,
}

impl Wanted {
    pub fn of(name: &Name) -> Result<Wanted> {
        let series = match name {
            Name::Series(series) => series,
            Name::Package(name) => {
                let settled = Some(name.clone());
                return Ok(Wanted { prefix: name.clone(), settled, ending: None });
            }
        };
        let tested = Base::load(parts(series).0).ok().map(|base| base.version);
        let release = fs_err::read_to_string("/etc/os-release")?;
        let debian = release.lines().find_map(|line| line.strip_prefix("VERSION_ID="));
        let debian = debian.unwrap_or("12").trim_matches('"');
        Ok(Wanted::series(series, tested.as_deref(), debian))
    }

    /// `tested` is a version as `6.12.117-1~deb12u1`, and `debian` this machine's.
    fn series(series: &str, tested: Option<&str>, debian: &str) -> Wanted {
        let upstream = |version: &str| version.split('-').next().unwrap_or(version).to_owned();
        let (series, flavour) = parts(series);
        let ending = flavour.map_or(String::new(), |flavour| format!("-{flavour}"));
        let ending = format!("{ending}-{ARCH}");
        Wanted {
            prefix: format!("{IMAGE}{series}."),
            settled: tested.map(|it| format!("{IMAGE}{}+deb{debian}{ending}", upstream(it))),
            ending: Some(ending),
        }
    }

    /// Of these packages the settled one, else the newest of the series.
    pub fn take(&self, packages: &[String]) -> Option<String> {
        let settled = packages.iter().find(|package| Some(*package) == self.settled.as_ref());
        let newest = || {
            let all = packages.iter().filter(|package| self.is_one(package));
            // Their releases are in the order of Debian's versions.
            let release = |package: &str| package.strip_prefix(IMAGE).unwrap_or(package).to_owned();
            all.max_by(|a, b| apt::order(&release(a), &release(b)))
        };
        settled.or_else(newest).cloned()
    }

    /// A kernel of the series and no other flavour: its release goes on with `117+deb12`, or
    /// with `0-56` where Debian counts by itself.
    fn is_one(&self, package: &str) -> bool {
        let Some(ending) = &self.ending else { return false };
        let rest = package.strip_prefix(&self.prefix);
        let rest = rest.and_then(|rest| rest.strip_suffix(ending));
        rest.is_some_and(|rest| {
            rest.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        })
    }

    /// Whether an older list of packages would not do better.
    pub fn is_settled(&self, package: &str) -> bool {
        self.settled.as_ref().is_none_or(|settled| settled == package)
    }

    /// Says where it is not the one that this project's series are made for.
    pub fn warn(&self, package: &str, events: Events) {
        let Some(settled) = self.settled.as_deref().filter(|settled| *settled != package) else {
            return;
        };
        let version = package.strip_prefix(IMAGE).unwrap_or(package);
        let package = "Debian's kernel";
        events(Warning::PackageNotTested { package, version, tested: settled }.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(release: &str) -> String {
        format!("linux-image-{release}-amd64")
    }

    #[test]
    fn a_name_is_a_series_or_a_package() {
        let package = |name: &str| Ok(Name::Package(name.into()));
        let series = Name::Series("6.1".into());
        assert_eq!("6.1".parse().as_ref(), Ok(&series));
        assert_eq!(named("6.1.0-56").parse(), package(&named("6.1.0-56")));
        let cloud = "7.3.4+deb13-cloud-amd64";
        assert_eq!(
            format!("linux-binary-{cloud}").parse(),
            package(&format!("linux-image-{cloud}"))
        );
        for wrong in ["", "6", "6.", "6.12.117", "linux-image-amd64", "bookworm", "6.1-x", "6-rt"] {
            let error = wrong.parse::<Name>().unwrap_err();
            assert!(error.contains("hint: "), "{wrong}: {error}");
        }
        assert_eq!(Stock::Named(series).to_string(), "debian:6.1");
    }

    #[test]
    fn the_tested_package_is_taken_or_else_the_newest() {
        let wanted = Wanted::series("6.12", Some("6.12.117-1~deb12u1"), "12");
        assert_eq!(wanted.settled, Some(named("6.12.117+deb12")));
        let mut there = vec![
            named("6.12.9+deb12"),
            named("6.12.119+deb12"),
            named("6.12.300+deb12-rt"),
            named("6.12.300+deb12-cloud"),
            format!("{}-dbg", named("6.12.300+deb12")),
        ];
        assert_eq!(wanted.take(&there), Some(named("6.12.119+deb12")));
        there.push(named("6.12.117+deb12"));
        assert_eq!(wanted.take(&there), Some(named("6.12.117+deb12")));
        assert_eq!(wanted.take(&there[2..5]), None);
        for (series, taken) in [("6.12-cloud", &there[3]), ("6.12-rt", &there[2])] {
            let wanted = Wanted::series(series, Some("6.12.117-1~deb12u1"), "12");
            assert_eq!(wanted.take(&there).as_ref(), Some(taken));
            let flavour = series.split_once('-').unwrap().1;
            assert_eq!(wanted.settled, Some(named(&format!("6.12.117+deb12-{flavour}"))));
        }
    }

    #[test]
    fn debians_own_numbers_are_compared_as_such() {
        let wanted = Wanted::series("6.1", None, "12");
        let there = [named("6.1.0-9"), named("6.1.0-56"), named("6.1.0-57-rt"), named("6.12.1+x")];
        assert_eq!(wanted.take(&there), Some(named("6.1.0-56")));
        assert!(wanted.is_settled(&named("6.1.0-9")));
    }

    #[test]
    fn a_package_is_no_other() {
        let cloud = named("6.1.0-56-cloud");
        let wanted = Wanted::of(&Name::Package(cloud.clone())).unwrap();
        assert_eq!(wanted.take(&[named("6.1.0-56"), cloud.clone()]), Some(cloud.clone()));
        assert_eq!(wanted.take(&[named("6.1.0-56"), format!("{cloud}-dbg")]), None);
    }
}
