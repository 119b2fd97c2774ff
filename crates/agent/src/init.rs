// SPDX-License-Identifier: GPL-2.0-only
//! The first process of a host or a guest: mounts, a child that serves the machine, and reaping.
//!
//! It begins in the file system in memory that came with the kernel.  The machine's root file
//! system is taken over by the child, when it is told to ([`enter`]): before that nothing of the
//! machine is in use, so that a host can be kept and woken up again.

use crate::system::{self, Successor};
use anyhow::{Context, Result};
use paratick_core::wire::{ADDRESS, ROOT, ROOT_DISK};
use paratick_service::{
    guest::{is_hidden, MACHINE, TAG},
    network,
};
use rustix::{
    mount::{mount, mount_bind, mount_move, MountFlags},
    process::{chdir, chroot, wait, WaitOptions},
};
use std::{
    env,
    ffi::CString,
    path::{Path, PathBuf},
    process::Command,
};

/// File system, place, options.
const NEEDED: [(&str, &str, &str); 7] = [
    ("tmpfs", "/run", "mode=755"),
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/var/tmp", "mode=1777"),
    ("tmpfs", "/dev/shm", "mode=1777"),
];

/// Then these; a kernel without one of them is still of use.
const WANTED: [(&str, &str); 5] = [
    ("devpts", "/dev/pts"),
    ("mqueue", "/dev/mqueue"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Those of the mounts that are not below others.
const TOP: [&str; 6] = ["/run", "/proc", "/sys", "/dev", "/tmp", "/var/tmp"];

const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// The shared file system as it is offered.
const SHARED: &str = "/run/paratick/shared";
const SHARED_OPTIONS: &str = "trans=virtio,version=9p2000.L,cache=loose,msize=512000";
/// Of a disk with a root.
const DISK_KIND: &str = "ext4";
/// Where the machine's root lies until it is ours.
const NEW_ROOT: &str = "/machine";

/// Never returns: without its first process a system panics.
pub fn run() -> ! {
    if let Err(error) = prepare().and_then(|()| serve_until_it_ends()) {
        eprintln!("paratick-agent: {error:#}");
    }
    power_off()
}

fn prepare() -> Result<()> {
    for (kind, at, options) in NEEDED {
        mount_one(kind, at, options)?;
    }
    crate::modules::load();
    for (kind, at) in WANTED {
        mount_one(kind, at, "").ok();
    }
    fs_err::create_dir_all(MACHINE)?;
    mount_bind("/", MACHINE).context("binding the first root")?;
    for (target, link) in LINKS {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    // Many programs talk to themselves.
    if let Err(error) = network::up("lo") {
        // Not worth ending a run for.
        eprintln!("no loopback network: {error}");
    }
    if let Ok(address) = env::var(ADDRESS) {
        let address = address.parse().with_context(|| format!("reading {ADDRESS}={address}"))?;
        if let Err(error) = network::at(network::CARD, address) {
            // Who asked for a card asks whether it is there.
            eprintln!("no network: {error:#}");
        }
    }
    Ok(())
}

/// Mounts what is to be the root; none where only the first is.
fn offered() -> Result<Option<PathBuf>> {
    let mount = |from: &Path, kind: &str, options: &str| -> Result<()> {
        fs_err::create_dir_all(SHARED)?;
        let options = CString::new(options)?;
        mount(from, SHARED, kind, MountFlags::RDONLY, options.as_c_str())
            .with_context(|| format!("mounting the root file system, {}", from.display()))
    };
    if let Some(serial) = env::var_os(ROOT_DISK) {
        mount(&disk_with(&serial.to_string_lossy())?, DISK_KIND, "")?;
        return Ok(Some(SHARED.into()));
    }
    let Some(root) = env::var_os(ROOT).map(PathBuf::from) else { return Ok(None) };
    mount(Path::new(TAG), "9p", SHARED_OPTIONS)?;
    Ok(Some(Path::new(SHARED).join(root.strip_prefix("/").unwrap_or(&root))))
}

/// The disk with this serial number.
fn disk_with(serial: &str) -> Result<PathBuf> {
    let disks = fs_err::read_dir("/sys/block")?.flatten();
    let mut serials = disks.map(|disk| (fs_err::read_to_string(disk.path().join("serial")), disk));
    let found = serials.find(|(found, _)| found.as_ref().is_ok_and(|it| it.trim() == serial));
    let (_, disk) = found.with_context(|| format!("no disk {serial}"))?;
    Ok(Path::new("/dev").join(disk.file_name()))
}

/// Makes the machine's root file system that of this process and of all that it starts.  Without
/// [`ROOT`] there is none but the first, or a disk's.  Then shows what folders of our own would
/// hide of it.
pub fn enter(hidden: &[PathBuf]) -> Result<()> {
    let Some(root) = offered()? else { return Ok(()) };
    fs_err::create_dir_all(NEW_ROOT)?;
    let system = system::asked_for();
    for at in [MACHINE, NEW_ROOT].into_iter().take(if system.is_some() { 1 } else { 2 }) {
        mount_bind(&root, at).with_context(|| format!("binding {} to {at}", root.display()))?;
    }
    if let Some(folder) = &system {
        let folder = Path::new(MACHINE).join(folder.strip_prefix("/").unwrap_or(folder));
        system::make_root(&folder, Path::new(NEW_ROOT)).context("making the system's root")?;
    }
    for at in TOP {
        let new = Path::new(NEW_ROOT).join(&at[1..]);
        mount_move(at, &new).with_context(|| format!("moving {at} to {}", new.display()))?;
    }
    chdir(NEW_ROOT)?;
    mount_move(".", "/").context("making the machine's root file system ours")?;
    chroot(".")?;
    chdir("/")?;
    match system {
        Some(_) => system::begin(),
        None => hidden.iter().try_for_each(|path| show(path)),
    }
}

/// Brings a file or folder of the machine back to its place, where a folder of our own hides it.
fn show(path: &Path) -> Result<()> {
    let Some(relative) = path.strip_prefix("/").ok().filter(|_| is_hidden(path)) else {
        return Ok(());
    };
    let from = Path::new(MACHINE).join(relative);
    if from.is_dir() {
        fs_err::create_dir_all(path)?;
    } else if !from.exists() {
        return Ok(());
    } else {
        path.parent().map_or(Ok(()), fs_err::create_dir_all)?;
        fs_err::write(path, "")?;
    }
    mount_bind(&from, path).with_context(|| format!("showing {}", path.display()))
}

fn mount_one(kind: &str, at: &str, options: &str) -> Result<()> {
    // The first root has no mount points, and devtmpfs and sysfs may lack some.
    let _ = std::fs::create_dir_all(at);
    let options = CString::new(options)?;
    match mount(kind, at, kind, MountFlags::NOSUID, options.as_c_str()) {
        // The kernel may have mounted devtmpfs itself.
        Err(rustix::io::Errno::BUSY) => Ok(()),
        result => result.with_context(|| format!("mounting {kind} at {at}")),
    }
}

/// The agent proper is a child, so that this process can reap every orphan without taking away
/// the exit status of a command that the agent waits for.
fn serve_until_it_ends() -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("serve");
    let successor = system::asked_for().map(|_| Successor::of(&mut command)).transpose()?;
    let child = command.spawn().context("starting the agent")?;
    if let Some(successor) = successor {
        successor.await_root(&child);
    }
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child.id() => {
                return match status.exit_status() {
                    Some(0) => Ok(()),
                    _ => anyhow::bail!("the agent ended: {status:?}"),
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the agent"),
        }
    }
}

fn power_off() -> ! {
    use rustix::system::{reboot, RebootCommand};
    rustix::fs::sync();
    // QEMU runs with -no-reboot: this ends it, also on machines that cannot power off.
    let _ = reboot(RebootCommand::Restart);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

pub fn is_first() -> bool {
    rustix::process::getpid().as_raw_nonzero().get() == 1 && !Path::new(MACHINE).exists()
}
