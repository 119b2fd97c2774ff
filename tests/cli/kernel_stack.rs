// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel` with a stack of series: branches, folders, and what keeps them together.

use crate::support::{Checkout, LAB, LOWER, MORE, SECOND, SERIES};
use std::{collections::BTreeMap, fs, process::Command as Process};

/// Does in the tree what the hint of a failed export says.
fn follow_hint(checkout: &Checkout) -> String {
    let error = checkout.stderr(&["kernel", "export"], 69);
    let (_, hint) = error.trim_end().split_once("\nhint: ").unwrap();
    let done = Process::new("sh")
        .args(["-ec", hint])
        .current_dir(checkout.tree())
        .envs([("GIT_COMMITTER_NAME", "me"), ("GIT_COMMITTER_EMAIL", "me@here")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{hint}: {}", String::from_utf8_lossy(&done.stderr));
    hint.to_owned()
}

/// The lists of patches, by series.
fn lists(checkout: &Checkout) -> BTreeMap<&'static str, String> {
    let list = |name: &&str| checkout.read(&format!("kernel/series/{name}/6.12/series"));
    SERIES.iter().map(|name| (*name, list(name))).collect()
}

#[test]
fn a_tree_has_a_branch_for_each_series_and_the_last_mailed_one_is_checked_out() {
    let checkout = Checkout::with_series();
    fs::remove_dir_all(checkout.tree()).unwrap();
    checkout.paratick(&["kernel", "tree"]).assert().success();
    let names = checkout.git(&["branch", "--format=%(refname:short)"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["lab", "lower", "upper"]);
    for (branch, text, count) in [("lower", LOWER, "1"), ("upper", SECOND, "3"), ("lab", LAB, "4")]
    {
        assert_eq!(checkout.git(&["show", &format!("{branch}:kernel/tick.c")]), text);
        let commits = format!("base..{branch}");
        assert_eq!(checkout.git(&["rev-list", "--count", &commits]).trim(), count);
    }
    assert_eq!(checkout.git(&["branch", "--show-current"]), "upper\n");
    let file = checkout.tree().join("kernel/tick.c");
    assert_eq!(fs::read_to_string(file).unwrap(), SECOND);
}

#[test]
fn export_puts_the_commits_of_each_branch_into_its_own_folder() {
    let lists = lists(&Checkout::with_series());
    assert_eq!(lists["lower"], "0001-tick-Name-it-low.patch\n");
    assert_eq!(
        lists["upper"],
        "0001-tick-Return-two-with-a-subject-that-is-so-long-that-.patch\n\
         0002-odd-tick-Name-it-b.patch\n"
    );
    assert_eq!(lists["lab"], "0001-tick-Return-three-in-the-lab.patch\n");
}

#[test]
fn a_change_of_the_lowest_series_is_refused_until_its_hint_has_moved_all_above() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    checkout.git(&["checkout", "-q", "lower"]);
    checkout.commit_signed(&LOWER.replace("low;", "low;\nint more;"), "tick: More");
    let hint = follow_hint(&checkout);
    assert_eq!(checkout.patches(), before);
    assert_eq!(hint, "git rebase --update-refs --onto lower refs/paratick/saved/lower lab");
    checkout.paratick(&["kernel", "export"]).assert().success();
    let lists = lists(&checkout);
    assert!(lists["lower"].contains("0002-tick-More.patch"), "{lists:?}");
    assert_eq!(lists["upper"].lines().count(), 2);
    assert_eq!(lists["lab"].lines().count(), 1);
    checkout.write_cover_letter("lower", 2);
    checkout.stdout(&["kernel", "check", "--quick"], 0);
    checkout.paratick(&["kernel", "tree"]).assert().success();
}

#[test]
fn a_lab_branch_that_is_not_on_the_series_is_refused_and_the_hint_puts_it_right() {
    let checkout = Checkout::with_series();
    checkout.commit_signed(&SECOND.replace("int b;", "int c;"), "tick: Name it c");
    assert_eq!(
        follow_hint(&checkout),
        "git rebase --update-refs --onto upper refs/paratick/saved/upper lab"
    );
    checkout.paratick(&["kernel", "export"]).assert().success();
    assert!(lists(&checkout)["upper"].contains("0003-tick-Name-it-c.patch"));
}

#[test]
fn changes_of_two_series_are_put_right_one_hint_after_the_other() {
    let checkout = Checkout::with_series();
    checkout.commit_signed(MORE, "tick: More");
    checkout.git(&["checkout", "-q", "lower"]);
    checkout.git(&["commit", "-q", "--amend", "--no-edit", "--date=2026-03-03T04:05:06+0100"]);
    assert!(follow_hint(&checkout).ends_with("saved/lower upper"));
    assert!(follow_hint(&checkout).ends_with("saved/upper lab"));
    checkout.paratick(&["kernel", "export"]).assert().success();
    assert_eq!(lists(&checkout)["upper"].lines().count(), 3);
    assert_eq!(lists(&checkout)["lab"].lines().count(), 1);
}

#[test]
fn a_rebase_of_the_uppermost_branch_moves_those_below() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    checkout.paratick(&["kernel", "tree"]).assert().success();
    let lower = checkout.git(&["rev-parse", "lower"]);
    checkout.git(&["checkout", "-q", "lab"]);
    checkout.git(&["rebase", "-q", "--no-ff", "base"]);
    assert_ne!(checkout.git(&["rev-parse", "lower"]), lower);
    checkout.paratick(&["kernel", "export"]).assert().success();
    assert_eq!(checkout.patches(), before);
}

