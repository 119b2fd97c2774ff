// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor`: the lab can run, or one line says what to install.

use crate::support::paratick;
use serde_json::Value;
use std::path::Path;

#[test]
fn a_machine_without_programs_is_told_what_to_install() {
    let output =
        paratick(&["doctor"]).env("PATH", "/nowhere").assert().code(69).get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    let install =
        text.lines().find(|line| line.contains("apt-get install --no-install-recommends")).unwrap();
    for package in ["clang", "flex", "qemu-system-x86", "git"] {
        assert!(install.contains(package), "{install}");
    }
}

#[test]
fn json_says_the_same_as_the_exit_code() {
    let output = paratick(&["doctor", "--format", "json"])
        .env("PATH", "/nowhere")
        .assert()
        .code(69)
        .get_output()
        .stdout
        .clone();
    let report: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(report["ok"], false);
    let missing = |item: &&Value| item["state"] == "missing";
    let items = report["items"].as_array().unwrap();
    assert!(items.iter().filter(missing).all(|item| !item["get"].as_str().unwrap().is_empty()));
    assert!(items.iter().filter(missing).count() > 5);
}

#[test]
fn what_mode_paratick_lacks_comes_with_a_way_to_it_and_is_no_reason_to_fail() {
    let output = paratick(&["doctor", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = report["items"].as_array().unwrap();
    let links: Vec<&Value> = items.iter().filter(|item| item["group"] == "paratick").collect();
    let has = |name: &str| links.iter().any(|item| item["name"] == name);
    assert_eq!(has("as a host"), Path::new("/sys/module/kvm/parameters").is_dir());
    for item in links {
        let is_ok = item["state"] == "ok";
        assert!(is_ok || item["state"] == "absent", "{item}");
        assert_eq!(is_ok, item["get"].as_str().unwrap().is_empty(), "{item}");
    }
}

#[test]
fn a_full_disk_is_told_with_a_way_out() {
    // No file system can be made small here without root: /proc has no room at all.
    let output = paratick(&["doctor"])
        .env("PARATICK_CACHE", "/proc/paratick")
        .assert()
        .code(69)
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).unwrap();
    let disk = text.lines().find(|line| line.contains(" disk ")).unwrap();
    assert!(disk.contains("MISSING") && disk.contains("PARATICK_CACHE"), "{disk}");
}

#[test]
fn a_vm_that_does_not_run_is_refused_and_so_is_a_time_without_one() {
    let said = |words: &[&str]| {
        let output = paratick(&["doctor"]).args(words).output().unwrap();
        assert!(output.stdout.is_empty());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = said(&["--for", "1s"]);
    assert!(code == Some(2) && error.contains("--vm <VM>"), "{error}");
    // Who may look at no VM at all is told so first.
    let (code, error) = said(&["--vm", "no-such-vm"]);
    let unknown = code == Some(2) && error.contains("no VM 'no-such-vm' runs on this machine");
    assert!(unknown || code == Some(69), "{error}");
    assert!(error.contains("\nhint: "), "{error}");
}
