// SPDX-License-Identifier: GPL-2.0-only
//! The packages of `paratick kernel deb`, of Debian's configuration for clouds, on a whole Debian
//! with systemd and libvirt, which boots as the lab's emulated host.

use super::{
    host::{said, System},
    run, top,
};
use paratick_build::kernel::{
    deb::{self, Flavour},
    DEFAULT_BASE,
};
use std::{fs, process::Command};
use tempfile::TempDir;

/// dpkg has installed it.  libvirt starts a guest with the same kernel, which has virtual ticks and
/// halts until its deadlines.  The host powers off, boots a second time, does the same, and the
/// package is purged.
#[test]
#[ignore = "compiles a kernel; minutes, mmdebstrap and a network"]
fn on_debian_13_the_kernel_runs_guests_of_libvirt_twice_and_goes_without_a_trace() {
    let packages = deb::ensure(DEFAULT_BASE, Flavour::Cloud, &mut |_| {}).unwrap();
    let folder = TempDir::new().unwrap();
    let shown = folder.path().join("packages");
    fs::create_dir(&shown).unwrap();
    let from = top().join("tests/packages/kernel");
    fs::copy(&packages.image, shown.join("image.deb")).unwrap();
    for name in ["host.sh", "init"] {
        fs::copy(from.join(name), shown.join(name)).unwrap();
    }
    let installed = "chroot \"$1\" dpkg --install /packages/image.deb >&2";
    let words = ["", "host.sh", "poweroff"];
    let system = System::make([folder.path(), &shown], "trixie", words, &[installed]);
    for boot in ["first", "second"] {
        let said = said(folder.path(), &system);
        println!("{boot}: {said:#?}");
        // Not yet "running": this is part of its start.
        assert_eq!(said["release"], format!("{}\nstarting", packages.plan.release));
        assert_eq!(said["parameters"], "Y\nY");
        let guest: Vec<&str> = said["guest"].lines().collect();
        assert!(guest.contains(&"ticks: 0") && guest.contains(&"until: 0"), "{guest:?}");
        // Two busy seconds, after the guest's start.
        let interrupts = |name: &str| -> u32 {
            let line = guest.iter().find_map(|line| line.trim().strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let [virtual_ticks, timers] = ["VTK:", "LOC:"].map(interrupts);
        assert!((490..1000).contains(&virtual_ticks) && timers < 250, "{guest:?}");
        assert_eq!(said.get("left").map(String::as_str), (boot == "second").then_some("0"));
        // Else the journal would have to be replayed.
        let [superblock, _] = run(Command::new("dumpe2fs").arg("-h").arg(&system.disk));
        let features = superblock.lines().find(|line| line.starts_with("Filesystem features:"));
        assert!(!features.unwrap().contains("needs_recovery"), "{superblock}");
    }
}
