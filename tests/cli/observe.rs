// SPDX-License-Identifier: GPL-2.0-only
//! Verbs that look at this machine.

use crate::support::paratick;

/// Of a verb, as its help lists them.
fn options(verb: &[&str]) -> Vec<String> {
    let output = paratick(&[verb, &["--help"]].concat()).assert().success();
    let help = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let lines = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let names = lines.map(|line| line.split([' ', '[']).next().unwrap().to_string());
    names.collect()
}

#[test]
fn what_looks_at_this_machine_has_few_options_and_none_of_the_lab_s() {
    for verb in ["exits", "noise", "idle", "halts", "timerlat"] {
        let options = options(&[verb]);
        assert!((4..=12).contains(&options.len()), "{verb}: {options:?}");
        let its = |name: &str| options.iter().any(|option| option == name);
        assert!(["for", "save", "recording", "format"].into_iter().all(its), "{verb}");
        assert!(!["host", "mode", "kernel", "vcpus"].into_iter().any(its), "{verb}");
        // Deadlines are those of one's own threads.
        assert!(verb == "timerlat" || ["vm", "vcpu"].into_iter().all(its), "{verb}");
    }
}

#[test]
fn what_looks_at_a_guest_of_the_lab_has_the_lab_s_options() {
    for verb in ["noise", "idle", "halts", "timerlat"] {
        let options = options(&["lab", verb]);
        for name in ["mode", "kernel", "host-kernel", "vcpus", "save"] {
            assert!(options.iter().any(|option| option == name), "{verb}: {options:?}");
        }
        assert!(!options.iter().any(|option| option == "vm"), "{verb}");
    }
}
