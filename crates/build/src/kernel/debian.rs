// SPDX-License-Identifier: GPL-2.0-only
//! Debian's own kernel image of a base, as its package has it: nothing is built or installed.

use crate::{
    apt::{self, Apt, Kind},
    cache,
    initramfs::{modules_of, MODULES},
    kernel::{
        base::Base,
        build::KernelImage,
        modules,
        source::{build_into, lock},
    },
    progress::{Events, Step, Warning},
};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Part of every key: raise it when something else of a package is kept.
const RECIPE: &str = "debian 1";
const ARCH: &str = "amd64";

/// What hosts and guests with a stock kernel are told in addition: docs/lab.md has the reasons.
const PARAMETERS: [&str; 1] = ["mitigations=off"];
/// Guests have no use for KVM, and most of the time of loading modules goes there.
const GUEST_PARAMETERS: [&str; 1] = ["module_blacklist=irqbypass,kvm,ccp,kvm_amd,kvm_intel"];

/// What is kept beside an image.
#[derive(Serialize, Deserialize)]
struct Info {
    release: String,
    base: String,
    package: String,
    package_version: String,
}

/// What a host with this image is told in addition.
pub fn host_parameters(bzimage: &Path) -> Vec<String> {
    match modules_of(bzimage) {
        Some(_) => PARAMETERS.map(String::from).to_vec(),
        None => Vec::new(),
    }
}

/// The same of a guest.
pub fn guest_parameters(bzimage: &Path) -> Vec<String> {
    match modules_of(bzimage) {
        Some(_) => PARAMETERS.into_iter().chain(GUEST_PARAMETERS).map(String::from).collect(),
        None => Vec::new(),
    }
}

/// The image of Debian's package for this base; fetched (100 MB) unless the cache has it.
pub fn ensure(base: &str, events: Events) -> Result<KernelImage> {
    let wanted = Wanted::of(base)?;
    if let Some(found) = wanted.find(events)? {
        return Ok(found);
    }
    let _lock = lock("debian", events)?;
    if let Some(found) = wanted.find(events)? {
        return Ok(found);
    }
    let home = cache::dir()?.join("work/debian");
    let apt = wanted.apt(&home)?;
    let package = wanted.choose(&apt, events)?;
    events(Step::FetchingKernel { package: &package }.into());
    let stage = tempfile::tempdir_in(&home)?;
    let deb = apt.download(&package, stage.path())?;
    let dir = dir_of(&package)?;
    let tree = stage.path().join("tree");
    modules::unpack_package(&deb, &tree)?;
    fs_err::create_dir_all(dir.parent().context("in the cache")?)?;
    build_into(&dir, |part| wanted.keep(&tree, &package, &deb, part))?;
    read(&dir)
}

/// The same, if the cache has it.
pub fn built(base: &str, events: Events) -> Result<Option<KernelImage>> {
    Wanted::of(base)?.find(events)
}

struct Wanted {
    base: String,
    /// `linux-image-6.12.`
    series: String,
    /// `117+deb12-amd64`
    tested: String,
    /// `+deb12-amd64`
    end: String,
}

impl Wanted {
    fn of(base: &str) -> Result<Wanted> {
        let Base { name, version, .. } = Base::load(base)?;
        let release = fs_err::read_to_string("/etc/os-release")?;
        let debian = release.lines().find_map(|line| line.strip_prefix("VERSION_ID="));
        let debian = debian.unwrap_or("12").trim_matches('"');
        Ok(Wanted::new(&name, &version, debian))
    }

    fn new(base: &str, version: &str, debian: &str) -> Wanted {
        let upstream = version.split('-').next().unwrap_or(version);
        let end = format!("+deb{debian}-{ARCH}");
        let update = upstream.strip_prefix(&format!("{base}.")).unwrap_or(upstream);
        Wanted {
            base: base.into(),
            series: format!("linux-image-{base}."),
            tested: format!("{update}{end}"),
            end,
        }
    }

    /// The package of the tested version.
    fn package(&self) -> String {
        format!("{}{}", self.series, self.tested)
    }

