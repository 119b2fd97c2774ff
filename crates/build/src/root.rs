// SPDX-License-Identifier: GPL-2.0-only
//! Whole systems for guests: folders with a root file system of Debian's, made by mmdebstrap(1).

use crate::{
    cache,
    kernel::{
        run,
        source::{build_into, lock},
    },
    progress::{Events, Step},
};
use anyhow::{bail, Result};
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

/// Part of every key: raise it when something else is put into a system.
const RECIPE: &str = "system 1";
/// The releases that are known, with their names.
const RELEASES: [(&str, &str); 2] = [("debian:12", "bookworm"), NEWEST];
const NEWEST: (&str, &str) = ("debian:13", "trixie");
/// Part of every disk's key, likewise.
const DISK: &str = "disk 1";
const MIRROR: &str = "http://deb.debian.org/debian";
/// Beside what every system has: a message bus, for logins and for what talks to systemd.
const PACKAGES: &str = "--include=dbus,libpam-systemd";
/// Of a folder that is a whole system.
const INIT: &str = "sbin/init";

/// A whole system, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// A release of Debian: its name, and the one its archive has.
    Debian(&'static str, &'static str),
    Folder(PathBuf),
}

impl System {
    fn of_machine() -> System {
        let release = fs_err::read_to_string("/etc/os-release").unwrap_or_default();
        let number = release.lines().find_map(|line| line.strip_prefix("VERSION_ID="));
        let name = format!("debian:{}", number.unwrap_or_default().trim_matches('"'));
        let (name, suite) = RELEASES.iter().find(|it| it.0 == name).unwrap_or(&NEWEST);
        System::Debian(name, suite)
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<System, String> {
        if let Some((name, suite)) = RELEASES.iter().find(|(name, _)| *name == text) {
            return Ok(System::Debian(name, suite));
        }
        let folder = Path::new(text);
        if !folder.is_dir() {
            let names = RELEASES.map(|(name, _)| name).join(", ");
            return Err(format!("neither a folder nor one of {names}"));
        }
        // A link to an absolute path leads elsewhere here.
        if folder.join(INIT).symlink_metadata().is_err() {
            return Err(format!(
                "no whole system: there is no /{INIT} in it\n\
                 hint: `mmdebstrap --include=systemd-sysv trixie FOLDER` makes one"
            ));
        }
        folder.canonicalize().map(System::Folder).map_err(|error| error.to_string())
    }
}

/// The system's folder, which is made (some 300 MB are fetched) unless the cache has it.
///
/// An error if mmdebstrap cannot make it.
pub fn ensure(system: &System, events: Events) -> Result<PathBuf> {
    let (name, suite) = match system {
        System::Debian(name, suite) => (*name, *suite),
        System::Folder(folder) => return Ok(folder.clone()),
    };
    let dir = dir_of(suite)?;
    if dir.is_dir() {
        return Ok(dir);
    }
    let _lock = lock("root", events)?;
    if !dir.is_dir() {
        events(Step::MakingSystem { name }.into());
        fs_err::create_dir_all(dir.parent().unwrap_or(&dir))?;
        build_into(&dir, |part| make(suite, part))?;
    }
    Ok(dir)
}

/// The disk with the same system, for guests whose kernel can share no files: ext4, and made unless
/// the cache has it.  Without a system it is this machine's release of Debian's, or the newest.
pub fn disk(system: Option<&System>, events: Events) -> Result<PathBuf> {
    let system = system.cloned().unwrap_or_else(System::of_machine);
    let folder = ensure(&system, events)?;
    let disk = disk_of(&folder)?;
    if disk.is_file() {
        return Ok(disk);
    }
    let _lock = lock("root", events)?;
    if !disk.is_file() {
        events(Step::MakingRootDisk { folder: &folder }.into());
        make_disk(&disk, |part| write_disk(&folder, part))?;
    }
    Ok(disk)
}

fn make_disk(disk: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    fs_err::create_dir_all(disk.parent().unwrap_or(disk))?;
    build_into(disk, write)?;
    remove_others(disk)
}

/// The same, if it is there; for showing what would be run.
pub fn built_disk(system: Option<&System>) -> Result<PathBuf> {
    let folder = built(&system.cloned().unwrap_or_else(System::of_machine))?;
    match folder.is_dir() {
        true => disk_of(&folder),
        false => bail!(
            "the guest's root is a system on a disk, and a dry run makes none\n\
             hint: run it once without --dry-run"
        ),
    }
}

/// Named by the folder's place, and behind that by its last change: of a folder there is one disk.
fn disk_of(folder: &Path) -> Result<PathBuf> {
    let name = cache::key([DISK.as_bytes(), folder.as_os_str().as_encoded_bytes()]);
    let said = run::output(Command::new("find").arg(folder).args(["-xdev", "-printf", "%C@\\n"]))?;
    let mut changes: Vec<&str> = said.lines().collect();
    changes.sort_unstable();
    let latest = changes.last().unwrap_or(&"").as_bytes();
    let change = cache::key([latest, changes.len().to_string().as_bytes()]);
    Ok(cache::dir()?.join("root").join(format!("{name}-{change}.ext4")))
}

/// Removes the disks of what the same folder was before, and what an interrupted run left of them.
fn remove_others(disk: &Path) -> Result<()> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (ours, home) = (name(disk), disk.parent().unwrap_or(disk));
    let prefix = ours.split_inclusive('-').next().unwrap_or(&ours);
    for entry in fs_err::read_dir(home)? {
        let other = entry?.path();
        if name(&other).starts_with(prefix) && other != disk {
            fs_err::remove_file(other)?;
        }
    }
    Ok(())
}

