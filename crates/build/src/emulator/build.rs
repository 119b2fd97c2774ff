// SPDX-License-Identifier: GPL-2.0-only
//! Building the emulator: one folder per version of the source, in which only what a patch changes
//! is compiled again, and a result that appears in the cache when it is whole.

use crate::{
    apt::{Apt, Kind},
    emulator::recipe::{Inputs, Patch, Recipe, VERSION},
    kernel::{
        make, run,
        source::{build_into, lock, Lock},
    },
    progress::{Event, Events, Step, Warning},
};
use anyhow::{anyhow, bail, Context, Result};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

/// Variables that configure or the compiler would take from the environment.
const FOREIGN: &str = "AR CC CFLAGS CPPFLAGS CXX CXXFLAGS LD LDFLAGS MAKEFLAGS PKG_CONFIG_PATH";

/// The release whose QEMU the patches are for; later ones have another.
const SUITE: &str = "bookworm";

/// Where QEMU looks for the devices that `--with-devices-x86_64=lab` names.
const DEVICES: &str = "src/configs/devices/x86_64-softmmu/lab.mak";

pub struct Work {
    dir: PathBuf,
    log: PathBuf,
    pub version: String,
    _lock: Lock,
}

impl Work {
    /// Finds the source's version and unpacks it, unless that was done before.
    pub fn open(base: &Path, inputs: &Inputs, events: Events) -> Result<Work> {
        let recipe = &inputs.recipe;
        check_packages(&recipe.build_needs)?;
        let lock = lock("emulator", events)?;
        let home = base.join("work/emulator");
        fs_err::create_dir_all(&home)?;
        // A source that is there needs no network.
        let tested = home.join(folder_name(&recipe.version));
        let (version, dir) = if tested.join("src").is_dir() {
            (recipe.version.clone(), tested)
        } else {
            events(Step::FetchingEmulator.into());
            let (apt, version) = find_source(&home, recipe)?;
            if version != recipe.version {
                let (version, tested) = (&version, &recipe.version);
                events(Warning::EmulatorNotTested { version, tested }.into());
            }
            let dir = home.join(folder_name(&version));
            fs_err::create_dir_all(&dir)?;
            if !dir.join("src").is_dir() {
                let dsc = apt.fetch(&recipe.source, &version)?;
                events(Step::UnpackingEmulator { version: &version }.into());
                build_into(&dir.join("src"), |part| unpack(&dsc, part))?;
            }
            (version, dir)
        };
        Ok(Work { log: dir.join("build.log"), dir, version, _lock: lock })
    }

    /// Builds the emulator, and puts it into `to`.
    pub fn build(&self, inputs: &Inputs, to: &Path, events: Events) -> Result<()> {
        fs_err::write(&self.log, "")?;
        self.follow(&inputs.patches)?;
        self.configure(inputs, events)?;
        let (version, patches) = (&self.version, inputs.patches.len());
        events(Step::BuildingEmulator { version, patches }.into());
        self.ninja(&inputs.recipe.target, events)?;
        let parent = to.parent().context("the cache has a folder")?;
        fs_err::create_dir_all(parent)?;
        build_into(to, |part| {
            fs_err::create_dir_all(part)?;
            let target = &inputs.recipe.target;
            fs_err::copy(self.dir.join("build").join(target), part.join(target))?;
            fs_err::write(part.join(VERSION), &self.version)?;
            Ok(())
        })
    }

    /// Makes the source what the archive has, with `patches` applied.
    ///
    /// The files they touch are worked on elsewhere and written only where they differ, so that
    /// nothing is compiled in vain; a copy of each as it came is kept in `orig`.
    fn follow(&self, patches: &[Patch]) -> Result<()> {
        let (src, orig) = (self.dir.join("src"), self.dir.join("orig"));
        let files: BTreeSet<&str> = patches.iter().flat_map(Patch::touched).collect();
        for file in &files {
            let kept = orig.join(file);
            if !kept.exists() {
                fs_err::create_dir_all(kept.parent().context("a file has a folder")?)?;
                // Whole or not at all: an interrupted copy must not pass for the original.
                let part = kept.with_extension("part");
                fs_err::copy(src.join(file), &part)?;
                fs_err::rename(&part, &kept)?;
            }
        }
        let stage = tempfile::tempdir_in(&self.dir)?;
        if orig.exists() {
            run::output(Command::new("cp").arg("-r").arg(orig.join(".")).arg(stage.path()))?;
        }
        for patch in patches {
            apply(stage.path(), patch)?;
        }
        rewrite_tree(stage.path(), &src)
    }

    fn configure(&self, inputs: &Inputs, events: Events) -> Result<()> {
        let build = self.dir.join("build");
        let stamp = build.join("paratick.configured");
        let line = inputs.recipe.configure.join(" ") + "\n" + &inputs.devices;
        if fs_err::read_to_string(&stamp).is_ok_and(|before| before == line) {
            return Ok(());
        }
        events(Step::ConfiguringEmulator.into());
        if build.exists() {
            fs_err::remove_dir_all(&build)?;
        }
        fs_err::create_dir_all(&build)?;
        fs_err::write(self.dir.join(DEVICES), &inputs.devices)?;
        let mut configure = Command::new(self.dir.join("src/configure"));
        configure.args(&inputs.recipe.configure).current_dir(&build);
        run::logged(clean(&mut configure), &self.log, |_| ())?;
        fs_err::write(&stamp, line)?;
        Ok(())
    }

