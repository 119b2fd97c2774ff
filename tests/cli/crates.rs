// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/crates`, which keeps what cargo made for the next clone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Sources under git, a cache, and target folders.
struct Clones(TempDir);

impl Clones {
    fn new() -> Clones {
        let clones = Clones(TempDir::new().unwrap());
        for folder in [".cargo", "crates"] {
            fs::create_dir_all(clones.at("source").join(folder)).unwrap();
        }
        for (file, text) in [("Cargo.lock", ""), (".cargo/config.toml", ""), ("crates/a.rs", "1")] {
            clones.write(file, text);
        }
        clones.git(&["init", "-q"]);
        clones.commit();
        clones
    }

    fn git(&self, words: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        git.args(who).args(words).current_dir(self.at("source"));
        assert!(git.status().unwrap().success());
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "A state"]);
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, source: &str, text: &str) {
        fs::write(self.at("source").join(source), text).unwrap();
    }

    fn crates(&self, verb: &str, target: &str) -> Output {
        let mut script = Command::new(format!("{TOP}/scripts/crates"));
        script.arg(verb).current_dir(self.at("source")).env("CARGO_TARGET_DIR", self.at(target));
        let done = script.env("PARATICK_CACHE", self.at("cache")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        done
    }

    /// As cargo leaves it: a crate of others', one of ours, our commands, and a test.
    fn make(&self, target: &str, name: &str) {
        let release = self.at(target).join("x86_64/release");
        for name in [name, "paratick-core"] {
            fs::create_dir_all(release.join(format!(".fingerprint/{name}-1"))).unwrap();
            fs::write(release.join(format!(".fingerprint/{name}-1/lib")), "").unwrap();
            fs::create_dir_all(release.join("deps")).unwrap();
            fs::write(release.join(format!("deps/lib{name}-1.rlib")), name).unwrap();
        }
        for program in ["boot-1", "paratick_core-1", "paratick-1", "paratick_agent-1"] {
            fs::write(release.join("deps").join(program), "").unwrap();
        }
        for (command, made) in [("paratick", "paratick-1"), ("paratick-agent", "paratick_agent-1")]
        {
            let _ = fs::hard_link(release.join("deps").join(made), release.join(command));
        }
    }

    fn made(&self, target: &str) -> Vec<String> {
        let release = self.at(target).join("x86_64/release");
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.path().is_file());
            files.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let mut names = [names(&release.join("deps")), names(&release)].concat();
        names.sort();
        names
    }
}

#[test]
fn others_crates_are_there_in_the_next_clone() {
    let clones = Clones::new();
    // There is nothing yet.
    clones.crates("fetch", "first");
    assert!(clones.made("first").is_empty());
    clones.make("first", "serde");
    clones.crates("keep", "first");
    clones.write("crates/a.rs", "2");
    clones.crates("fetch", "second");
    assert_eq!(clones.made("second"), ["libserde-1.rlib"]);
    // A folder that has crates stays as it is; what is new there is kept, too.
    clones.make("second", "libc");
    clones.crates("keep", "second");
    clones.crates("keep", "first");
    let before = clones.made("first");
    clones.crates("fetch", "first");
    assert_eq!(clones.made("first"), before);
    clones.write("crates/a.rs", "3");
    clones.crates("fetch", "third");
    assert_eq!(clones.made("third"), ["liblibc-1.rlib", "libserde-1.rlib"]);
}

