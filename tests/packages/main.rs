// SPDX-License-Identifier: GPL-2.0-only
//! The Debian packages: the same bytes from two places, and tried in fresh systems.  They take
//! minutes, and packages that nothing else needs: `scripts/tests packages` runs them.

mod host;
mod kernel;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// What is read in the fresh systems.
const READ: [&str; 3] =
    ["recorded-exits-before.json", "recorded-exits-after.json", "recorded.json"];

/// `paratick` mounts tracefs where there is none.
const TRY: &str = "--customize-hook=chroot \"$1\" sh /packages/installed.sh; code=$?; \
                   umount \"$1/sys/kernel/tracing\" 2>/dev/null; exit $code";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What a command prints, and says on standard error; it must do well.
fn run(command: &mut Command) -> [String; 2] {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [printed, said] = [output.stdout, output.stderr].map(|s| String::from_utf8(s).unwrap());
    assert!(output.status.success(), "{command:?}: {printed}{said}");
    [printed, said]
}

/// Builds the packages of a checkout; lintian has looked at them.
fn packages(checkout: &Path) -> Vec<PathBuf> {
    let [printed, _] = run(&mut Command::new(checkout.join("scripts/deb")));
    let packages: Vec<PathBuf> = printed.lines().map(PathBuf::from).collect();
    let has = |start: &str| {
        packages.iter().any(|file| file.file_name().unwrap().to_str().unwrap().starts_with(start))
    };
    assert!(packages.len() == 2 && has("paratick_") && has("paratick-lab_"), "{packages:?}");
    packages
}

fn try_in(suite: &str, security: &str) {
    let (top, folder) = (top(), TempDir::new().unwrap());
    let shown = folder.path().join("packages");
    fs::create_dir(&shown).unwrap();
    let script = top.join("tests/packages/installed.sh");
    let read = READ.map(|name| top.join("tests/cli").join(name));
    for file in packages(&top).iter().chain([&script]).chain(&read) {
        fs::copy(file, shown.join(file.file_name().unwrap())).unwrap();
    }
    let [_, said] = run(Command::new("mmdebstrap")
        .args(["--quiet", "--variant=apt", "--include=man-db"])
        .arg(format!("--customize-hook=copy-in {} /", shown.display()))
        .arg(TRY)
        .args([suite, "/dev/null"])
        .arg(format!("deb http://deb.debian.org/debian {suite} main"))
        .arg(format!("deb http://deb.debian.org/debian-security {security} main")));
    assert!(said.contains("purged; nothing is left"), "{said}");
}

#[test]
#[ignore = "minutes, mmdebstrap and a network"]
fn they_are_installed_tried_and_purged_on_debian_12() {
    try_in("bookworm", "bookworm-security");
}

#[test]
#[ignore = "minutes, mmdebstrap and a network"]
fn they_are_installed_tried_and_purged_on_debian_13() {
    try_in("trixie", "trixie-security");
}

#[test]
#[ignore = "compiles everything once more"]
fn two_builds_in_two_places_give_the_same_bytes() {
    let (here, elsewhere) = (top(), TempDir::new().unwrap());
    // With what is not committed, and without what was built.
    let copy = "tar -C \"$0\" --exclude=./target --exclude=./bin -c . | tar -C \"$1\" -x";
    run(Command::new("sh").args(["-c", copy]).arg(&here).arg(elsewhere.path()));
    for (one, other) in packages(&here).iter().zip(packages(elsewhere.path())) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(fs::read(one).unwrap() == fs::read(&other).unwrap(), "{} differs", one.display());
    }
}
