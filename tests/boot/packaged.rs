// SPDX-License-Identifier: GPL-2.0-only
//! The packages of `paratick kernel deb`: installed in a whole system, booted as guest and host,
//! and removed.

use crate::support::{
    busy_ticks, guest_on, host_for, host_spec, kernel, mode, parallel_spec, resumed, sh, text,
    workload, Measured,
};
use paratick_build::{
    kernel::{
        deb::{self, Flavour, Packages},
        debian::{self, Stock},
        DEFAULT_BASE,
    },
    root,
};
use paratick_core::{
    size::Size,
    wire::{Disk, GuestConfig},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Of Debian's configuration for clouds, with a thousand modules.
fn packages() -> Packages {
    deb::ensure(DEFAULT_BASE, Flavour::Cloud, &mut |_| {}).expect("packages of the kernel")
}

fn image(packages: &Packages) -> PathBuf {
    let stock = Stock::File(packages.image.clone());
    debian::ensure(&stock, &mut |_| {}).expect("the kernel of the package").bzimage
}

/// A vCPU that is busy for a second, and one that sleeps 2000 times.
fn measured(kernel: PathBuf) -> [Measured; 2] {
    let host = host_for(kernel.clone(), 1, &[]);
    let guest = guest_on(&host, kernel, 1, "paratick", &[]);
    let found = [busy_ticks(&host, &guest), workload(&host, &guest, "sleep", &[])];
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
    found
}

/// As host and as guest it does what the lab's image does.
#[test]
#[ignore = "compiles a kernel"]
fn a_packaged_kernel_makes_as_many_exits_as_the_labs_image() {
    let [packaged, small] = [image(&packages()), kernel()].map(measured);
    for (packaged, small) in packaged.iter().zip(&small) {
        let ratio = packaged.exits as f64 / small.exits as f64;
        println!("{} exits, the lab's image {}: {ratio:.3}", packaged.exits, small.exits);
        assert!((0.95..=1.05).contains(&ratio), "{packaged:?}\n{small:?}");
    }
    assert!(packaged[0].ticks_delivered.unwrap_or(0) > 230, "{packaged:?}");
}

/// The six workloads of `bench quick`, each three times in one guest: exits of all three.
fn six(kernel: PathBuf) -> BTreeMap<&'static str, u64> {
    let mut spec = parallel_spec(2);
    spec.boot.kernel = kernel.clone();
    let mut config = GuestConfig::new(kernel, 2, Size::mib(512), mode("paratick"));
    config.disk = Some(Disk::Memory(Size::mib(16)));
    config.pins = vec![1, 2];
    let (host, guest) = resumed(spec, config);
    let exits = |name| (0..3).map(|_| workload(&host, &guest, name, &[]).exits).sum();
    let seen =
        ["idle", "cpu", "pingpong", "barrier", "sleep", "block"].map(|name| (name, exits(name)));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
    seen.into()
}

/// Where few exits are left (of 3000 barriers, 3000 round trips and six seconds of nothing), two
/// boots of one image are farther apart than 5 %.
#[test]
#[ignore = "compiles a kernel"]
fn a_packaged_kernel_has_the_exits_of_the_labs_image_in_all_six_workloads() {
    let [packaged, small] = [image(&packages()), kernel()].map(six);
    println!("{packaged:?}\nthe lab's image: {small:?}");
    for (name, exits) in &packaged {
        let (lab, apart) = (small[name], exits.abs_diff(small[name]));
        assert!(apart <= 120.max(lab / 20), "{name}: {exits}, the lab's image {lab}");
        assert!(lab > 1_000 || *exits < 300, "{name}: {exits}");
    }
}

/// Runs a command in a system's folder.
fn inside(root: &Path, line: &str) -> String {
    let mut chroot = Command::new("chroot");
    chroot.arg(root).args(["sh", "-ec", line]).env("DEBIAN_FRONTEND", "noninteractive");
    let output = chroot.output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{line}: {said}");
    text(&output.stdout)
}

/// dpkg installs it in a Debian 13, where initramfs-tools makes its initramfs.  With it that system
/// boots twice, in mode `paratick`.  Purging it leaves nothing.
#[test]
#[ignore = "compiles a kernel; root, mmdebstrap and a network"]
fn a_package_is_installed_booted_twice_and_purged() {
    let packages = packages();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let made = root::ensure(&"debian:13".parse().unwrap(), &mut |_| {}).unwrap();
    assert!(Command::new("cp").arg("-a").args([&made, &root]).status().unwrap().success());
    std::fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf")).unwrap();
    inside(&root, "apt-get -q update; apt-get -qy install --no-install-recommends initramfs-tools");
    let files = "find /boot /lib/modules /usr/src /etc/kernel | sort";
    let before = inside(&root, files);
    for deb in [&packages.image, &packages.headers] {
        std::fs::copy(deb, root.join("tmp").join(deb.file_name().unwrap())).unwrap();
    }
    inside(&root, "dpkg -i /tmp/linux-*.deb");
    let release = &packages.plan.release;
    let there = inside(&root, files);
    for file in [
        format!("/boot/initrd.img-{release}\n"),
        format!("/boot/vmlinuz-{release}\n"),
        format!("/lib/modules/{release}/modules.dep\n"),
        format!("/usr/src/linux-headers-{release}/Makefile\n"),
    ] {
        assert!(there.contains(&file), "{file}: {there}");
    }
    let kernel = image(&packages);
    for _ in 0..2 {
        let host = host_spec(kernel.clone(), 2, &[]);
        let mut config = GuestConfig::new(kernel.clone(), 2, Size::mib(512), mode("paratick"));
        config.system = Some(root.clone());
        let (host, guest) = resumed(host, config);
        let said = guest.exec(sh(
            "cat /proc/1/comm; uname -r; dpkg-query -Wf '${Status}\\n' linux-image-$(uname -r); \
             cat /sys/devices/system/cpu/virtual_tick/active",
        ));
        let said = text(&said.unwrap().stdout);
        assert_eq!(said, format!("systemd\n{release}\ninstall ok installed\n0-1\n"));
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
    inside(&root, &format!("dpkg --purge linux-headers-{release} linux-image-{release}"));
    assert_eq!(inside(&root, files), before);
}
