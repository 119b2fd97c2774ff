// SPDX-License-Identifier: GPL-2.0-only
//! What the machine must have, by the one list that `scripts/bootstrap` installs from.

use crate::kernel::run;
use anyhow::{bail, Context, Result};
use paratick_service::find_program;
use std::{env, path::Path, process::Command};

const LIST: &str = include_str!("../../../scripts/packages");

/// A package, what it is for, and how to see whether it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub group: String,
    pub purpose: String,
    pub name: String,
    /// The lab runs without it; contributors want it.
    pub optional: bool,
    probe: Probe,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Probe {
    Program(String),
    File(String),
    /// At least this version of cargo.
    Rust(Version),
}

type Version = (u32, u32);

pub fn packages() -> Result<Vec<Package>> {
    parse(LIST)
}

#[derive(Debug, thiserror::Error)]
#[error("this needs {}, which {} not installed\n\
    hint: apt-get install --no-install-recommends \
    {}", names.join(", "), if names.len() == 1 { "is" } else { "are" }, names.join(" "))]
pub struct Missing {
    pub names: Vec<String>,
}

/// Fails where packages of the list are not installed.
pub fn check<'a>(wanted: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let known = packages()?;
    let mut names = Vec::new();
    for wanted in wanted {
        let package = known.iter().find(|package| package.name == wanted);
        let package = package
            .with_context(|| format!("scripts/packages does not know the package {wanted}"))?;
        if package.look().is_err() && !names.iter().any(|name| name == wanted) {
            names.push(wanted.to_string());
        }
    }
    match names.is_empty() {
        true => Ok(()),
        false => Err(Missing { names }.into()),
    }
}

/// The same for a program, whose package the list knows.
pub fn check_program(program: &str) -> Result<()> {
    let known = packages()?;
    let package = known.iter().find(|package| package.has_program(program));
    let package = package
        .with_context(|| format!("scripts/packages has no package with the program {program}"))?;
    check([package.name.as_str()])
}

/// As dpkg says; `None`: it does not know the package, or there is no dpkg.
pub fn installed_version(package: &str) -> Option<String> {
    let query = ["-W", "-f", "${Version}", package];
    run::output(Command::new("dpkg-query").args(query)).ok().filter(|version| !version.is_empty())
}

fn parse(list: &str) -> Result<Vec<Package>> {
    let mut packages = vec![];
    let mut about = (String::new(), String::new(), false);
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(heading) = line.strip_prefix("= ").or(line.strip_prefix("? ")) {
            let (group, purpose) =
                heading.split_once(": ").context("a group without its purpose")?;
            about = (group.into(), purpose.into(), line.starts_with('?'));
            continue;
        }
        let (name, probe) = line.split_once(char::is_whitespace).with_context(|| {
            format!("scripts/packages: a package and its probe are wanted, not '{line}'")
        })?;
        packages.push(Package {
            group: about.0.clone(),
            purpose: about.1.clone(),
            name: name.into(),
            optional: about.2,
            probe: Probe::parse(probe.trim())?,
        });
    }
    Ok(packages)
}

impl Probe {
    fn parse(text: &str) -> Result<Probe> {
        Ok(match text.split_once(':') {
            Some(("cmd", program)) => Probe::Program(program.into()),
            Some(("file", path)) => Probe::File(path.into()),
            Some(("rust", version)) => {
                Probe::Rust(number(version).context("rust:MAJOR.MINOR is wanted")?)
            }
            _ => bail!("scripts/packages: unknown probe {text}"),
        })
    }
}

impl Package {
    pub fn has_program(&self, name: &str) -> bool {
        self.probe == Probe::Program(name.into())
    }

    /// Where or what it is, or what is not there.
    pub fn look(&self) -> Result<String, String> {
        match &self.probe {
            Probe::Program(name) => {
                let path = env::var("PATH").unwrap_or_default();
                find_program(name, &path)
                    .map(|file| file.display().to_string())
                    .ok_or_else(|| format!("no program {name}"))
            }
            Probe::File(path) if Path::new(path).exists() => Ok(path.clone()),
            Probe::File(path) => Err(format!("no file {path}")),
            Probe::Rust((major, minor)) => match cargo() {
                Some((text, version)) if version >= (*major, *minor) => Ok(text),
                Some((text, _)) => Err(format!("{text} is older than {major}.{minor}")),
                None => Err("no cargo".into()),
            },
        }
    }
}

/// What cargo says it is, and the version in it.
fn cargo() -> Option<(String, Version)> {
    let said = Command::new("cargo").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let version = number(text.split_whitespace().nth(1)?)?;
    Some((text, version))
}

fn number(text: &str) -> Option<Version> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_is_shipped_can_be_read() {
        let packages = packages().unwrap();
        assert!(packages
            .iter()
            .any(|package| package.name == "linux-source-6.12" && package.group == "kernel"));
        assert!(packages.iter().all(|package| !package.purpose.is_empty()));
        let optional: Vec<_> = packages.iter().filter(|package| package.optional).collect();
        let groups = [
            "benches",
            "network",
            "evaluation",
            "checks",
            "browser",
            "intel",
            "packages",
            "matrix",
            "operators",
            "deb",
        ];
        for group in groups {
            assert!(optional.iter().any(|package| package.group == group));
        }
        let known = |package: &&Package| groups.contains(&package.group.as_str());
        assert!(optional.iter().all(known), "{optional:?}");
    }

    #[test]
    fn the_list_has_all_that_the_emulator_says_it_needs() {
        let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../../emulator/recipe.toml");
        let recipe: toml::Table =
            toml::from_str(&std::fs::read_to_string(recipe).unwrap()).unwrap();
        let packages = packages().unwrap();
        for need in recipe["build_needs"].as_array().unwrap() {
            let need = need.as_str().unwrap();
            assert!(packages.iter().any(|package| package.name == need), "{need}");
        }
    }

    #[test]
    fn every_package_of_the_benches_is_in_the_list() {
        use paratick_core::catalogue::programs::{io_package, programs, TRACER};
        let known = packages().unwrap();
        let needed = programs().iter().flat_map(|one| &one.packages);
        for package in needed.map(String::as_str).chain([io_package(), TRACER]) {
            assert!(known.iter().any(|known| known.name == package), "{package}");
        }
    }

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_named() {
        let list = "= g: why\nshell cmd:sh\nnone cmd:no-such-program\nroot file:/\n\
            not file:/no/such/file\n";
        let seen: Vec<_> = parse(list).unwrap().iter().map(Package::look).collect();
        assert!(seen[0].as_ref().unwrap().ends_with("/sh"));
        assert_eq!(seen[1], Err("no program no-such-program".into()));
        assert_eq!(seen[2], Ok("/".into()));
        assert_eq!(seen[3], Err("no file /no/such/file".into()));
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(number("1.9.0").unwrap() < number("1.85").unwrap());
        assert_eq!(number("1.96.0-nightly"), Some((1, 96)));
        assert_eq!(number("x"), None);
    }

    #[test]
    fn an_unknown_probe_is_an_error() {
        assert!(parse("= g: why\nx maybe:y\n").is_err());
    }
}