    fn ninja(&self, target: &str, events: Events) -> Result<()> {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut ninja = Command::new("ninja");
        ninja.arg(format!("-j{jobs}")).arg("-C").arg(self.dir.join("build")).arg(target);
        let begun = Instant::now();
        run::logged(clean(&mut ninja), &self.log, |line| {
            if let Some((done, total)) = step(line) {
                let left = make::left(begun.elapsed(), done, total);
                events(Event::Progress { done, total: Some(total), left });
            }
        })
    }
}

/// Where the source is, and of which version: in what the machine's release has, or in another's.
fn find_source(home: &Path, recipe: &Recipe) -> Result<(Apt, String)> {
    let mut failed = anyhow!(
        "no Debian archive in /etc/apt that could have QEMU's source\n\
         hint: the lab's emulator is built from Debian's source package; on another system set \
         PARATICK_QEMU to a QEMU with emulator/patches applied"
    );
    for (folder, suite) in [("apt", None), (SUITE, Some(SUITE))] {
        let Some(apt) = Apt::new(&home.join(folder), Kind::Sources, suite)? else { continue };
        apt.update()?;
        match apt.choose(&recipe.source, &recipe.version, &recipe.series) {
            Ok(version) => return Ok((apt, version)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A folder's name must not have the colon of an epoch in it: make and PATH would trip over it.
fn folder_name(version: &str) -> String {
    version.replace(':', "_")
}

fn check_packages(needs: &[String]) -> Result<()> {
    let mut missing = Vec::new();
    for package in needs {
        let query = ["-W", "-f", "${db:Status-Status}", package];
        let status = run::output(Command::new("dpkg-query").args(query));
        if status.map_or(true, |status| status != "installed") {
            missing.push(package.as_str());
        }
    }
    if !missing.is_empty() {
        let missing = missing.join(" ");
        bail!(
            "the lab's emulator cannot be built: {missing} not installed\n\
            hint: apt-get install {missing}"
        );
    }
    Ok(())
}

/// dpkg-source checks the files against the .dsc, which apt has checked; it applies Debian's
/// patches.
fn unpack(dsc: &Path, to: &Path) -> Result<()> {
    run::output(Command::new("dpkg-source").arg("-x").arg(dsc).arg(to)).map(drop)
}

/// With every line where the patch says it is.
fn apply(dir: &Path, patch: &Patch) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    fs_err::write(file.path(), &patch.text)?;
    let mut program = Command::new("patch");
    program
        .args(["-p1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch", "-i"])
        .arg(file.path())
        .arg("-d")
        .arg(dir);
    run::output(&mut program).map(drop).with_context(|| format!("{} does not apply", patch.path))
}

/// Makes each file of `to` say what it says in `from`; an equal one keeps its time.
fn rewrite_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        let (new, old) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            rewrite_tree(&new, &old)?;
        } else if fs_err::read(&new)? != fs_err::read(&old).unwrap_or_default() {
            fs_err::copy(&new, &old)?;
        }
    }
    Ok(())
}

fn clean(command: &mut Command) -> &mut Command {
    for name in FOREIGN.split(' ') {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}

/// `[12/1461] Compiling …`
fn step(line: &str) -> Option<(u64, u64)> {
    let (done, total) = line.strip_prefix('[')?.split_once(']')?.0.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninja_says_how_far_it_is() {
        assert_eq!(step("[12/1461] Compiling C object x.o"), Some((12, 1461)));
        assert_eq!(step("ninja: Entering directory `build'"), None);
        assert_eq!(step("[x/y] z"), None);
    }

    #[test]
    fn a_patch_must_fit_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let patch = Patch {
            path: "emulator/patches/0001-x.patch".into(),
            text: "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n".into(),
        };
        fs_err::write(&file, "one\ntwo\nthree\n").unwrap();
        apply(dir.path(), &patch).unwrap();
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "one\nTWO\nthree\n");
        fs_err::write(&file, "ONE\ntwo\nthree\n").unwrap();
        let error = apply(dir.path(), &patch).unwrap_err();
        assert!(error.to_string().contains("patches/0001-x.patch does not apply"));
    }

    #[test]
    fn equal_files_keep_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        for (folder, text) in [(&from, "new"), (&to, "old")] {
            fs_err::create_dir_all(folder.join("sub")).unwrap();
            fs_err::write(folder.join("sub/same"), "same").unwrap();
            fs_err::write(folder.join("sub/other"), text).unwrap();
        }
        let time = || fs_err::metadata(to.join("sub/same")).unwrap().modified().unwrap();
        let before = time();
        rewrite_tree(&from, &to).unwrap();
        assert_eq!(time(), before);
        assert_eq!(fs_err::read_to_string(to.join("sub/other")).unwrap(), "new");
    }
}
