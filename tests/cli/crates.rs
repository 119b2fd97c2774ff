// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/crates`, which keeps what cargo made for the next clone.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// cargo's name for a unit of the build.
const BUILT: &str = "0123456789abcdef";
const PARATICK: &str = "paratick-00000000000000aa";
const AGENT: &str = "paratick_agent-00000000000000bb";
/// And for one that is not: of lints, of tests, or of before.
const OTHER: &str = "fedcba9876543210";

fn library(name: &str) -> String {
    format!("lib{name}-{BUILT}.rlib")
}

/// Sources under git, a cache, and target folders.
struct Clones(TempDir);

impl Clones {
    fn new() -> Clones {
        let clones = Clones(TempDir::new().unwrap());
        for folder in ["source/.cargo", "source/crates", "bin"] {
            fs::create_dir_all(clones.at(folder)).unwrap();
        }
        // A cargo that has built, as far as this script asks.
        let tells =
            format!("#!/bin/sh\necho '{{\"filenames\":[\"libparatick-core-{BUILT}.rlib\"]}}'\n");
        fs::write(clones.at("bin/cargo"), tells).unwrap();
        fs::set_permissions(clones.at("bin/cargo"), fs::Permissions::from_mode(0o755)).unwrap();
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
        let path = std::env::var("PATH").unwrap();
        script.env("PATH", format!("{}:{path}", self.at("bin").display()));
        let done = script.env("PARATICK_CACHE", self.at("cache")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        done
    }

    /// As cargo leaves it: a crate of others', one of ours, our commands, a test, and what is of
    /// another build.
    fn make(&self, target: &str, name: &str) {
        let release = self.at(target).join("x86_64/release");
        fs::create_dir_all(release.join("deps")).unwrap();
        for (name, unit) in [(name, BUILT), ("paratick-core", BUILT), ("paratick-core", OTHER)] {
            fs::create_dir_all(release.join(format!(".fingerprint/{name}-{unit}"))).unwrap();
            fs::write(release.join(format!(".fingerprint/{name}-{unit}/lib")), "").unwrap();
            fs::write(release.join(format!("deps/lib{name}-{unit}.rlib")), name).unwrap();
        }
        for program in ["boot", "paratick_core"] {
            fs::write(release.join(format!("deps/{program}-{OTHER}")), "").unwrap();
        }
        for (command, made) in [("paratick", PARATICK), ("paratick-agent", AGENT)] {
            fs::write(release.join("deps").join(made), "").unwrap();
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
    assert_eq!(clones.made("second"), [library("serde")]);
    // A folder that has crates stays as it is; what is new there is kept, too.
    clones.make("second", "libc");
    clones.crates("keep", "second");
    clones.crates("keep", "first");
    let before = clones.made("first");
    clones.crates("fetch", "first");
    assert_eq!(clones.made("first"), before);
    clones.write("crates/a.rs", "3");
    clones.crates("fetch", "third");
    assert_eq!(clones.made("third"), [library("libc"), library("serde")]);
}

#[test]
fn ours_are_there_where_no_source_is_another_and_tests_are_not() {
    let clones = Clones::new();
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.crates("keep", "first");
    let ours = format!("libparatick-core-{BUILT}.rlib");
    let serde = library("serde");
    let all = [&ours, &serde, "paratick", PARATICK, "paratick-agent", AGENT];
    clones.crates("fetch", "same");
    assert_eq!(clones.made("same"), all);
    for (source, text) in [("crates/a.rs", "2"), ("crates/new.rs", "")] {
        clones.write(source, text);
        clones.crates("fetch", source);
        assert_eq!(clones.made(source), [library("serde")]);
    }
    clones.write("crates/a.rs", "1");
    fs::remove_file(clones.at("source/crates/new.rs")).unwrap();
    clones.crates("fetch", "again");
    assert_eq!(clones.made("again"), all);
    // cargo compiles what is older than its sources.
    let age = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
    let made = age(&clones.at("again/x86_64/release/deps").join(ours));
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
    assert_eq!(clones.made("second"), [library("serde")]);
}

/// By a real cargo: what was checked is of the state before, what is built of that which is
/// committed.
#[test]
fn units_of_an_older_state_pass_for_new_in_no_clone() {
    let clones = Clones::new();
    fs::remove_file(clones.at("bin/cargo")).unwrap();
    clones.write(".cargo/config.toml", "[build]\ntarget = \"x86_64-unknown-linux-gnu\"\n");
    let members = "[workspace]\nmembers = [\"crates/paratick\", \"crates/paratick-lower\"]\n";
    clones.write("Cargo.toml", &format!("{members}resolver = \"3\"\n"));
    let package = |path: &str, name: &str, depends: &str| {
        fs::create_dir_all(clones.at("source").join(path).join("src")).unwrap();
        let about = format!("name = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        let depends = format!("[dependencies]\n{depends}\n");
        clones.write(&format!("{path}/Cargo.toml"), &format!("[package]\n{about}{depends}"));
    };
    package("../other", "other", "");
    package("crates/paratick-lower", "paratick-lower", "other = { path = \"../../../other\" }");
    let lower = "paratick-lower = { path = \"../paratick-lower\" }";
    package("crates/paratick", "paratick", lower);
    clones.write("../other/src/lib.rs", "");
    for file in ["other/src/lib.rs", "other/Cargo.toml"] {
        // As old as a registry's: tar keeps whole seconds.
        let source = fs::File::options().write(true).open(clones.at(file)).unwrap();
        source.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let state = |calls: &str| {
        clones.write("crates/paratick-lower/src/lib.rs", &format!("pub fn {calls}() {{}}\n"));
        let main = format!("fn main() {{ paratick_lower::{calls}() }}\n");
        clones.write("crates/paratick/src/main.rs", &main);
    };
    let cargo = |target: &str, words: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.args(words).args(["--release", "--offline", "--workspace"]);
        cargo.current_dir(clones.at("source")).env("CARGO_TARGET_DIR", clones.at(target));
        let done = cargo.output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    state("before");
    clones.crates("fetch", "first");
    cargo("first", &["build"]);
    cargo("first", &["check"]);
    state("after");
    clones.commit();
    clones.crates("fetch", "first");
    cargo("first", &["build"]);
    clones.crates("keep", "first");
    clones.crates("fetch", "second");
    assert!(clones.at("second/x86_64-unknown-linux-gnu/release/paratick").exists());
    // Its tests were not checked before, so they are against what was kept.
    cargo("second", &["check", "--all-targets"]);
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
    assert_eq!(clones.made("second"), [library("serde")]);
}

#[test]
fn of_a_damaged_store_of_ours_others_crates_are_left() {
    let clones = Clones::new();
    clones.crates("fetch", "first");
    clones.make("first", "serde");
    clones.crates("keep", "first");
    let entries = fs::read_dir(clones.at("cache/crates")).unwrap().flatten();
    let mut stores = entries.map(|entry| entry.path());
    let ours = stores.find(|path| path.to_str().unwrap().ends_with(".built.tar")).unwrap();
    fs::OpenOptions::new().write(true).open(&ours).unwrap().set_len(1_200).unwrap();
    clones.crates("fetch", "second");
    assert_eq!(clones.made("second"), [library("serde")]);
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
