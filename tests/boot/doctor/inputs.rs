// SPDX-License-Identifier: GPL-2.0-only
//! Which VM it is to be, and what keeps one from looking at it.

use crate::{
    exits::{run, SOURCE, VMM},
    support::{compile, host_spec, kernel, text, tools},
};
use paratick_machine::snapshot;

#[test]
fn a_vm_that_is_not_one_or_ends_is_refused_with_a_way_out() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let two =
        "$VMM 1 100000 --id twin 20000 >/dev/null & $VMM 1 100000 --id twin 20000 >/dev/null &";
    let soon = "$VMM 1 100 --id soon 20000 >/dev/null & sleep 0.2;";
    for (before, vm, code, why) in [
        ("", "web", 2, "no VM 'web' runs on this machine\nhint: start it first"),
        (soon, "soon", 69, "the VM ended while it was looked at\nhint: "),
        ("setpriv --bounding-set=-all --inh-caps=-all", "web", 69, "it lacks CAP_BPF"),
        (two, "twin", 2, "2 VMs are called 'twin'\nhint: give the process of one of them: twin "),
        ("", "web", 2, "no VM 'web' runs on this machine\nhint: give one of these: twin (pid "),
        ("", "$(pidof -s firecracker)", 0, ""),
    ] {
        let result = run(&host, &format!("{before} $P doctor --vm {vm} --for 5s"));
        let (said, error) = (text(&result.stdout), text(&result.stderr));
        assert!(result.code == code && error.contains(why), "{}: {error}", result.code);
        assert_eq!(said.contains("What costs twin, in 5.0"), code == 0, "{said}");
    }
    host.shutdown().unwrap();
}
