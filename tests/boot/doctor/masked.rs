// SPDX-License-Identifier: GPL-2.0-only
//! An HPET whose interrupts nobody hears.

use super::{by_hand, doctor, is_first, of, on, per_second};
use crate::support::tools;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/doctor/hpet.s");
const GUEST: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/hpet");

fn assemble() {
    let object = format!("{GUEST}.o");
    let link = ["-m", "elf_i386", "-n", "-Ttext", "0x100000", "-o", GUEST, &object];
    for (program, words) in [("as", &["--32", "-o", &object, SOURCE][..]), ("ld", &link[..])] {
        assert!(Command::new(program).args(words).status().expect(program).success());
    }
}

/// SeaBIOS boots it, as a disk would be.
#[test]
fn an_hpet_that_raises_a_masked_line_is_named_first_and_gone_without_an_hpet() {
    assemble();
    let host = by_hand::host();
    let tools = tools();
    let firmware: String =
        tools.firmware.iter().map(|folder| format!(" -L {}", folder.display())).collect();
    let [costs, spared] = ["on", "off"].map(|hpet| {
        let line = format!(
            "cd /tmp; {}{firmware} -nodefaults -no-user-config -display none \
             -name hpet-{hpet} -accel kvm -m 32M -cpu host,-xsave \
             -machine q35,hpet={hpet} -kernel {GUEST} -serial file:hpet-{hpet} \
             </dev/null >hpet.qemu 2>&1 & Q=$!; echo $Q >hpet.pid; \
             until grep -q 'guest is up' hpet-{hpet}; do \
             kill -0 $Q || {{ cat hpet.qemu >&2; exit 1; }}; sleep 0.1; done",
            tools.qemu.display()
        );
        on(&host, &line);
        let report = doctor(&host, &format!("hpet-{hpet}"));
        on(&host, "kill $(cat /tmp/hpet.pid)");
        report
    });
    let first = |report: &serde_json::Value| {
        let threads = report["threads"].as_array().unwrap();
        let its = threads.iter().find(|thread| thread["id"] == report["process"]);
        its.map_or(0.0, |thread| thread["wakeups_per_second"].as_f64().unwrap())
    };
    let named = by_hand::costs(&costs);
    is_first(&named, "masked HPET", 950.0, "hpet=off");
    assert!(per_second(&named[0]) < 1050.0 && first(&costs) >= 950.0, "{}", named[0]);
    // No exit tells of it, nor that it wakes up the vCPU in vain.
    assert!(per_second(of(&named, "HPET")) < 2.0);
    let threads = costs["threads"].as_array().unwrap();
    assert!(threads.iter().all(|one| one["waits_in"] != "kvm_vcpu_block"), "{threads:?}");
    let spared_costs = by_hand::costs(&spared);
    assert!(spared_costs.iter().all(|cost| cost["what"] != "masked HPET"), "{spared_costs:?}");
    assert!(first(&spared) < 20.0, "{}", spared["threads"]);
    host.shutdown().unwrap();
}
