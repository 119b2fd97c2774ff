// SPDX-License-Identifier: GPL-2.0-only
//! What counting costs an exit.

use super::run;
use crate::support::{compile, host_spec, kernel, row_of, text, tools};
use paratick_machine::snapshot;
use serde_json::json;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/exits/cpuid.c");
const CPUID: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cpuid");

/// In instructions, which is what the TSC counts in the lab; docs/exits.md has the number.
#[test]
fn an_exit_becomes_longer_by_as_much_on_each_cpu() {
    compile(SOURCE, CPUID);
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let added = [0, 1].map(|cpu| {
        let script = format!(
            "{CPUID} {cpu}; $P exits --for 3s >/dev/null 2>/tmp/said & \
             until grep -q counting /tmp/said; do sleep 0.1; done; {CPUID} {cpu}; wait"
        );
        let said = text(&run(&host, &script).stdout);
        let took: Vec<f64> = said.lines().map(|line| line.parse().unwrap()).collect();
        took[1] - took[0]
    });
    println!("{added:?}");
    for (cpu, added) in added.iter().enumerate() {
        row_of("counting", &[("CPU", json!(cpu)), ("instructions more", json!(added))]);
    }
    assert!(added.iter().all(|one| (500.0..700.0).contains(one)), "{added:?}");
    assert!((added[0] - added[1]).abs() < 30.0, "{added:?}");
    host.shutdown().unwrap();
}
