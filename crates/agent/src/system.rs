// SPDX-License-Identifier: GPL-2.0-only
//! A whole system as a guest's root: its own first process takes the place of ours.
//!
//! The system's folder is shared by all guests, and cannot be written to.  So the root is a file
//! system in memory: `/usr` is the folder's, and the rest is copied, which is small.

use crate::root::copy_tree;
use anyhow::{bail, Context, Result};
use paratick_core::wire::SYSTEM;
use rustix::{
    fs::{openat, Mode, OFlags, CWD},
    mount::{mount, mount_bind, MountFlags},
    process::{chroot, fchdir},
};
use std::{
    env,
    ffi::CString,
    fs::DirBuilder,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{symlink, DirBuilderExt},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Every guest's own.
const OWN: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
/// Large, and read only: as it is in the folder.
const BOUND: [&str; 2] = ["usr", "var/lib/dpkg"];
/// Large, and of no use without a network.
const LEFT_OUT: [&str; 3] = ["boot", "var/cache", "var/lib/apt"];
const INIT: &str = "/sbin/init";
/// Between two looks at whether the system is up.
const STEP: Duration = Duration::from_millis(500);

/// The folder of the system that is asked for.
pub fn asked_for() -> Option<PathBuf> {
    env::var_os(SYSTEM).map(PathBuf::from)
}

/// Makes a root of the system in `from` at the folder `to`.
pub fn make_root(from: &Path, to: &Path) -> Result<()> {
    let options = CString::new("mode=755")?;
    mount("system", to, "tmpfs", MountFlags::empty(), options.as_c_str())?;
    for name in OWN {
        fs_err::create_dir_all(to.join(name))?;
    }
    let taken = |path: &Path| {
        let named = |names: &[&str]| names.iter().any(|name| path == from.join(name));
        !named(&OWN) && !named(&BOUND) && !named(&LEFT_OUT)
    };
    copy_tree(from, to, &taken).with_context(|| format!("copying {}", from.display()))?;
    for name in BOUND.iter().filter(|name| from.join(name).is_dir()) {
        let at = to.join(name);
        fs_err::create_dir_all(&at)?;
        mount_bind(from.join(name), &at).with_context(|| format!("binding {name}"))?;
    }
    for name in LEFT_OUT {
        fs_err::create_dir_all(to.join(name))?;
    }
    if !to.join("var/run").is_symlink() {
        let _ = symlink("/run", to.join("var/run"));
    }
    DirBuilder::new().recursive(true).mode(0o1777).create(to.join("var/tmp"))?;
    Ok(())
}

/// The first process of the kernel, and its child that will say when the system's root is there.
pub struct Successor {
    proc: OwnedFd,
    child: UnixStream,
}

impl Successor {
    /// The child's standard input is how it tells.
    pub fn of(command: &mut Command) -> Result<Successor> {
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        // It will not be found by its path once the child has moved it to the new root.
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Successor { proc, child: ours })
    }

    /// Waits for that, and becomes the system's first process.  Returns when nothing is told.
    pub fn await_root(mut self, child: &Child) {
        let root = format!("{}/root", child.id());
        thread::spawn(move || {
            if self.child.read_exact(&mut [0]).is_err() {
                return;
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let entered = openat(&self.proc, root.as_str(), flags, Mode::empty())
                .and_then(|root| fchdir(root.as_fd()))
                .and_then(|()| chroot("."));
            let error = match entered {
                Ok(()) => Command::new(INIT).exec(),
                Err(error) => error.into(),
            };
            eprintln!("paratick-agent: starting {INIT}: {error}");
        });
    }
}

/// In the child, when the root is there: lets the system begin, and waits until it has.
pub fn begin() -> Result<()> {
    std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)?.write_all(&[1])?;
    loop {
        // Fails at once as long as nothing answers.
        let said = Command::new("systemctl").args(["is-system-running", "--wait"]).output();
        let said = said.context("systemctl(1) of the system")?;
        match String::from_utf8_lossy(&said.stdout).trim() {
            "running" => return Ok(()),
            "degraded" => {
                eprintln!("paratick-agent: of this system have failed: {}", failed_units());
                return Ok(());
            }
            "" | "offline" | "unknown" | "initializing" | "starting" => thread::sleep(STEP),
            state => bail!("the system is {state}"),
        }
    }
}

fn failed_units() -> String {
    let said = Command::new("systemctl").args(["--failed", "--plain", "--no-legend"]).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let names = said.unwrap_or_default();
    let names: Vec<_> = names.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.join(", ")
}
