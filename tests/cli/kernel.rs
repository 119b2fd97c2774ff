// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel`: from patches to a tree and back.

use crate::support::{Checkout, AUTHOR, MORE, SECOND};
use std::{
    fs,
    process::Command as Process,
    thread,
    time::{Duration, Instant},
};

#[test]
fn export_after_tree_is_byte_identical_also_with_odd_settings_of_git() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    assert_eq!(before.len(), (1 + 1) + (2 + 1 + 1) + (1 + 1), "{before:?}");
    fs::remove_dir_all(checkout.tree()).unwrap();
    checkout.write(
        "home/.gitconfig",
        "[core]\nabbrev = 40\n[format]\nsignature = x\nnumbered = true\n[diff]\nnoprefix = true\n",
    );
    for args in [&["kernel", "tree"][..], &["kernel", "export"]] {
        checkout
            .paratick(args)
            .env("HOME", checkout.path("home"))
            .env("GIT_AUTHOR_NAME", "someone else")
            .env("GIT_DIR", "/nowhere")
            .assert()
            .success();
    }
    assert_eq!(checkout.patches(), before);
}

#[test]
fn patches_carry_their_author_and_nothing_of_the_machine() {
    let checkout = Checkout::with_series();
    for (name, text) in checkout.patches() {
        assert!(!text.contains("me@here"), "{name}: {text}");
        assert!(
            !name.ends_with(".patch") || text.contains(&format!("\nFrom: {AUTHOR}\n")),
            "{name}: {text}"
        );
    }
}

#[test]
fn the_same_tree_has_the_same_commits_wherever_it_is_made() {
    let checkout = Checkout::with_series();
    let heads = |checkout: &Checkout| checkout.git(&["rev-parse", "base", "lower", "upper", "lab"]);
    checkout.paratick(&["kernel", "tree"]).assert().success();
    let first = heads(&checkout);
    fs::remove_dir_all(checkout.tree()).unwrap();
    checkout.paratick(&["kernel", "tree"]).assert().success();
    assert_eq!(heads(&checkout), first);
}

#[test]
fn files_that_git_would_ignore_are_part_of_the_base() {
    let checkout = Checkout::with_series();
    assert!(checkout.git(&["ls-files"]).contains("shipped.generated"));
}

#[test]
fn uncommitted_work_is_not_overwritten() {
    let checkout = Checkout::with_series();
    fs::write(checkout.tree().join("kernel/tick.c"), "mine").unwrap();
    let error = checkout.stderr(&["kernel", "tree"], 69);
    assert!(error.contains("uncommitted work") && error.contains("hint: "), "{error}");
    assert_eq!(fs::read_to_string(checkout.tree().join("kernel/tick.c")).unwrap(), "mine");
    assert!(checkout.stderr(&["kernel", "export"], 69).contains("uncommitted work"));
}

#[test]
fn work_that_was_not_exported_is_not_overwritten_until_it_is() {
    let checkout = Checkout::with_series();
    checkout.commit_signed(MORE, "tick: More");
    let error = checkout.stderr(&["kernel", "tree"], 69);
    assert!(error.contains("was not exported\nhint: "), "{error}");
    checkout.rebase_lab();
    checkout.paratick(&["kernel", "export"]).assert().success();
    checkout.paratick(&["kernel", "tree"]).assert().success();
    assert!(checkout.read("kernel/series/upper/6.12/series").contains("0003-tick-More.patch"));
}

#[test]
fn commits_on_a_branch_of_ones_own_are_not_overwritten() {
    let checkout = Checkout::with_series();
    checkout.git(&["checkout", "-q", "-b", "mine"]);
    checkout.commit_signed(MORE, "tick: More");
    assert!(checkout.stderr(&["kernel", "tree"], 69).contains("other branches"));
}

#[test]
fn kept_patches_are_signed_off_by_nobody_whatever_their_commits_say() {
    let checkout = Checkout::with_series();
    checkout.commit(MORE, &format!("tick: More\n\nFixes: 1\nSigned-off-by: {AUTHOR}\nLink: 2"));
    checkout.rebase_lab();
    assert!(checkout.git(&["log", "base..lab"]).matches("Signed-off-by").count() == 5);
    checkout.paratick(&["kernel", "export"]).assert().success();
    for (name, text) in checkout.patches() {
        assert!(!text.contains("Signed-off-by"), "{name}: {text}");
    }
    let last = checkout.read("kernel/series/upper/6.12/0003-tick-More.patch");
    assert!(last.contains("\n\nFixes: 1\nLink: 2\n---\n"), "{last}");
    checkout.write_cover_letter("upper", 3);
    checkout.stdout(&["kernel", "check", "--quick"], 0);
}

