// SPDX-License-Identifier: GPL-2.0-only
//! The C header, compiled for user space, says what the Rust says.

use super::*;
use proptest::{prelude::*, test_runner::Config};
use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const HEADER: &str = "include/linux/poll_window.h";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The header as the patch adds it that is in one of the series.
fn from_series() -> Option<String> {
    let in_folder = |path: PathBuf| {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    let series = in_folder(root().join("kernel/series"));
    let bases = series.into_iter().flat_map(in_folder).filter(|path| path.is_dir());
    let files = bases.flat_map(in_folder);
    let mut patches = files.filter(|path| path.extension().is_some_and(|end| end == "patch"));
    patches.find_map(|patch| added(&fs::read_to_string(patch).unwrap()))
}

fn added(patch: &str) -> Option<String> {
    let (_, file) = patch.split_once(&format!("--- /dev/null\n+++ b/{HEADER}\n"))?;
    let lines = file.lines().skip(1).map_while(|line| line.strip_prefix('+'));
    Some(lines.fold(String::new(), |text, line| text + line + "\n"))
}

fn header() -> String {
    from_series().unwrap_or_else(|| panic!("no patch adds {HEADER}"))
}

/// The header's functions as a program, in a folder that is removed with it.
struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    fn compile() -> Program {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("linux")).unwrap();
        write("linux/poll_window.h", &header());
        let stand_ins = fs::read_to_string(root().join("tests/poll-window/linux.h")).unwrap();
        write("linux/types.h", &stand_ins);
        write("linux/bitops.h", "");
        write("linux/minmax.h", "");
        let output = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"])
            .args(["-fno-sanitize-recover", "-include", "linux/types.h", "-o", "program", "-I."])
            .arg(root().join("tests/poll-window/main.c").canonicalize().unwrap())
            .current_dir(folder.path())
            .output()
            .expect("a C compiler: scripts/bootstrap installs one");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Program { folder }
    }

    /// What it prints for halts of `max cost deadline ns`.
    fn run(&self, halts: &str) -> String {
        let mut child = Command::new(self.folder.path().join("program"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let halts = halts.to_string();
        let writer = std::thread::spawn(move || input.write_all(halts.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The same from Rust.
fn in_rust(halts: &[(u32, u32, u64, u64)]) -> String {
    let mut window = Window::default();
    let mut text = String::new();
    for (max, cost, deadline, ns) in halts {
        let limit = window.limit(*deadline, *max, *cost);
        let chosen = window.note(*ns, *max, *cost);
        write!(text, "{limit} {} {}", u8::from(chosen), window.after).unwrap();
        for past in &window.past {
            write!(text, " {} {} {}", past.ns, past.halts, past.fresh).unwrap();
            for count in past.count {
                write!(text, " {count}").unwrap();
            }
        }
        text += "\n";
    }
    text
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_000u64,
        0..1_000_000u64,
        Just(6_000),
        any::<u64>(),
        (0..40u32).prop_map(|bit| 1 << bit)
    ]
}

fn parameters() -> impl Strategy<Value = (u32, u32)> {
    let costs = prop_oneof![0..100_000u32, Just(10_000), any::<u32>()];
    let maxima = prop_oneof![0..1_000_000u32, Just(200_000), any::<u32>()];
    (maxima, costs)
}

type Halts = Vec<(u32, u32, u64, u64)>;

fn halts() -> impl Strategy<Value = Halts> {
    let deadlines = prop_oneof![Just(u64::MAX), 0..30_000u64, any::<u64>()];
    let one = (lengths(), 1..40usize, deadlines);
    let same = (parameters(), prop::collection::vec(one, 1..40));
    // Parameters may be changed at any time.
    prop::collection::vec(same, 1..4).prop_map(|all| {
        let mut halts = Vec::new();
        for ((max, cost), lengths) in all {
            for (ns, times, deadline) in lengths {
                halts.extend(std::iter::repeat_n((max, cost, deadline, ns), times));
            }
        }
        halts
    })
}

#[test]
fn the_header_and_the_rust_agree_in_every_bit() {
    let program = Program::compile();
    proptest!(Config::with_cases(300), |(halts in halts())| {
        let mut input = String::new();
        for (max, cost, deadline, ns) in &halts {
            writeln!(input, "{max} {cost} {deadline} {ns}").unwrap();
        }
        prop_assert_eq!(program.run(&input), in_rust(&halts));
    });
}

#[test]
fn the_header_is_read_out_of_a_patch() {
    let patch = "From: x\n--- /dev/null\n+++ b/include/linux/poll_window.h\n@@ -0,0 +1,2 @@\n\
                 +int a;\n+\n-- \n2.39\n";
    assert_eq!(added(patch).as_deref(), Some("int a;\n\n"));
    assert_eq!(added("+++ b/kernel/x.c\n@@ -1 +1 @@\n+int a;\n"), None);
}

#[test]
fn classes_are_half_octaves_of_the_cost() {
    let edges: Vec<u32> = (0..CLASSES - 1).map(edge).collect();
    assert_eq!(edges, [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]);
    for (at, edge) in edges.iter().enumerate() {
        let ns = u64::from(*edge) * 1000;
        assert_eq!((class(ns - 1, COST * 1000), class(ns, COST * 1000)), (at, at + 1));
    }
    assert_eq!((class(0, 0), class(u64::MAX, MAX_COST)), (CLASSES - 1, CLASSES - 1));
}
