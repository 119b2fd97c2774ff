// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel deb`, with stand-ins for the kernel's `make`, for Debian's archive and for the
//! tools that make packages.

use crate::support::{bzimage, Checkout, SECOND};
use assert_cmd::Command;
use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process};

const CONFIG: &str = "usr/src/linux-config-6.12/config.amd64_none_amd64";
/// What this cannot be told apart from by a program on PATH.
const HEADER: &str = "/usr/include/openssl/ssl.h";

/// A checkout with fragments for packages, and a folder of programs.
fn checkout() -> Checkout {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/deb.config", "CONFIG_KVM=m\n");
    checkout.write("kernel/config/debian.config", "CONFIG_KEYS=\"\"\n");
    for name in ["dh", "rsync", "kmod", "cpio", "zstd"] {
        program(&checkout, name, "exit 1");
    }
    program(&checkout, "pahole", "echo v1.24");
    checkout
}

fn program(checkout: &Checkout, name: &str, text: &str) {
    checkout.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(checkout.path("bin").join(name), executable).unwrap();
}

/// An archive that has the package with Debian's configuration, in this version.
fn archive(checkout: &Checkout, version: &str, config: &str) {
    let tree = checkout.path("package");
    checkout.write(&format!("package/{CONFIG}"), config);
    assert!(run("xz", &[Path::new("-f"), &tree.join(CONFIG)]));
    checkout.write(
        "package/DEBIAN/control",
        &format!(
            "Package: linux-config-6.12\nVersion: {version}\nArchitecture: amd64\n\
             Maintainer: a <a@b>\nDescription: a\n"
        ),
    );
    let deb = checkout.path("linux-config-6.12_amd64.deb");
    assert!(run("dpkg-deb", &[Path::new("-b"), &tree, &deb]));
    let get = format!(
        "case \"$*\" in *\"download linux-config-6.12={version}\") cp {} . ;; \
         *download*) echo 'E: no such version' >&2; exit 100 ;; esac",
        deb.display()
    );
    program(checkout, "apt-get", &get);
}

fn run(program: &str, args: &[&Path]) -> bool {
    process::Command::new(program).args(args).output().unwrap().status.success()
}

fn deb(checkout: &Checkout, args: &[&str]) -> Command {
    let path = format!("{}:{}", checkout.path("bin").display(), env::var("PATH").unwrap());
    let mut command = checkout.paratick(&[&["kernel", "deb"], args].concat());
    command.env("PATH", path);
    command
}

fn json(command: &mut Command) -> serde_json::Value {
    serde_json::from_slice(&command.assert().success().get_output().stdout).unwrap()
}

fn fails(command: &mut Command, code: i32) -> String {
    String::from_utf8(command.assert().code(code).get_output().stderr.clone()).unwrap()
}

#[test]
fn packages_are_of_the_series_that_one_would_mail() {
    if !Path::new(HEADER).is_file() {
        eprintln!("not run: there is no {HEADER}");
        return;
    }
    let checkout = checkout();
    let to = checkout.path("out");
    let args = ["--config", "lab", "--format", "json", "--output", to.to_str().unwrap()];
    let said = json(&mut deb(&checkout, &args));
    assert_eq!(said["release"], "6.12.0-paratick-lab");
    assert_eq!((&said["version"], &said["btf"]), (&"1+paratick0.1.0".into(), &false.into()));
    for kind in ["image", "headers"] {
        let name = format!("linux-{kind}-6.12.0-paratick-lab_1+paratick0.1.0_amd64.deb");
        assert_eq!(said[kind], to.join(&name).to_str().unwrap());
        let expected = format!("{SECOND} -- a <a@b>  Thu, 01 Jan 2026 00:00:00 +0000\n");
        assert_eq!(fs::read_to_string(to.join(name)).unwrap(), expected);
    }
    // Debian's own package of this name is not to be replaced.
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    let config = fs::read_to_string(said["config"].as_str().unwrap()).unwrap();
    assert!(config.contains("CONFIG_A=y\n") && config.contains("CONFIG_KVM=m\n"), "{config}");
    assert!(!config.contains("CONFIG_KEYS"), "{config}");
    // The second time they are there.
    program(&checkout, "make", "exit 1");
    assert_eq!(json(&mut deb(&checkout, &args)), said);
}