#[test]
fn check_finds_a_patch_that_is_signed_off() {
    let checkout = Checkout::with_series();
    let name = "kernel/series/upper/6.12/0002-odd-tick-Name-it-b.patch";
    let signed = format!("Because.\n\nSigned-off-by: {AUTHOR}");
    checkout.write(name, &checkout.read(name).replace("Because.", &signed));
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(said.contains(&format!("-Signed-off-by: {AUTHOR}")), "{said}");
}

const SENDER: &str = "Séverine <s@example.org>";

#[test]
fn a_copy_for_sending_is_from_its_sender_and_signed_off_by_nobody_else() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    let to = checkout.path("to-send");
    let args = ["kernel", "export", "--signoff", SENDER, "--output", to.to_str().unwrap()];
    checkout.paratick(&args).assert().success();
    assert_eq!(checkout.patches(), before);
    let names = |folder: &str| {
        let entries = fs::read_dir(to.join(folder)).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // Not the lab's.
    assert_eq!(names(""), ["lower", "upper"]);
    assert_eq!(names("lower"), ["0001-tick-Name-it-low.patch"]);
    assert_eq!(names("upper").len(), 3);
    let from = "From: =?UTF-8?q?S=C3=A9verine?= <s@example.org>\n";
    let patch = fs::read_to_string(to.join("upper/0002-odd-tick-Name-it-b.patch")).unwrap();
    assert!(patch.contains(&format!("\n{from}")) && !patch.contains("A U Thor"), "{patch}");
    assert!(patch.contains("\nSubject: [PATCH 2/2] [odd] tick: Name it b\n"), "{patch}");
    let signed = format!("\n\nBecause.\n\nSigned-off-by: {SENDER}\n---\n");
    assert!(patch.contains(&signed), "{patch}");
    let letter = fs::read_to_string(to.join("upper/0000-cover-letter.patch")).unwrap();
    assert!(letter.starts_with(&format!("{from}Subject: [PATCH 0/2] Tick\n\n")), "{letter}");
    assert!(checkout.stderr(&args, 69).contains("is not empty\nhint: "));
}

#[test]
fn a_copy_for_sending_is_never_among_the_kept_patches() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    for folder in ["kernel/series/new", "kernel/series/upper/6.12"] {
        let to = checkout.path(folder);
        let args = ["kernel", "export", "--signoff", SENDER, "--output", to.to_str().unwrap()];
        let error = checkout.stderr(&args, 69);
        assert!(error.contains("keeps its patches") && error.contains("\nhint: "), "{error}");
    }
    for args in [&["--signoff", SENDER][..], &["--output", "x"], &["--signoff", "me"]] {
        checkout.stderr(&[&["kernel", "export"], args].concat(), 2);
    }
    assert_eq!(checkout.patches(), before);
    assert!(!checkout.path("kernel/series/new").exists());
}

#[test]
fn removed_patches_leave_the_folder_and_the_cover_letter_stays() {
    let checkout = Checkout::with_series();
    checkout.git(&["reset", "-q", "--hard", "HEAD~1"]);
    checkout.rebase_lab();
    checkout.paratick(&["kernel", "export"]).assert().success();
    let names: Vec<_> = fs::read_dir(checkout.path("kernel/series/upper/6.12")).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(
        checkout.read("kernel/series/upper/6.12/cover-letter.txt"),
        "Subject: [PATCH 0/2] Tick\n\nDear maintainers,\n"
    );
}

#[test]
fn a_patch_that_does_not_apply_is_named() {
    let checkout = Checkout::with_series();
    let name = "kernel/series/upper/6.12/0002-odd-tick-Name-it-b.patch";
    checkout.write(name, &checkout.read(name).replace("-int a;", "-int z;"));
    let error = checkout.stderr(&["kernel", "tree"], 69);
    assert!(error.contains("upper/0002-odd-tick-Name-it-b.patch does not apply"), "{error}");
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(said.contains("FAILED   upper: round trip:\n         0002-odd"), "{said}");
}

#[test]
fn check_passes_a_good_series_and_says_what_it_skipped() {
    let checkout = Checkout::with_series();
    let said = checkout.stdout(&["kernel", "check", "--quick"], 0);
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 3 * 3, "{said}");
    assert!(said.contains("skipped  upper: compile: --quick was given"), "{said}");
}

