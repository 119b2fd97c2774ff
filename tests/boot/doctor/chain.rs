// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor` in a guest and on its host: the link that mode `paratick` lacks.

use crate::support::{host_spec, kernel, mode, resumed, sh, stock, text};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{size::Size, wire::GuestConfig};
use serde_json::Value;

/// Its state and what was found.
fn said(stdout: &[u8], name: &str) -> (String, String) {
    let report: Value = serde_json::from_slice(stdout).unwrap();
    let items = report["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["group"] == "paratick" && item["name"] == name);
    let item = item.unwrap_or_else(|| panic!("no {name}: {report}"));
    println!("{item}");
    let word = |field: &str| item[field].as_str().unwrap().to_string();
    (word("state"), word("detail"))
}

#[test]
fn a_guest_and_its_host_are_told_what_mode_paratick_lacks() {
    let program = assert_cmd::cargo::cargo_bin("paratick");
    let line =
        format!("env HOME=/tmp PARATICK_AGENT=/none {} doctor --format json", program.display());
    let guests = [
        (kernel(), "", "", "ok", "CPUs 0 have virtual ticks"),
        (kernel(), "kvm-halt-until=off", "", "absent", "does not show kvm-halt-until"),
        (kernel(), "", "no-halt-until", "absent", "no-halt-until keeps"),
        (stock(DEFAULT_BASE).bzimage, "", "", "absent", "does not have the series virtual-ticks"),
    ];
    for (kernel_of_guest, cpu, append, state, detail) in guests {
        let mut config = GuestConfig::new(&kernel_of_guest, 1, Size::mib(512), mode("paratick"));
        config.cpu = cpu.into();
        config.append = append.split_whitespace().map(String::from).collect();
        let (host, guest) = resumed(host_spec(kernel(), 1, &[]), config);
        let found = guest.exec(sh(&line)).unwrap();
        let found = said(&found.stdout, "as a guest");
        assert!(found.0 == state && found.1.contains(detail), "{found:?}");
        // It is the same host for all of them.
        if state == "ok" {
            let on_host = host.exec(sh(&line)).unwrap();
            assert_eq!(said(&on_host.stdout, "as a host").0, "ok", "{}", text(&on_host.stderr));
            // Debian's, in the host's file system.
            let qemu = said(&on_host.stdout, "in QEMU's guests");
            assert!(qemu.0 == "absent" && qemu.1.contains("does not know kvm-pv-tick"), "{qemu:?}");
        }
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}
