// SPDX-License-Identifier: GPL-2.0-only
//! `paratick kernel` where it compiles, with a stand-in for the kernel's `make`.

use crate::support::{Checkout, BASE, LAB, LOWER, MORE};
use std::fs;

/// What `kernel build` says of an image, by name.
fn line(said: &str, name: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}: {said}")).trim().to_owned()
}

fn build(checkout: &Checkout, args: &[&str]) -> String {
    checkout.stdout(&[&["kernel", "build"], args].concat(), 0)
}

#[test]
fn an_image_has_the_whole_stack_a_part_of_it_or_nothing() {
    let checkout = Checkout::with_series();
    let mut keys = vec![];
    for (args, text, release) in [
        (&[][..], LAB, "6.12.0-paratick"),
        (&["--up-to", "lower"], LOWER, "6.12.0-lower"),
        (&["--base"], BASE, "6.12.0-base"),
    ] {
        let said = build(&checkout, args);
        assert_eq!(fs::read_to_string(line(&said, "image")).unwrap(), text);
        assert_eq!(line(&said, "release"), release);
        assert_eq!(line(&said, "patches") == "none", text == BASE);
        keys.push(line(&said, "key"));
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3);
}

#[test]
fn the_top_of_the_stack_is_the_whole_stack() {
    let checkout = Checkout::with_series();
    assert_eq!(build(&checkout, &["--up-to", "lab"]), build(&checkout, &[]));
}

#[test]
fn an_image_is_kept_when_only_the_division_into_series_changes() {
    let checkout = Checkout::with_series();
    let before = build(&checkout, &[]);
    let folder = |series: &str| format!("kernel/series/{series}/6.12/series");
    let moved = checkout.read(&folder("lower"));
    let name = moved.trim();
    let patch = checkout.read(&format!("kernel/series/lower/6.12/{name}"));
    checkout.write(&format!("kernel/series/upper/6.12/{name}"), &patch);
    checkout.write(&folder("upper"), &[moved.clone(), checkout.read(&folder("upper"))].concat());
    checkout.write(&folder("lower"), "");
    assert_eq!(build(&checkout, &[]), before);
}

#[test]
fn fragments_are_merged_in_the_order_that_the_base_names() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/6.12.config", "# CONFIG_A is not set\nCONFIG_B=y\n");
    let bases = checkout.read("kernel/bases.toml");
    let config = |names: &str| {
        let list = bases.replace("[\"common\"]", names);
        checkout.write("kernel/bases.toml", &list);
        fs::read_to_string(line(&build(&checkout, &[]), "config")).unwrap()
    };
    let both = config("[\"common\", \"6.12\"]");
    assert!(both.contains("CONFIG_A=n\nCONFIG_B=y\n"), "{both}");
    let turned = config("[\"6.12\", \"common\"]");
    assert!(turned.contains("CONFIG_A=y\nCONFIG_B=y\n"), "{turned}");
    let common = config("[\"common\"]");
    assert!(!common.contains("CONFIG_B"), "{common}");
}

#[test]
fn a_fragment_that_cannot_be_read_is_wrong_usage() {
    let checkout = Checkout::new();
    let error = checkout.stderr(&["kernel", "build", "--config", "/no/such.config"], 2);
    assert!(error.contains("'/no/such.config' for '--config <FILE>': No such file"), "{error}");
    assert!(error.contains("\nhint: name a file with lines such as CONFIG_SMP=y"), "{error}");
}

#[test]
fn another_tick_rate_is_another_image() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/hz1000.config", "# CONFIG_A is not set\nCONFIG_FAST=y\n");
    let slow = build(&checkout, &[]);
    assert_eq!(build(&checkout, &["--hz", "250"]), slow);
    for (args, release) in [
        (&["--hz", "1000"][..], "6.12.0-paratick-hz1000"),
        (&["--hz", "1000", "--base"], "6.12.0-base-hz1000"),
    ] {
        let fast = build(&checkout, args);
        assert_eq!(line(&fast, "release"), release);
        assert_ne!(line(&fast, "key"), line(&slow, "key"));
        let config = fs::read_to_string(line(&fast, "config")).unwrap();
        assert!(config.contains("CONFIG_A=n\nCONFIG_FAST=y\n"), "{config}");
    }
    let error = checkout.stderr(&["kernel", "build", "--hz", "300"], 69);
    assert!(error.contains("6.12 with HZ=300: ") && error.contains("\nhint: "), "{error}");
}

#[test]
fn the_tick_of_a_fragment_of_one_s_own_is_what_is_asked_for() {
    let checkout = Checkout::new();
    checkout.write("own.config", "CONFIG_OWN=y\n");
    checkout.write("kernel/config/hz250.config", "CONFIG_HZ_250=y\n");
    let own = checkout.path("own.config");
    let said = build(&checkout, &["--config", own.to_str().unwrap(), "--hz", "250"]);
    let config = fs::read_to_string(line(&said, "config")).unwrap();
    assert!(config.contains("CONFIG_HZ_250=y\nCONFIG_OWN=y\n"), "{config}");
}