#[test]
fn ours_are_there_where_no_source_is_another_and_tests_are_not() {
    let clones = Clones::new();
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.crates("keep", "first");
    let all = [
        "libparatick-core-1.rlib",
        "libserde-1.rlib",
        "paratick",
        "paratick-1",
        "paratick-agent",
        "paratick_agent-1",
    ];
    clones.crates("fetch", "same");
    assert_eq!(clones.made("same"), all);
    for (source, text) in [("crates/a.rs", "2"), ("crates/new.rs", "")] {
        clones.write(source, text);
        clones.crates("fetch", source);
        assert_eq!(clones.made(source), ["libserde-1.rlib"]);
    }
    clones.write("crates/a.rs", "1");
    fs::remove_file(clones.at("source/crates/new.rs")).unwrap();
    clones.crates("fetch", "again");
    assert_eq!(clones.made("again"), all);
    // cargo compiles what is older than its sources.
    let age = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
    let made = age(&clones.at("again/x86_64/release/deps/libparatick-core-1.rlib"));
    assert!(made > age(&clones.at("source/crates/a.rs")));
}

#[test]
fn sources_that_were_edited_while_they_were_compiled_are_not_taken_for_what_was() {
    let clones = Clones::new();
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.write("crates/a.rs", "2");
    clones.commit();
    clones.crates("keep", "first");
    clones.crates("fetch", "second");
    assert_eq!(clones.made("second"), ["libserde-1.rlib"]);
}

/// Each edit would leave 100 MB in the cache.
#[test]
fn what_is_no_commit_is_not_kept() {
    let clones = Clones::new();
    clones.write("crates/a.rs", "2");
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.crates("keep", "first");
    clones.crates("fetch", "second");
    assert_eq!(clones.made("second"), ["libserde-1.rlib"]);
}

#[test]
fn of_a_damaged_store_of_ours_others_crates_are_left() {
    let clones = Clones::new();
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.crates("keep", "first");
    let entries = fs::read_dir(clones.at("cache/crates")).unwrap().flatten();
    let mut stores = entries.map(|entry| entry.path());
    let ours = stores.find(|path| path.to_str().unwrap().ends_with(".ours.tar")).unwrap();
    fs::OpenOptions::new().write(true).open(&ours).unwrap().set_len(1_200).unwrap();
    clones.crates("fetch", "second");
    assert_eq!(clones.made("second"), ["libserde-1.rlib"]);
    assert!(!ours.exists());
}

#[test]
fn a_damaged_store_leaves_nothing_behind() {
    let clones = Clones::new();
    clones.make("first", "serde");
    clones.crates("keep", "first");
    let entries = fs::read_dir(clones.at("cache/crates")).unwrap().flatten();
    for store in entries.map(|entry| entry.path()).filter(|path| path.extension().unwrap() == "tar")
    {
        let store = fs::File::options().write(true).open(store).unwrap();
        // In the middle of the last file's header.
        store.set_len(store.metadata().unwrap().len().min(1_200)).unwrap();
    }
    let said = clones.crates("fetch", "second");
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(error.contains("cannot be unpacked; what it holds is compiled"), "{error}");
    assert!(!clones.at("second/x86_64/release").exists());
}

/// Else a clone would take what was made of other sources.
#[test]
fn all_sources_of_the_commands_are_looked_at() {
    let script = fs::read_to_string(format!("{TOP}/scripts/crates")).unwrap();
    let sources = script.lines().find_map(|line| line.strip_prefix("SOURCES='")).unwrap();
    let sources: Vec<_> = sources.trim_end_matches('\'').split(' ').collect();
    let top = Path::new(TOP).canonicalize().unwrap();
    let release = std::env::current_exe().unwrap();
    let release = release.parent().unwrap().parent().unwrap();
    for command in ["paratick", "paratick-agent"] {
        let made_of = fs::read_to_string(release.join(command).with_extension("d")).unwrap();
        let (_, files) = made_of.split_once(": ").unwrap();
        let files = files.split_whitespace().filter_map(|file| Path::new(file).canonicalize().ok());
        let ours: Vec<_> = files
            .filter_map(|file| file.strip_prefix(&top).map(PathBuf::from).ok())
            .filter(|file| !file.starts_with("target"))
            .collect();
        assert!(ours.len() > 50, "{ours:?}");
        for file in ours {
            let known = sources.iter().any(|source| file.starts_with(source));
            assert!(known, "{} is not in SOURCES of scripts/crates", file.display());
        }
    }
}
