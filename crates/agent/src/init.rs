// SPDX-License-Identifier: GPL-2.0-only
//! The first process of a host or a guest: mounts, a child that serves the machine, and reaping.

use anyhow::{Context, Result};
use paratick_service::guest::{is_hidden, SHOW};
use rustix::{
    mount::{mount, mount_bind, MountFlags},
    process::{wait, WaitOptions},
};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The machine's root file system as it is without the mounts below.
pub const MACHINE: &str = "/run/paratick/machine";

/// In this order, after `/run` and [`MACHINE`]: file system, place, options.
const NEEDED: [(&str, &str, &str); 6] = [
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

const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Never returns: without its first process a system panics.
pub fn run() -> ! {
    if let Err(error) = prepare().and_then(|()| serve_until_it_ends()) {
        eprintln!("paratick-agent: {error:#}");
    }
    power_off()
}

fn prepare() -> Result<()> {
    // As the kernel parameter `init` names it: /proc is not mounted yet.
    let agent = env::args_os().next().map(PathBuf::from);
    mount_one("tmpfs", "/run", "mode=755")?;
    fs_err::create_dir_all(MACHINE)?;
    mount_bind("/", MACHINE).context("binding the machine's root file system")?;
    for (kind, at, options) in NEEDED {
        mount_one(kind, at, options)?;
    }
    for (kind, at) in WANTED {
        mount_one(kind, at, "").ok();
    }
    let cache = env::var_os(SHOW).map(PathBuf::from);
    for path in agent.iter().chain(&cache) {
        show(path)?;
    }
    for (target, link) in LINKS {
        let _ = std::os::unix::fs::symlink(target, link);
    }
    if let Err(error) = crate::loopback::up() {
        // Not worth ending a run for.
        eprintln!("no loopback network: {error}");
    }
    Ok(())
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
    // In devtmpfs and sysfs the mount points may be missing.
    let _ = std::fs::create_dir(at);
    let options = std::ffi::CString::new(options)?;
    match mount(kind, at, kind, MountFlags::NOSUID, options.as_c_str()) {
        // The kernel may have mounted devtmpfs itself.
        Err(rustix::io::Errno::BUSY) => Ok(()),
        result => result.with_context(|| format!("mounting {kind} at {at}")),
    }
}

/// The agent proper is a child, so that this process can reap every orphan without taking away
/// the exit status of a command that the agent waits for.
fn serve_until_it_ends() -> Result<()> {
    let child = Command::new("/proc/self/exe")
        .arg("serve")
        .env_remove(SHOW)
        .spawn()
        .context("starting the agent")?;
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
