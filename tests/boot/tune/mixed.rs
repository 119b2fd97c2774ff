// SPDX-License-Identifier: GPL-2.0-only
//! Several VMs on one host, which want different things, and of which some have a maximum of their
//! own.  Each is a small VMM that halts its vCPU for as long as it is told.

use crate::support::{compile, host_spec, kernel, sh, stock, text, tools};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::halts::HostRule;
use paratick_machine::{host::Host, snapshot};
use serde_json::Value;
use std::path::PathBuf;

const HALTER_C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/tune/halter.c");
const HALTER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/halter");

/// A host that runs these VMs, with room for their threads.  Its CPUs run in parallel: who polls
/// must not slow down who is to wake him up.
fn machine(kernel: PathBuf, append: &[&str], halters: &[&str]) -> Host {
    compile(HALTER_C, HALTER);
    let mut spec = host_spec(kernel, 4, append);
    spec.emulation.parallel_clock = true;
    spec.emulation.round = Some(200);
    let host = snapshot::host(spec, &tools(), &mut |_| {}).unwrap();
    let start = |arguments: &&str| format!("{HALTER} {arguments} >/dev/null 2>>/tmp/said & ");
    let all: String = halters.iter().map(start).collect();
    let said = host.exec(sh(&format!("{all} sleep 0.05; cat /tmp/said"))).unwrap();
    assert_eq!(text(&said.stdout), "");
    host
}

/// What `paratick halts` says on that machine: exit code, report, standard error.
fn tune(host: &Host, options: &str) -> (i32, Value, String) {
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let line = format!("HOME=/tmp {program} halts --for 150ms --format json {options}");
    let result = host.exec(sh(&line)).unwrap();
    let (stdout, stderr) = (text(&result.stdout), text(&result.stderr));
    println!("{options}: {}\n{stdout}\n{stderr}", result.code);
    (result.code, serde_json::from_str(&stdout).unwrap(), stderr)
}

fn halt_poll_ns(host: &Host) -> String {
    text(&host.exec(sh("cat /sys/module/kvm/parameters/halt_poll_ns")).unwrap().stdout)
}

fn outcomes<'a>(report: &'a Value, rule: &str) -> Vec<&'a str> {
    let rules = report["vms"].as_array().unwrap().iter().map(|vm| vm["rules"].as_array().unwrap());
    let under = rules.map(|rules| rules.iter().find(|one| one["name"] == rule).unwrap());
    under.map(|one| one["outcome"].as_str().unwrap()).collect()
}

/// To poll is worth while for the one, and for the other it is not.
#[test]
fn a_rule_that_one_of_two_vms_wants_is_not_set_for_both() {
    let host = machine(kernel(), &["kvm.halt_poll_ns=0"], &["module 40", "module 140"]);
    let (code, report, stderr) = tune(&host, "--cost 80000 --apply=default");
    assert_eq!((code, outcomes(&report, "default")), (1, vec!["wins", "loses"]));
    let loser = report["vms"][1]["process"].as_u64().unwrap();
    assert!(stderr.contains(&format!("not applied: default: VM {loser} loses by it")), "{stderr}");
    assert!(stderr.contains("--all applies it all the same"), "{stderr}");
    assert_eq!(halt_poll_ns(&host), "0\n");
    let (code, _, stderr) = tune(&host, "--cost 80000 --apply=default --all");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.starts_with("applied: default"), "{stderr}");
    assert!(stderr.contains(&format!("VM {loser}: cost of each halt: ")), "{stderr}");
    assert_eq!(halt_poll_ns(&host), format!("{}\n", HostRule::DEFAULT.max));
    host.shutdown().unwrap();
}

/// The replay of every vCPU says what was traced, in so many halts at least.
fn verified(report: &Value) {
    for vcpu in report["verified"].as_array().unwrap() {
        assert!(vcpu["difference"].is_null(), "{vcpu}");
        assert!(vcpu["compared"].as_u64().unwrap() > 100, "{vcpu}");
    }
}

#[test]
fn a_vms_own_maximum_is_read_where_the_kernel_has_btf() {
    let stock = stock(DEFAULT_BASE);
    let vms = ["50000 10 80", "module 10 300", "0 10"];
    let host = machine(stock.bzimage, &["kvm.halt_poll_ns=200000"], &vms);
    let (code, report, _) = tune(&host, "--cost 80000");
    assert_eq!(code, 0);
    let maxima: Vec<_> = (0..3).map(|vm| report["vms"][vm]["maximum"].clone()).collect();
    let own = |ns: u32| serde_json::json!({ "own": ns });
    assert_eq!(maxima, [own(50_000), "module".into(), own(0)]);
    verified(&report);
    // The module's maximum is none of theirs.
    assert_eq!(outcomes(&report, "none")[0], "same");
    assert_eq!(outcomes(&report, "none")[2], "same");
    host.shutdown().unwrap();
}

#[test]
#[ignore = "1 minute"]
fn without_btf_a_vms_own_maximum_is_what_its_traces_tell_or_not_known() {
    let vms = ["50000 10 80", "module 10 300", "0 10"];
    let host = machine(kernel(), &["kvm.halt_poll_ns=200000"], &vms);
    let (code, report, _) = tune(&host, "--cost 80000");
    assert_eq!(code, 0);
    let maximum = |vm: usize| &report["vms"][vm]["maximum"];
    let bound = |name: &str| maximum(0)["traced"][name].as_u64().unwrap();
    assert!(bound("least") > 10_000 && bound("least") <= 50_000, "{}", maximum(0));
    assert!(bound("most") >= 50_000 && bound("most") < 200_000, "{}", maximum(0));
    assert_eq!((maximum(1), maximum(2)), (&"unknown".into(), &"unknown".into()));
    host.shutdown().unwrap();
}