#[test]
fn debians_configuration_is_taken_whole_without_its_keys() {
    let checkout = checkout();
    archive(&checkout, "1", "CONFIG_DEBIAN=y\nCONFIG_KEYS=\"debian.pem\"\n");
    let said = json(&mut deb(&checkout, &["--dry-run", "--format", "json"]));
    assert_eq!(said["release"], "6.12.0-paratick-amd64");
    assert_eq!(said["btf"], true);
    let text = deb(&checkout, &["--dry-run"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).unwrap();
    let file = text.lines().find_map(|line| line.strip_prefix("config   ")).unwrap();
    let config = fs::read_to_string(file).unwrap();
    assert!(config.starts_with("CONFIG_DEBIAN=y\n"), "{config}");
    assert!(config.contains("CONFIG_KEYS=\"\"\n") && !config.contains("CONFIG_A"), "{config}");
    assert!(config.contains("CONFIG_DEBUG_INFO_BTF=y\n"), "{config}");
}

#[test]
fn an_option_of_the_series_that_is_lost_is_an_error() {
    let checkout = checkout();
    checkout.write("kernel/config/deb.config", "CONFIG_KVM=m\nCONFIG_DROPPED=y\n");
    let error = fails(&mut deb(&checkout, &["--config", "lab", "--dry-run"]), 69);
    assert!(error.contains("CONFIG_DROPPED=y (is n)\nhint: "), "{error}");
    assert!(!error.contains("CONFIG_KVM"), "{error}");
}

#[test]
fn a_configuration_of_another_version_is_not_taken() {
    let checkout = checkout();
    archive(&checkout, "2", "CONFIG_DEBIAN=y\n");
    let error = fails(&mut deb(&checkout, &["--dry-run"]), 69);
    let hint = "hint: `apt-get install linux-source-6.12` brings";
    assert!(error.contains("no linux-config-6.12 of that version"), "{error}");
    assert!(error.contains(hint) && error.contains("E: no such version"), "{error}");
}

#[test]
fn what_packages_are_made_with_is_named_where_it_is_missing() {
    let checkout = checkout();
    fs::remove_file(checkout.path("bin/rsync")).unwrap();
    let mut command = checkout.paratick(&["kernel", "deb", "--config", "lab"]);
    let error = fails(command.env("PATH", checkout.path("bin")), 69);
    assert!(error.contains("this needs dpkg-dev, rsync, "), "{error}");
    assert!(error.contains("hint: apt-get install --no-install-recommends "), "{error}");
    for wrong in [&["--config", "rt"][..], &["--dry-run", "--output", "a"]] {
        let error = fails(&mut deb(&checkout, wrong), 2);
        assert!(error.contains("hint: "), "{error}");
    }
}

/// Those of the lab's own series would silently be `tickless`.
#[test]
fn a_package_with_the_series_has_no_mode_of_the_labs() {
    let checkout = checkout();
    checkout.write(
        "package/DEBIAN/control",
        "Package: linux-image-6.12.0-paratick-lab\nSource: linux-paratick\nVersion: 1\n\
         Architecture: amd64\nMaintainer: a <a@b>\nDescription: a\n",
    );
    let deb = checkout.path("image.deb");
    assert!(run("dpkg-deb", &[Path::new("-b"), &checkout.path("package"), &deb]));
    let image = checkout.path("bzImage");
    fs::write(&image, bzimage("6.12.0-paratick-lab (a)")).unwrap();
    for kernel in [&deb, &image].map(|file| file.to_str().unwrap()) {
        for mode in ["tickless-stop", "tickless+poll"] {
            let mut command =
                checkout.paratick(&["lab", "run", "--kernel", kernel, "--mode", mode, "true"]);
            let error = fails(&mut command, 2);
            let said = format!("has no mode {mode}: it has no patches of the lab's");
            assert!(error.contains(&said), "{error}");
            assert!(error.contains("\nhint: name a kernel that the lab builds"), "{error}");
        }
        let options = ["lab", "run", "--dry-run", "--kernel", kernel, "--mode", "paratick", "true"];
        let said = checkout.paratick(&options).env("PARATICK_QEMU", "/bin/true").output().unwrap();
        assert!(!String::from_utf8(said.stderr).unwrap().contains("has no mode"));
    }
}
