// SPDX-License-Identifier: GPL-2.0-only
//! `paratick calibrate` on the lab's host: its guests do what its rows say.

use super::counted;
use crate::support::{host_spec, kernel, tools};
use paratick_core::{
    calibration::{Calibration, Meaning},
    observed::sum,
};
use paratick_machine::snapshot;

#[test]
fn a_calibration_makes_the_exits_that_it_tells_and_names_no_cost_under_emulation() {
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let calibrate = "$P calibrate --samples 100 --format json; kill -TERM $I";
    let (seen, told) = counted(&host, "", "--for 10m", calibrate);
    let told: Calibration = serde_json::from_str(&told).expect(&told);
    println!("{told:#?}");
    assert_eq!(seen.lost, 0);
    let exits = || seen.vms.iter().flat_map(|vm| &vm.exits);
    for (reason, executed) in &told.executed {
        let counted = sum(exits().filter(|one| one.kind.reason.starts_with(reason.as_str())));
        println!("{reason}: executed {executed}, counted {}", counted.count);
        assert!(counted.count.abs_diff(*executed) <= 3, "{reason}: {counted:?}, not {executed}");
    }
    // Nothing else exits but what is the host's, and pages that are touched for the first time; a
    // timer that expires before its guest's HLT, on a slow host, is waited for until STI (vintr).
    let known = |reason: &str| told.executed.keys().any(|known| reason.starts_with(known.as_str()));
    let other = exits().filter(|one| !known(&one.kind.reason));
    let (windows, other): (Vec<_>, Vec<_>) = other
        .filter(|one| !["interrupt", "npf"].contains(&&*one.kind.reason))
        .partition(|one| &*one.kind.reason == "vintr");
    assert_eq!(sum(other.into_iter()).count, 0, "{:?}", seen.vms);
    assert!(sum(windows.into_iter()).count <= 3, "{:?}", seen.vms);

    assert_eq!(told.meaning, Meaning::Emulated);
    // Both vendors' are built in.
    assert_eq!(told.machine.modules, ["kvm", "kvm_amd"]);
    let exits = |name: &str| {
        let row = told.rows.iter().find(|row| row.name == name).expect(name);
        assert_eq!((row.cycles, row.samples), (None, 100), "{row:?}");
        assert!(row.not_measured.as_ref().unwrap().contains("emulated"), "{row:?}");
        row.exits_per_sample.unwrap()
    };
    for (name, expected) in [
        ("nothing", 0.0),
        ("CPUID", 1.0),
        ("OUT, answered by user space", 1.0),
        ("WRMSR TSC_DEADLINE", 1.0),
        ("HLT, woken by its timer", 3.0),
        ("HLT, woken by an IPI", 2.0),
        ("WRMSR EOI", 2.0),
        // The self-IPI alone.
        ("PV EOI", 1.0),
    ] {
        let each = exits(name);
        assert!((each - expected).abs() <= 0.05, "{name}: {each} exits, not {expected}");
    }
    host.shutdown().unwrap();
}
