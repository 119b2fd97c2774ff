// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs, which the crate embeds.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let sources = manifest.join("../../bpf");
    let object = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("exits.bpf.o");
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=PARATICK_CLANG");

    let clang = env::var("PARATICK_CLANG").unwrap_or_else(|_| "clang".to_string());
    let result = Command::new(&clang)
        .args([
            "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror",
        ])
        .arg("-c")
        .arg(sources.join("exits.bpf.c"))
        .arg("-o")
        .arg(&object)
        .output();
    match result {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{clang} could not compile bpf/exits.bpf.c ({}):\n{}\nhint: clang 14 or newer with its BPF target is needed (Debian: apt-get install clang)",
            output.status,
            String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => panic!(
            "cannot run {clang} to compile bpf/exits.bpf.c: {error}\nhint: install clang (Debian: apt-get install clang), or name one in PARATICK_CLANG",
        ),
    }
}