fn write_disk(folder: &Path, to: &Path) -> Result<()> {
    let said = run::output(Command::new("du").arg("-sxm").arg(folder))?;
    let mib: u64 = said.split_whitespace().next().unwrap_or_default().parse()?;
    // With room for what ext4 keeps beside the files; nothing is written to it later.
    let size = format!("{}M", mib * 5 / 4 + 64);
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"]).arg(folder);
    run::output(command.arg(to).arg(&size)).map(drop).map_err(|error| {
        error.context(format!(
            "cannot make a disk of {}\n\
             hint: it takes {size} in the cache, and mke2fs (`apt install e2fsprogs`)",
            folder.display()
        ))
    })
}

/// The same, if it is there; for showing what would be run.
pub fn built(system: &System) -> Result<PathBuf> {
    match system {
        System::Folder(folder) => Ok(folder.clone()),
        System::Debian(_, suite) => dir_of(suite),
    }
}

fn dir_of(suite: &str) -> Result<PathBuf> {
    let key = cache::key([RECIPE, suite, PACKAGES].map(str::as_bytes));
    Ok(cache::dir()?.join("root").join(format!("{suite}-{key}")))
}

fn make(suite: &str, to: &Path) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--mode=root", "--variant=important", PACKAGES, suite]).arg(to);
    command.arg(format!("deb {MIRROR} {suite} main"));
    if let Err(error) = run::output(&mut command) {
        bail!(
            "cannot make a system of Debian {suite}: {error:#}\n\
             hint: it takes root, a network, and `apt install mmdebstrap`"
        );
    }
    let id = cache::key([suite.as_bytes()]);
    fs_err::write(to.join("etc/machine-id"), format!("{id}{id}\n"))?;
    fs_err::write(to.join("etc/hostname"), format!("{suite}\n"))?;
    // Nothing of it is out of date: what would bring it up to date need not run at each boot.
    for folder in ["etc", "var"] {
        fs_err::write(to.join(folder).join(".updated"), "")?;
    }
    // The console is the lab's: whatever is said there is a complaint.
    symlink("/dev/null", to.join("etc/systemd/system/serial-getty@.service"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_folder_there_is_one_disk_whatever_was_interrupted() {
        let cache = tempfile::tempdir().unwrap();
        let disk = cache.path().join("a-1.ext4");
        for left in ["a-1.ext4.part", "a-0.ext4.part", "a-0.ext4", "b-0.ext4"] {
            fs_err::write(cache.path().join(left), "part").unwrap();
        }
        make_disk(&disk, |part| Ok(fs_err::write(part, "whole")?)).unwrap();
        let entries = fs_err::read_dir(cache.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a-1.ext4", "b-0.ext4"]);
        assert_eq!(fs_err::read_to_string(disk).unwrap(), "whole");
    }

    #[test]
    fn a_system_is_a_release_or_a_folder_with_a_first_process() {
        assert_eq!("debian:13".parse(), Ok(System::Debian("debian:13", "trixie")));
        let refused = "debian:11".parse::<System>().unwrap_err();
        assert!(refused.ends_with("debian:12, debian:13"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let parsed = || folder.path().to_str().unwrap().parse::<System>();
        let error = parsed().unwrap_err();
        assert!(error.contains("no /sbin/init") && error.contains("hint: "), "{error}");
        fs_err::create_dir(folder.path().join("sbin")).unwrap();
        symlink("/lib/systemd/systemd", folder.path().join(INIT)).unwrap();
        assert_eq!(parsed(), Ok(System::Folder(folder.path().canonicalize().unwrap())));
    }
}
