// SPDX-License-Identifier: GPL-2.0-only
//! `--kernel debian:…` and FILE.deb: what is refused, with an archive of these tests' own.

use crate::support::{bzimage, paratick};
use assert_cmd::Command;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
};
use tempfile::TempDir;

/// A cache, and a folder with packages.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Boots a guest with this kernel, if the kernel can be had.
    fn lab(&self, kernel: &str) -> Command {
        let mut run = paratick(&["lab", "run", "--mode", "tickless", "--kernel", kernel]);
        run.args(["--", "true"]).env("PARATICK_CACHE", self.path("cache"));
        run.env("PARATICK_QEMU", "/bin/true").env("PARATICK_AGENT", "/bin/true");
        run
    }

    /// A package that has these empty files.
    fn package(&self, name: &str, files: &[&str]) -> PathBuf {
        let (tree, deb) = (self.path(name), self.path(&format!("{name}_1_amd64.deb")));
        for file in files {
            write(&tree.join(file), "");
        }
        let control = format!(
            "Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\n\
             Description: a\n"
        );
        write(&tree.join("DEBIAN/control"), &control);
        let mut build = process::Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-b"]).arg(&tree).arg(&deb);
        assert!(build.output().unwrap().status.success());
        deb
    }

    /// An apt that knows one package, and of it only has a beginning.
    fn apt(&self) -> String {
        let known = "linux-image-6.1.0-1-amd64";
        let cache = format!("#!/bin/sh\nfor last; do :; done\necho {known} | grep \"^$last\"\n:\n");
        let get = format!(
            "#!/bin/sh\ncase \"$*\" in *download*)\n\
             echo part >{known}_1_amd64.deb; echo 'E: Failed to fetch' >&2; exit 100;; esac\n"
        );
        for (program, text) in [("apt-cache", cache), ("apt-get", get)] {
            let file = self.path("bin").join(program);
            write(&file, &text);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap())
    }

    /// What the cache has of kernels, whole or in part.
    fn kept(&self) -> Vec<PathBuf> {
        ["kernel", "work/debian/stage"]
            .iter()
            .flat_map(|folder| fs::read_dir(self.path("cache").join(folder)).into_iter().flatten())
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Standard error of a run that ends with this code.
fn fails(command: &mut Command, code: i32) -> String {
    let output = command.assert().code(code).get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn a_download_that_stops_leaves_nothing() {
    let place = Place::new();
    let path = place.apt();
    // What a run has left that was killed.
    write(&place.path("cache/work/debian/stage/left/linux-image-6.1.0-1-amd64_1_amd64.deb"), "");
    for name in ["6.1", "linux-image-6.1.0-1-amd64"] {
        let error = fails(place.lab(&format!("debian:{name}")).env("PATH", &path), 69);
        assert!(error.contains("cannot fetch the package linux-image-6.1.0-1-amd64"), "{error}");
        assert!(error.contains("hint: this needs the network") && error.contains("E: Failed"));
        assert!(place.kept().is_empty());
    }
}

#[test]
fn a_package_that_does_not_exist_is_named() {
    let place = Place::new();
    let path = place.apt();
    for (name, package) in
        [("linux-image-6.1.0-2-amd64", "linux-image-6.1.0-2-amd64"), ("5.4", "linux-image-5.4.…")]
    {
        let error = fails(place.lab(&format!("debian:{name}")).env("PATH", &path), 69);
        let expected = format!("Debian has no package {package}: ");
        assert!(error.contains(&expected) && error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn a_file_that_is_no_package_is_named() {
    let place = Place::new();
    let file = place.path("linux-image-6.1.deb");
    write(&file, "<html>");
    let error = fails(&mut place.lab(file.to_str().unwrap()), 69);
    assert!(error.contains("linux-image-6.1.deb is no package of Debian's\nhint: "), "{error}");
    let error = fails(&mut place.lab("linux-image-6.12.deb"), 2);
    assert!(error.contains("no such file\nhint: "), "{error}");
}

#[test]
fn a_package_without_a_kernel_that_the_lab_can_use_is_refused() {
    let place = Place::new();
    let boot = ["boot/vmlinuz-6.1.0-1-amd64", "boot/config-6.1.0-1-amd64"];
    let modules = ["modules.builtin", "kernel/drivers/virtio/virtio_pci.ko"];
    let modules = modules.map(|file| format!("lib/modules/6.1.0-1-amd64/{file}"));
    let all: Vec<&str> = boot.into_iter().chain(modules.iter().map(String::as_str)).collect();
    for (name, files, expected) in [
        ("hello", &["usr/bin/hello"][..], "no kernel image in it\nhint: "),
        ("linux-image-6.1.0-1-amd64", &boot, "no modules of Linux 6.1.0-1-amd64 in it\nhint: "),
        ("linux-image-6.1.0-2-amd64", &all, "has no virtio_console, neither built in nor as a "),
    ] {
        let deb = place.package(name, files);
        let error = fails(&mut place.lab(deb.to_str().unwrap()), 69);
        assert!(error.contains(&format!("cannot take a kernel from {name}")), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(place.kept().is_empty());
    }
}

#[test]
fn an_image_whose_configuration_has_no_virtio_is_refused() {
    let place = Place::new();
    let image = place.path("vmlinuz-6.1.0-1-amd64");
    fs::write(&image, bzimage("")).unwrap();
    write(&place.path("config-6.1.0-1-amd64"), "CONFIG_VIRTIO_PCI=m\n");
    let error = fails(&mut place.lab(image.to_str().unwrap()), 2);
    assert!(error.contains("no CONFIG_VIRTIO_PCI built in"), "{error}");
    assert!(error.contains("\nhint: ") && error.contains("--kernel debian:"), "{error}");
}

#[test]
fn a_host_whose_first_cpu_keeps_its_turn_is_refused() {
    let place = Place::new();
    let image = place.path("bzImage");
    fs::write(&image, bzimage("6.1.0-56 (a)")).unwrap();
    let run = |options: &[&str]| {
        let mut run = paratick(&["lab", "run", "--dry-run", "--accel", "tcg", "--kernel"]);
        run.arg(&image).args(options).args(["--", "true"]);
        run.env("PARATICK_CACHE", place.path("cache"));
        run.env("PARATICK_QEMU", "/bin/true").env("PARATICK_AGENT", "/bin/true");
        run
    };
    let error = fails(&mut run(&[]), 69);
    assert!(error.contains("before Linux 6.5") && error.contains("hint: "), "{error}");
    run(&["--parallel-clock"]).assert().code(0);
}