#[test]
fn a_kernel_that_looks_for_mistakes_is_another_image() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/debug.config", "CONFIG_PROVE=y\n");
    checkout.write("kernel/config/hz1000.config", "CONFIG_FAST=y\n");
    for (args, release) in [
        (&["--debug"][..], "6.12.0-paratick-debug"),
        (&["--debug", "--base"], "6.12.0-base-debug"),
        (&["--debug", "--hz", "1000"], "6.12.0-paratick-debug-hz1000"),
    ] {
        let said = build(&checkout, args);
        assert_eq!(line(&said, "release"), release);
        let config = fs::read_to_string(line(&said, "config")).unwrap();
        assert!(config.contains("CONFIG_PROVE=y\n"), "{config}");
    }
}

#[test]
fn a_real_time_kernel_is_another_image_and_looks_for_no_mistakes() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/rt.config", "CONFIG_RT=y\n");
    checkout.write("kernel/config/hz1000.config", "CONFIG_FAST=y\n");
    for (args, release) in [
        (&["--rt"][..], "6.12.0-paratick-rt"),
        (&["--rt", "--base"], "6.12.0-base-rt"),
        (&["--rt", "--hz", "1000"], "6.12.0-paratick-rt-hz1000"),
    ] {
        let said = build(&checkout, args);
        assert_eq!(line(&said, "release"), release);
        let config = fs::read_to_string(line(&said, "config")).unwrap();
        assert!(config.contains("CONFIG_RT=y\n"), "{config}");
    }
    checkout.stderr(&["kernel", "build", "--rt", "--debug"], 2);
}

#[test]
fn a_kernel_with_the_driver_of_nvme_disks_is_another_image() {
    let checkout = Checkout::with_series();
    checkout.write("kernel/config/nvme.config", "CONFIG_DISK=y\n");
    checkout.write("kernel/config/rt.config", "CONFIG_RT=y\n");
    for (args, release) in [
        (&["--nvme"][..], "6.12.0-paratick-nvme"),
        (&["--nvme", "--base"], "6.12.0-base-nvme"),
        (&["--nvme", "--rt"], "6.12.0-paratick-rt-nvme"),
    ] {
        let said = build(&checkout, args);
        assert_eq!(line(&said, "release"), release);
        let config = fs::read_to_string(line(&said, "config")).unwrap();
        assert!(config.contains("CONFIG_DISK=y\n"), "{config}");
    }
}

#[test]
fn an_image_may_account_for_cpu_time_in_another_way() {
    let checkout = Checkout::with_series();
    for (how, line_of_it) in [("tick", "CONFIG_SAMPLE=y\n"), ("irq", "CONFIG_IRQ=y\n")] {
        checkout.write(&format!("kernel/config/{how}-accounting.config"), line_of_it);
        let said = build(&checkout, &["--accounting", how]);
        assert_eq!(line(&said, "release"), format!("6.12.0-paratick-{how}-accounting"));
        let config = fs::read_to_string(line(&said, "config")).unwrap();
        assert!(config.contains(line_of_it), "{config}");
    }
    let error = checkout.stderr(&["kernel", "build", "--accounting", "none"], 2);
    assert!(error.contains("tick, irq"), "{error}");
}

#[test]
fn check_compiles_every_series_and_says_with_what() {
    let said = Checkout::with_series().stdout(&["kernel", "check"], 0);
    for name in ["lower", "upper", "lab"] {
        let ok = format!(
            "ok       {name}: compile: each patch compiles what it touches \
             (1 files; the lab's configuration)"
        );
        assert!(said.contains(&ok), "{said}");
    }
}

#[test]
fn a_patch_that_does_not_compile_is_named_and_only_compiling_ends_there() {
    let checkout = Checkout::with_series();
    checkout.commit_signed(&format!("{MORE}/* BROKEN */\n"), "tick: Break it");
    checkout.rebase_lab();
    checkout.paratick(&["kernel", "export"]).assert().success();
    checkout.write_cover_letter("upper", 3);
    let said = checkout.stdout(&["kernel", "check"], 1);
    for expected in [
        "ok       lower: compile: ",
        "FAILED   upper: compile:\n         0003-tick-Break-it.patch does not compile with \
         the lab's configuration: ",
        "ok       lab: round trip: ",
        "skipped  lab: compile: upper does not compile",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn a_build_without_patches_is_up_to_no_series() {
    let checkout = Checkout::with_series();
    let error = checkout.stderr(&["kernel", "build", "--base", "--up-to", "lower"], 2);
    assert!(error.contains("--up-to"), "{error}");
}