#[test]
fn a_rebase_that_left_the_branches_below_behind_is_told_apart() {
    let checkout = Checkout::with_series();
    checkout.paratick(&["kernel", "tree"]).assert().success();
    checkout.git(&["checkout", "-q", "lab"]);
    checkout.git(&["rebase", "-q", "--no-update-refs", "--no-ff", "base"]);
    let error = checkout.stderr(&["kernel", "export"], 69);
    assert!(
        error.contains("'lab' is not on top of 'upper'")
            && error.contains("hint: git branch --force upper COMMIT"),
        "{error}"
    );
}

#[test]
fn a_missing_branch_is_told_with_how_to_make_it() {
    let checkout = Checkout::with_series();
    checkout.git(&["branch", "-q", "-D", "lab"]);
    let before = checkout.patches();
    let hint = follow_hint_words(&checkout);
    assert!(
        hint.starts_with("git checkout -b lab upper, then git am -3 /")
            && hint.ends_with("kernel/series/lab/6.12/*.patch"),
        "{hint}"
    );
    assert_eq!(checkout.patches(), before);
}

fn follow_hint_words(checkout: &Checkout) -> String {
    let error = checkout.stderr(&["kernel", "export"], 69);
    error.trim_end().split_once("\nhint: ").unwrap().1.to_owned()
}

#[test]
fn a_merge_keeps_the_whole_stack_from_being_written() {
    let checkout = Checkout::with_series();
    let before = checkout.patches();
    checkout.commit_signed(MORE, "tick: More");
    checkout.rebase_lab();
    checkout.git(&["checkout", "-q", "lab"]);
    checkout.git(&[
        "merge",
        "-q",
        "--no-ff",
        "-s",
        "ours",
        "-m",
        "Merge",
        "refs/paratick/saved/lab",
    ]);
    let error = checkout.stderr(&["kernel", "export"], 69);
    assert!(error.contains("upper..lab has a merge") && error.contains("\nhint: "), "{error}");
    assert_eq!(checkout.patches(), before);
}

#[test]
fn a_series_that_left_the_stack_leaves_the_tree() {
    let checkout = Checkout::with_series();
    let bases = checkout.read("kernel/bases.toml");
    checkout.write("kernel/bases.toml", &bases.replace("lab_series = [\"lab\"]\n", ""));
    checkout.paratick(&["kernel", "tree"]).assert().success();
    assert!(!checkout.git(&["branch"]).contains("lab"));
    let refs = checkout.git(&["for-each-ref", "refs/paratick"]);
    assert_eq!(refs.lines().count(), 2, "{refs}");
}

#[test]
fn a_series_that_is_not_there_is_no_empty_one() {
    let checkout = Checkout::with_series();
    let bases = checkout.read("kernel/bases.toml");
    checkout.write("kernel/bases.toml", &bases.replace("\"upper\"", "\"uper\""));
    for args in [&["kernel", "tree"][..], &["kernel", "check", "--quick"], &["kernel", "build"]] {
        let error = checkout.stderr(args, 69);
        assert!(
            error.contains("there is no ")
                && error.contains("kernel/series/uper/6.12/series\nhint: correct the name"),
            "{error}"
        );
    }
}

#[test]
fn check_names_the_series_whose_files_are_wrong() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/series/lower/6.12/0009-stray.patch", "");
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(
        said.contains("FAILED   lower: files:\n         0009-stray.patch: not listed in series"),
        "{said}"
    );
    assert!(said.contains("ok       upper: files: ") && !said.contains("round trip"), "{said}");
}

#[test]
fn check_looks_at_no_series_on_top_of_one_that_does_not_apply() {
    let checkout = Checkout::with_series();
    let name = "kernel/series/lower/6.12/0001-tick-Name-it-low.patch";
    checkout.write(name, &checkout.read(name).replace("-int z;", "-int y;"));
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    for expected in [
        "FAILED   lower: round trip:\n         0001-tick-Name-it-low.patch: ",
        "ok       lower: checkpatch: ",
        "skipped  upper: round trip: the round trip of lower failed",
        "skipped  lab: round trip: the round trip of lower failed",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn check_asks_for_a_cover_letter_that_counts_the_patches_where_there_are_several() {
    let checkout = Checkout::with_series();
    checkout.write_cover_letter("upper", 3);
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(
        said.contains("cover-letter.txt: its subject should be numbered [PATCH 0/2]"),
        "{said}"
    );
    fs::remove_file(checkout.path("kernel/series/upper/6.12/cover-letter.txt")).unwrap();
    let said = checkout.stdout(&["kernel", "check", "--quick"], 1);
    assert!(
        said.contains("FAILED   upper: files:\n         there is no cover-letter.txt"),
        "{said}"
    );
    assert!(said.contains("ok       lower: files: "), "{said}");
}

#[test]
fn an_empty_series_is_skipped_and_never_counts_as_checked() {
    let said = Checkout::new().stdout(&["kernel", "check", "--quick"], 0);
    for name in SERIES {
        assert!(said.contains(&format!("skipped  {name}: patches: there is none yet")), "{said}");
    }
}

#[test]
fn a_build_up_to_an_unknown_series_is_told_which_there_are() {
    let error = Checkout::with_series().stderr(&["kernel", "build", "--up-to", "uper"], 69);
    assert!(
        error.contains("there is no series uper in the stack\nhint: it has lower, upper, lab"),
        "{error}"
    );
}
