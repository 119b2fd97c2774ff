// SPDX-License-Identifier: GPL-2.0-only
//! `scripts/crates` hands a clone what cargo made elsewhere: never what an older state was made of.

use std::{fs, path::Path, process::Command};

fn run(folder: &Path, cache: &Path, program: &str, args: &[&str]) {
    let done = Command::new(program)
        .args(args)
        .current_dir(folder)
        .env("PARATICK_CACHE", cache)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {args:?} in {}: {said}", folder.display());
}

/// A workspace of a command and a crate of ours, of which the command calls `calls`, and a crate of
/// somebody else's.
fn write(folder: &Path, calls: &str) {
    let lower = "[dependencies]\nparatick-lower = { path = \"../paratick-lower\" }\n";
    let other = "[dependencies]\nother = { path = \"../../../other\" }\n";
    for (name, depends, file, text) in [
        ("other", "", "lib.rs", String::new()),
        ("paratick-lower", other, "lib.rs", format!("pub fn {calls}() {{}}\n")),
        (
            "paratick",
            lower,
            "main.rs",
            format!("fn main() {{\n    paratick_lower::{calls}();\n}}\n"),
        ),
    ] {
        let at = match name {
            "other" => folder.join("../other"),
            ours => folder.join("crates").join(ours),
        };
        fs::create_dir_all(at.join("src")).unwrap();
        let about = format!("name = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        fs::write(at.join("Cargo.toml"), format!("[package]\n{about}{depends}")).unwrap();
        fs::write(at.join("src").join(file), text).unwrap();
        if name == "other" {
            // As old as a registry's: tar keeps whole seconds.
            let source = fs::File::options().write(true).open(at.join("src").join(file)).unwrap();
            source.set_modified(std::time::UNIX_EPOCH).unwrap();
            let about = fs::File::options().write(true).open(at.join("Cargo.toml")).unwrap();
            about.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    }
    fs::create_dir_all(folder.join(".cargo")).unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cargo/config.toml");
    fs::copy(ours, folder.join(".cargo/config.toml")).unwrap();
    fs::write(folder.join(".gitignore"), "target\n").unwrap();
    let members = "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n";
    fs::write(folder.join("Cargo.toml"), members).unwrap();
}

#[test]
fn a_clone_gets_no_crates_of_an_older_state() {
    let at = tempfile::tempdir().unwrap();
    let (first, cache) = (at.path().join("first"), at.path().join("cache"));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/crates");
    let crates = crates.to_str().unwrap();
    let commit = |folder: &Path| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        run(folder, &cache, "git", &["add", "-A"]);
        run(folder, &cache, "git", &[&who[..], &["commit", "-qm", "a state"]].concat());
    };
    let build = |folder: &Path| {
        run(folder, &cache, crates, &["fetch"]);
        run(folder, &cache, "cargo", &["build", "--release", "--offline", "--workspace"]);
        run(folder, &cache, crates, &["keep"]);
    };
    let check = ["check", "--release", "--locked", "--offline", "--workspace"];
    fs::create_dir(&first).unwrap();
    run(&first, &cache, "git", &["init", "-q"]);
    write(&first, "before");
    build(&first);
    run(&first, &cache, "cargo", &check);
    // What was checked is of the state before; what is built is of the state that is committed.
    write(&first, "after");
    commit(&first);
    build(&first);

    let second = at.path().join("second");
    run(at.path(), &cache, "git", &["clone", "-q", "first", "second"]);
    run(&second, &cache, crates, &["fetch"]);
    let command = "target/x86_64-unknown-linux-gnu/release/paratick";
    assert!(second.join(command).exists(), "nothing was kept");
    // Its tests were not checked before, so they are against what was kept.
    run(&second, &cache, "cargo", &[&check[..], &["--all-targets"]].concat());
}
