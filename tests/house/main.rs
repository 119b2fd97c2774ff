// SPDX-License-Identifier: GPL-2.0-only
//! How the source is laid out: arrows between crates point down, and no module uses itself through
//! others.

mod modules;
mod source;

use modules::Modules;
use std::{collections::BTreeSet, fs, path::Path};

/// Each crate, and the crates it may use.
const CRATES: [(&str, &[&str]); 10] = [
    ("core", &[]),
    ("view", &["core"]),
    ("instruments", &["core"]),
    ("observe", &["core", "instruments"]),
    ("service", &["core", "instruments"]),
    ("agent", &["core", "instruments", "service"]),
    ("build", &["core", "service"]),
    ("machine", &["build", "core", "instruments", "service"]),
    ("bench", &["build", "core", "instruments", "machine", "service"]),
    ("cli", &["bench", "build", "core", "machine", "observe", "service", "view"]),
];

fn crates() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn crates_use_only_what_is_below_them() {
    let folders = fs::read_dir(crates()).unwrap();
    let folders: BTreeSet<_> = folders.map(|one| one.unwrap().file_name()).collect();
    assert_eq!(folders, CRATES.iter().map(|(name, _)| (*name).into()).collect());
    for (name, allowed) in CRATES {
        let file = crates().join(name).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let used = manifest.get(table).and_then(|table| table.as_table());
            let used = used.into_iter().flat_map(|table| table.keys());
            for used in used.filter_map(|used| used.strip_prefix("paratick-")) {
                assert!(allowed.contains(&used), "{name} must not use {used}");
            }
        }
    }
}

#[test]
fn no_module_uses_itself_through_others() {
    let found = CRATES.iter().flat_map(|(name, _)| {
        let circles = Modules::read(&crates().join(name).join("src")).circles();
        circles.into_iter().map(move |circle| format!("crates/{name}: {circle}"))
    });
    let found = found.collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "modules that use each other, and where:\n{found}");
}

/// The circles of a crate with these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    Modules::read(folder.path()).circles().into_iter().collect()
}

#[test]
fn a_circle_is_named_with_its_lines() {
    let lib = "mod a;\nmod b;\nmod c;\n";
    let found = circles(&[
        ("lib.rs", lib),
        ("a.rs", "\nuse crate::{\n    b::{self, Deep as D},\n};\npub struct A;\n"),
        ("b.rs", "pub enum Deep {}\nfn f() {\n    vec![super::c::C];\n}\n"),
        ("c.rs", "use crate::a as other;\npub struct C;\nfn g(_: other::A) {}\n"),
    ]);
    assert_eq!(found, ["a.rs:3 -> b.rs:3 -> c.rs:3 -> a.rs"]);
}

#[test]
fn a_parent_that_uses_its_child_must_not_be_used_by_it() {
    let child = ("p/child.rs", "use super::Item;\npub fn f(_: Item) {}\n");
    let parent = "mod child;\npub struct Item;\nfn g() { child::f(Item) }\n";
    let found = circles(&[("lib.rs", "mod p;\n"), ("p/mod.rs", parent), child]);
    assert_eq!(found, ["p/mod.rs:3 -> p/child.rs:1 -> p/mod.rs"]);
    // A child of which others are told, and an item that is a sibling's.
    let parent = "mod child;\nmod item;\npub use child::f;\npub use item::*;\n";
    let item = ("p/item.rs", "pub struct Item;\n");
    assert!(circles(&[("lib.rs", "mod p;\n"), ("p/mod.rs", parent), child, item]).is_empty());
}

#[test]
fn tests_may_use_what_they_test() {
    let a = "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n\
             #[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod more;\n// crate::b::B\n";
    let b = "use crate::a::A;\npub struct B;\n";
    assert!(circles(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", a), ("b.rs", b)]).is_empty());
}