#[test]
fn check_finds_a_patch_edited_by_hand() {
    let checkout = Checkout::with_series();
    let name = "kernel/series/upper/6.12/0002-odd-tick-Name-it-b.patch";
    checkout.write(name, &checkout.read(name).replace("Because.", "Because.  "));
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(said.contains("written again it differs") && said.contains("-Because.  "), "{said}");
}

#[test]
fn check_finds_what_series_does_not_list() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/series/upper/6.12/0009-stray.patch", "");
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(said.contains("0009-stray.patch: not listed in series"), "{said}");
}

#[test]
fn check_reports_what_checkpatch_finds() {
    let checkout = Checkout::with_series();
    checkout.commit_signed(&format!("{SECOND}/* WRONG */\n"), "tick: Be wrong");
    checkout.rebase_lab();
    checkout.paratick(&["kernel", "export"]).assert().success();
    checkout.write_cover_letter("upper", 3);
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(
        said.contains("FAILED   upper: checkpatch:\n         0003-tick-Be-wrong.patch:"),
        "{said}"
    );
    assert!(said.contains("ERROR:PLANTED"), "{said}");
}

#[test]
fn another_tarball_than_the_tested_one_only_warns() {
    let checkout = Checkout::new();
    let bases = checkout.read("kernel/bases.toml");
    checkout.write("kernel/bases.toml", &bases.replace("sha256 = \"", "sha256 = \"0"));
    let error = checkout.stderr(&["kernel", "tree"], 0);
    assert!(
        error.contains("warning: ")
            && error.contains("is not the file that the series were tested on"),
        "{error}"
    );
}

#[test]
fn a_base_that_is_not_there_is_told_with_those_that_are() {
    let error = Checkout::new().stderr(&["kernel", "tree", "5.4"], 69);
    assert!(error.contains("no base kernel 5.4\nhint: ") && error.contains("6.12"), "{error}");
}

#[test]
fn a_missing_source_is_told_with_the_package_that_has_it() {
    let checkout = Checkout::new();
    fs::remove_file(checkout.path("linux.tar.xz")).unwrap();
    let error = checkout.stderr(&["kernel", "build"], 69);
    assert!(error.contains("hint: apt-get install no-such-package"), "{error}");
}

#[test]
fn an_interrupted_unpacking_is_begun_again() {
    let checkout = Checkout::new();
    checkout.write("cache/tree/6.12.part/half", "of it");
    checkout.paratick(&["kernel", "tree"]).assert().success();
    assert!(checkout.git(&["status", "--porcelain"]).is_empty());
    assert!(
        !checkout.tree().join("half").exists() && !checkout.path("cache/tree/6.12.part").exists()
    );
}

#[test]
fn a_selftest_that_is_not_there_is_told_with_how_to_name_one() {
    let error = Checkout::with_series().stderr(&["kernel", "selftest", "none"], 69);
    assert!(error.contains("there is no KVM selftest none") && error.contains("hint: "), "{error}");
}

#[test]
fn ending_a_build_ends_its_make() {
    let checkout = Checkout::new();
    // Debian's source is unpacked into the cache by its key; this one's make never ends.
    checkout.paratick(&["kernel", "check", "--quick"]).assert().success();
    let sha256 = checkout.read("kernel/bases.toml");
    let key = &sha256.split("sha256 = \"").nth(1).unwrap()[..16];
    let pid_file = checkout.path("pid");
    let makefile = format!("tinyconfig:\n\techo $$$$ > {}; exec sleep 600\n", pid_file.display());
    checkout.write(&format!("cache/source/{key}/Makefile"), &makefile);
    let mut build = Process::new(env!("CARGO_BIN_EXE_paratick"))
        .args(["kernel", "build", "--base"])
        .env("PARATICK_ROOT", checkout.path(""))
        .env("PARATICK_CACHE", checkout.path("cache"))
        .spawn()
        .unwrap();
    let pid = wait_for(|| fs::read_to_string(&pid_file).ok().filter(|pid| pid.ends_with('\n')));
    build.kill().unwrap();
    build.wait().unwrap();
    let process = format!("/proc/{}", pid.trim());
    wait_for(|| (!fs::exists(&process).unwrap()).then_some(()));
}

/// What `look` finds within half a minute.
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < deadline, "it did not happen within 30 s"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}
