// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench quick`: what is wrong is said before anything is built or booted.

use crate::support::paratick;
use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

/// `paratick bench quick` that could boot nothing: its cache is empty and its agent missing.
fn quick(cache: &TempDir, args: &[&str]) -> Command {
    let mut command = paratick(&["bench", "quick"]);
    command
        .args(args)
        .env("PARATICK_CACHE", cache.path())
        .env("PARATICK_AGENT", "/no/such/agent");
    command
}

/// Exit code 2, and a message with every one of `words` and a hint.
fn refused(args: &[&str], words: &[&str]) {
    let cache = TempDir::new().unwrap();
    let output = quick(&cache, args).assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    for word in words {
        assert!(said.contains(word), "{args:?} said {said}");
    }
    assert!(said.contains("hint: ") || said.contains("--help"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_mode_that_does_not_exist_is_named_with_those_that_do() {
    refused(
        &["--modes", "tickless,fast"],
        &["'fast'", "tickless-stop", "+poll"],
    );
    refused(&["--modes", "paratick+pol"], &["'paratick+pol'"]);
    refused(&["--modes", ""], &["''"]);
}

#[test]
fn a_workload_that_does_not_exist_is_named_with_those_that_do() {
    refused(&["--workloads", "idle,sort"], &["'sort'", "pingpong"]);
}

#[test]
fn what_is_named_twice_is_refused() {
    refused(
        &["--modes", "tickless,paratick,tickless"],
        &["mode tickless is named twice"],
    );
    refused(
        &["--workloads", "cpu,cpu"],
        &["workload cpu is named twice", "--repeat"],
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    refused(&["--vcpus", "0"], &["--vcpus"]);
    refused(&["--vcpus", "128"], &["--vcpus"]);
    refused(&["--rounds", "0"], &["--rounds"]);
    refused(&["--repeat", "many"], &["--repeat"]);
    refused(&["--memory", "64M"], &["64M", "128M"]);
    refused(&["--memory", "much"], &["'much'"]);
}

#[test]
fn a_kernel_that_is_not_there_is_told_with_what_could_be() {
    refused(
        &["--kernel", "/no/such/bzImage"],
        &["/no/such/bzImage", "6.12"],
    );
    refused(&["--host-kernel", "./none"], &["./none"]);
}

#[test]
fn modes_that_a_kernel_does_not_have_are_not_measured_under_a_false_name() {
    refused(&["--kernel", "6.12-base"], &["6.12-base", "tickless-stop"]);
    refused(
        &["--kernel", "6.12-base", "--modes", "tickless,paratick+poll"],
        &["no mode paratick+poll"],
    );
}

#[test]
fn options_for_a_lab_are_refused_where_the_machine_is_the_host() {
    refused(
        &["--host", "here", "--host-kernel", "6.12"],
        &["--host-kernel", "--host here"],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_known_at_once() {
    for path in ["/proc/r.json", "/no/such/folder/r.json", "/dev/null", "/"] {
        refused(&["--output", path], &[path, "--output"]);
    }
}

#[test]
fn a_file_of_another_kind_is_not_overwritten() {
    let folder = TempDir::new().unwrap();
    let notes = folder.path().join("notes.json");
    for (text, why) in [
        ("{\"my\": \"notes\"}", "not a results file"),
        ("{\"schema\": \"paratick-results/9\"}", "paratick-results/9"),
        ("{\"schema\": \"paratick-res", "ends in the middle"),
        ("", "it is empty"),
    ] {
        fs::write(&notes, text).unwrap();
        let path = notes.to_str().unwrap();
        refused(&["--output", path], &[path, why]);
        assert_eq!(fs::read_to_string(&notes).unwrap(), text);
    }
}

#[test]
fn nothing_to_resume_is_said() {
    refused(&["--resume"], &["nothing to resume"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("none.json");
    let path = path.to_str().unwrap();
    refused(
        &["--resume", "--output", path],
        &["nothing to resume", path],
    );
}

#[test]
fn without_its_agent_it_could_not_run() {
    let cache = TempDir::new().unwrap();
    let output = quick(&cache, &[]).assert().code(69).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("/no/such/agent") && said.contains("hint: "),
        "{said}"
    );
}

#[test]
fn the_help_names_every_option_and_exit_code() {
    let help = paratick(&["bench", "quick", "--help"]).assert().success();
    let text = String::from_utf8(help.get_output().stdout.clone()).unwrap();
    for word in [
        "--modes",
        "--workloads",
        "--resume",
        "--output",
        "69",
        "docs/bench.md",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn a_recorded_file_is_shown_as_tables_and_as_json() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/recorded.json");
    let show = |options: &[&str]| {
        let shown = paratick(&[&["bench", "show", file], options].concat())
            .assert()
            .success();
        String::from_utf8(shown.get_output().stdout.clone()).unwrap()
    };
    insta::assert_snapshot!(show(&[]));
    let shown = paratick_core::results::read(&show(&["--format", "json"])).unwrap();
    let recorded = paratick_core::results::read(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(shown.cells.len(), recorded.cells.len());
    for (shown, recorded) in shown.cells.iter().zip(&recorded.cells) {
        assert_eq!(shown.samples(), recorded.samples());
    }
}

#[test]
fn a_file_that_holds_no_results_is_not_shown() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("r.json");
    let path = file.to_str().unwrap().to_string();
    let refused = |why: &str| {
        let shown = paratick(&["bench", "show", &path]).assert().code(2);
        let said = String::from_utf8(shown.get_output().stderr.clone()).unwrap();
        assert!(
            said.contains(&path) && said.contains(why) && said.contains("hint: "),
            "{said}"
        );
    };
    refused("No such file");
    fs::write(&file, "{\"schema\": \"paratick-results/1\", \"cells\": [").unwrap();
    refused("ends in the middle");
    fs::write(&file, "[]").unwrap();
    refused("not a results file");
}

#[test]
fn names_in_a_file_do_not_steer_the_terminal() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("r.json");
    let evil = include_str!("recorded.json").replace("\"pingpong\"", r#""\u001b[31m\u009bping""#);
    fs::write(&file, evil).unwrap();
    let path = file.to_str().unwrap();
    for args in [
        &["bench", "show", path][..],
        &["bench", "show", path, "--format", "json"],
        &["compare", path, path],
        &["model", "--from", path],
    ] {
        let output = paratick(args).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            said.contains(r"\u001b[31m\u009bping"),
            "{args:?} said {said}"
        );
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{said:?}");
    }
}

/// The same for the benches of programs.
fn refused_program(args: &[&str], words: &[&str]) {
    let cache = TempDir::new().unwrap();
    let mut command = paratick(&["bench"]);
    command
        .args(args)
        .env("PARATICK_CACHE", cache.path())
        .env("PARATICK_AGENT", "/no/such/agent");
    let output = command.assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    for word in words {
        assert!(said.contains(word), "{args:?} said {said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn programs_tests_and_sizes_that_do_not_exist_are_named_with_those_that_do() {
    let unknown = ["sequential", "--programs", "x264,quake"];
    refused_program(&unknown, &["no program 'quake'", "povray", "hint: "]);
    // The agent's own kernels need threads.
    let kernel = ["sequential", "--programs", "stencil"];
    refused_program(&kernel, &["no program 'stencil'"]);
    let size = ["multithreaded", "--sizes", "small,huge"];
    refused_program(&size, &["'huge'", "medium"]);
    let test = ["io", "--tests", "seqr-5k"];
    refused_program(&test, &["no test 'seqr-5k'", "seqr-4k", "hint: "]);
}

#[test]
fn a_disk_that_is_too_small_and_a_bad_program_of_ones_own_are_refused() {
    let disk = ["io", "--disk", "16M"];
    refused_program(&disk, &["--disk 16M is too small", "64M", "hint: "]);
    let own = ["sequential", "--program", "sha256sum /bin/bash"];
    refused_program(&own, &["NAME=COMMAND"]);
    let taken = ["sequential", "--programs", "sort", "--program", "sort=true"];
    refused_program(&taken, &["--program sort="]);
    let time = ["sequential", "--program", "a=b", "--prepare-limit", "soon"];
    refused_program(&time, &["'soon' is not a time", "hint: "]);
    let nothing = ["sequential", "--no-prepare"];
    refused_program(&nothing, &["--program <NAME=COMMAND>"]);
}
