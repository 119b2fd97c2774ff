// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/crates`, which keeps what cargo made of other people's crates for the next clone.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn crates(verb: &str, target: &Path, cache: &Path) -> Output {
    let mut script = Command::new(format!("{TOP}/scripts/crates"));
    script.arg(verb).current_dir(TOP).env("CARGO_TARGET_DIR", target);
    script.env("PARATICK_CACHE", cache).output().unwrap()
}

/// As cargo leaves it: a crate of others', one of ours, and a program.
fn made(target: &Path, name: &str) {
    for name in [name, "paratick-core"] {
        fs::create_dir_all(target.join(format!("release/.fingerprint/{name}-1"))).unwrap();
        fs::write(target.join(format!("release/.fingerprint/{name}-1/lib")), "").unwrap();
        fs::create_dir_all(target.join("release/deps")).unwrap();
        fs::write(target.join(format!("release/deps/lib{name}-1.rlib")), name).unwrap();
    }
    fs::write(target.join("release/deps/boot-1"), "").unwrap();
}

fn rlibs(target: &Path) -> Vec<String> {
    let entries = fs::read_dir(target.join("release/deps")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn others_crates_are_there_in_the_next_clone_and_ours_are_not() {
    let folder = TempDir::new().unwrap();
    let [cache, first, second, third] =
        ["cache", "first", "second", "third"].map(|name| folder.path().join(name));
    // There is nothing yet.
    assert!(crates("fetch", &first, &cache).status.success() && !first.exists());
    made(&first, "serde");
    assert!(crates("keep", &first, &cache).status.success());
    assert!(crates("fetch", &second, &cache).status.success());
    assert_eq!(rlibs(&second), ["libserde-1.rlib"]);
    // A folder that has crates stays as it is; what is new there is kept, too.
    made(&second, "libc");
    crates("keep", &second, &cache);
    crates("keep", &first, &cache);
    crates("fetch", &first, &cache);
    assert_eq!(rlibs(&first), ["boot-1", "libparatick-core-1.rlib", "libserde-1.rlib"]);
    crates("fetch", &third, &cache);
    assert_eq!(rlibs(&third), ["liblibc-1.rlib", "libserde-1.rlib"]);
}

#[test]
fn a_damaged_store_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let [cache, first, second] = ["cache", "first", "second"].map(|name| folder.path().join(name));
    made(&first, "serde");
    crates("keep", &first, &cache);
    let entries = fs::read_dir(cache.join("crates")).unwrap().flatten();
    let store = entries.map(|entry| entry.path()).find(|path| path.extension().unwrap() == "tar");
    let store = fs::File::options().write(true).open(store.unwrap()).unwrap();
    // In the middle of the last file's header.
    store.set_len(store.metadata().unwrap().len().min(1_200)).unwrap();
    let said = crates("fetch", &second, &cache);
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(error.contains("cannot be unpacked; all crates are compiled"), "{error}");
    assert!(!second.join("release").exists());
    assert_eq!(fs::read_dir(cache.join("crates")).unwrap().count(), 0);
}
