// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/: the BPF programs, which the crate embeds, the noting of facts for user space, and
//! the header that both sides share, which becomes Rust.

mod header;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const WARNINGS: [&str; 3] = ["-Wall", "-Werror", "-Wno-unused-variable"];

/// BPF programs, each with a header that user space shares.
const SHARED: [&str; 11] = [
    "exits", "halts", "kept", "noise", "osnoise", "pcpus", "polls", "steps", "timerlat", "timers",
    "vcpu",
];

/// BPF programs that share the header of another.
const MORE: [&str; 1] = ["sampler"];

fn main() {
    let sources = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed=../../bpf");
    println!("cargo:rerun-if-env-changed=PARATICK_CLANG");

    for name in SHARED {
        let text = fs::read_to_string(sources.join(name).with_extension("h")).unwrap();
        fs::write(out.join(name).with_extension("rs"), header::to_rust(&text)).unwrap();
    }

    let clang = env::var("PARATICK_CLANG").unwrap_or_else(|_| "clang".to_string());
    // Debug information names no folder of this machine.
    let top = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let top = format!("-ffile-prefix-map={}=.", top.canonicalize().unwrap().display());
    let compile = |options: &[&str], from: &str, to: &str| {
        let mut command = Command::new(&clang);
        command.args(["-O2", "-c", &top]).args(WARNINGS).args(options);
        run(command.arg(sources.join(from)).arg("-o").arg(out.join(to)));
    };
    let bpf = ["-g", "-target", "bpf", "-mcpu=v3"];
    for name in SHARED.into_iter().chain(MORE) {
        compile(&bpf, &format!("{name}.bpf.c"), &format!("{name}.bpf.o"));
    }
    compile(&["-fPIC"], "native.c", "native.o");
    let archive = out.join("libparatick_note.a");
    run(Command::new("ar").arg("crs").arg(archive).arg(out.join("native.o")));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=paratick_note");
}

fn run(command: &mut Command) {
    let hint = "hint: install clang 14 or newer and binutils (Debian: apt-get install clang \
                binutils); PARATICK_CLANG may name another clang";
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{command:?} failed ({}):\n{}\n{hint}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => panic!("cannot run {command:?}: {error}\n{hint}"),
    }
}
