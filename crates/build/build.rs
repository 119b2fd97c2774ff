// SPDX-License-Identifier: GPL-2.0-only
//! Lists the project's files that are built in, for `src/project.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Whole folders: a new series, base or patch is built in without being named here.
const FOLDERS: [&str; 3] = ["emulator", "kernel", "vmm"];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let mut files = vec![];
    for folder in FOLDERS {
        // Relative, as all that follows: what is built is the next clone's, too (scripts/crates).
        println!("cargo:rerun-if-changed=../../{folder}");
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in files.iter().filter(|file| file.extension() != Some("md".as_ref())) {
        let name = file.strip_prefix(&root).unwrap();
        let contents = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../\", {name:?})");
        list += &format!("({name:?}, include_bytes!({contents}) as &[u8]),\n");
    }
    let to = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("built_in.rs");
    fs::write(to, list + "]\n").unwrap();
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