    fn is_one(&self, package: &str) -> bool {
        let update = package.strip_prefix(&self.series).and_then(|it| it.strip_suffix(&self.end));
        update.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The tested one, else the newest.
    fn take(&self, packages: &[String]) -> Option<String> {
        let tested = self.package();
        let newest = || {
            let all = packages.iter().filter(|package| self.is_one(package));
            all.max_by(|a, b| apt::order(a, b))
        };
        packages.iter().find(|package| **package == tested).or_else(newest).cloned()
    }

    /// One that the cache has.
    fn find(&self, events: Events) -> Result<Option<KernelImage>> {
        let mut packages = Vec::new();
        for entry in fs_err::read_dir(cache::dir()?.join("kernel")).into_iter().flatten() {
            let dir = entry?.path();
            let Ok(info) = info_of(&dir) else { continue };
            // A folder that is being written has another name than its key, and one of another
            // recipe, too.
            if dir_of(&info.package)? == dir {
                packages.push(info.package);
            }
        }
        let Some(package) = self.take(&packages) else { return Ok(None) };
        self.warn(&package, events);
        read(&dir_of(&package)?).map(Some)
    }

    fn choose(&self, apt: &Apt, events: Events) -> Result<String> {
        let packages = apt.packages(&self.series)?;
        let package = self
            .take(&packages)
            .with_context(|| format!("the archive has no {}N{}", self.series, self.end))?;
        self.warn(&package, events);
        Ok(package)
    }

    fn warn(&self, package: &str, events: Events) {
        let tested = self.package();
        if package != tested {
            let version = package.strip_prefix("linux-image-").unwrap_or(package);
            let package = "Debian's kernel";
            events(Warning::PackageNotTested { package, version, tested: &tested }.into());
        }
    }

    /// The machine's lists, if they have the tested package; else our own.
    fn apt(&self, home: &Path) -> Result<Apt> {
        let machine = Apt::of_machine(&home.join("machine"))?;
        if machine.packages(&self.series).is_ok_and(|found| found.contains(&self.package())) {
            return Ok(machine);
        }
        let Some(own) = Apt::new(&home.join("apt"), Kind::Packages)? else {
            bail!(
                "no Debian archive in /etc/apt that could have {}\n\
                 hint: give --kernel an image, or one that the lab builds, such as {}",
                self.package(),
                self.base
            );
        };
        own.update()?;
        Ok(own)
    }

    fn keep(&self, tree: &Path, package: &str, deb: &Path, to: &Path) -> Result<()> {
        let release = package.strip_prefix("linux-image-").unwrap_or(package);
        fs_err::create_dir_all(to)?;
        for (from, name) in [("vmlinuz", "bzImage"), ("config", "config")] {
            fs_err::copy(tree.join(format!("boot/{from}-{release}")), to.join(name))?;
        }
        // Where the package has them, before and after Debian moved all of /lib to /usr/lib.
        let homes = ["lib", "usr/lib"].map(|lib| tree.join(lib).join("modules").join(release));
        let home = homes.iter().find(|home| home.is_dir()).context("it has no modules")?;
        modules::archive(home, &to.join(MODULES))
            .with_context(|| format!("unpacking {package}"))?;
        // PACKAGE_VERSION_ARCH.deb; an epoch's colon is written %3a.
        let file = deb.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let version = file.split('_').nth(1).unwrap_or_default().replace("%3a", ":");
        let info = Info {
            release: release.into(),
            base: format!("{}-debian", self.base),
            package: package.into(),
            package_version: version,
        };
        fs_err::write(to.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
        Ok(())
    }
}

fn key(package: &str) -> String {
    cache::key([RECIPE, package].map(str::as_bytes))
}

fn dir_of(package: &str) -> Result<PathBuf> {
    Ok(cache::dir()?.join("kernel").join(key(package)))
}

fn info_of(dir: &Path) -> Result<Info> {
    Ok(serde_json::from_str(&fs_err::read_to_string(dir.join("info.json"))?)?)
}

fn read(dir: &Path) -> Result<KernelImage> {
    let info = info_of(dir)?;
    Ok(KernelImage {
        bzimage: dir.join("bzImage"),
        config: dir.join("config"),
        key: key(&info.package),
        release: info.release,
        patches: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(update: &str) -> String {
        format!("linux-image-6.12.{update}-amd64")
    }

    #[test]
    fn the_tested_package_is_taken_or_else_the_newest_of_the_same_debian() {
        let wanted = Wanted::new("6.12", "6.12.117-1~deb12u1", "12");
        assert_eq!(wanted.package(), named("117+deb12"));
        let mut there = vec![
            named("9+deb12"),
            named("119+deb12"),
            named("200+deb13"),
            named("300+deb12-rt"),
            named("300+deb12-cloud"),
        ];
        assert_eq!(wanted.take(&there), Some(named("119+deb12")));
        there.push(named("117+deb12"));
        assert_eq!(wanted.take(&there), Some(named("117+deb12")));
        assert_eq!(wanted.take(&there[2..5]), None);
        let wanted = Wanted::new("6.12", "6.12.117-1~deb12u1", "13");
        assert_eq!(wanted.take(&there), Some(named("200+deb13")));
    }

    #[test]
    fn only_a_kernel_with_modules_is_told_more() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("bzImage");
        assert!(modules_of(&image).is_none() && host_parameters(&image).is_empty());
        fs_err::write(folder.path().join(MODULES), "").unwrap();
        assert!(modules_of(&image).is_some() && !guest_parameters(&image).is_empty());
    }
}
