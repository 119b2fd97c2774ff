// SPDX-License-Identifier: GPL-2.0-only
use super::*;

/// Each took 1 µs in KVM.
pub fn exits(vcpu: u32, cause: Cause, about: &str, count: u64) -> Exits {
    let kind = Kind { cause, reason: "msr_write".into(), about: Some(about.into()) };
    let spent =
        Spent { count, kvm_ns: 1_000 * count, lengths: vec![0, 0, 0, count], ..Spent::default() };
    Exits { vcpu, kind, spent }
}

/// For two seconds.
pub fn vm(name: &str, process: u32, exits: Vec<Exits>) -> Vm {
    let name = name.into();
    let ns = 2_000_000_000;
    Vm { name, others: Vec::new(), process, ended: false, ns, lost: 0, exits }
}

pub fn observed(vms: Vec<Vm>) -> Observed {
    Observed {
        schema: SCHEMA.into(),
        ns: 2_000_000_000,
        vms,
        earlier: 0,
        lost: 0,
        exits_by_kvm: None,
        vmm_end_unknown: false,
        host_hz: Some(Hz(250)),
        lacks: Vec::new(),
    }
}

#[test]
fn causes_are_sums_of_their_kinds_and_the_most_frequent_is_first() {
    let seen = vm(
        "web",
        7,
        vec![
            exits(0, Cause::Arm, "TSC_DEADLINE", 10),
            exits(1, Cause::Arm, "X2APIC_TMICT", 30),
            exits(1, Cause::Halt, "hlt", 39),
        ],
    );
    let causes = seen.causes();
    let counts: Vec<_> =
        causes.iter().map(|(cause, these)| (*cause, sum(these.iter().copied()).count)).collect();
    assert_eq!(counts, [(Cause::Arm, 40), (Cause::Halt, 39)]);
    assert_eq!(mostly(causes[0].1.iter().copied()), Some(("X2APIC_TMICT".into(), 0.75)));
    let many: Vec<_> =
        (0..20).map(|port| exits(0, Cause::Io, &format!("port {port}"), 5)).collect();
    assert_eq!(mostly(&many), Some(("20 kinds".into(), 1.0)));
    assert_eq!((seen.vcpus(), seen.all().count, seen.per_second(40)), (2, 79, 20.0));
    assert_eq!(seen.share(seen.all().cpu_ns()), 79e3 / 2e9);
}

#[test]
fn what_came_since_is_of_the_same_vm_vcpu_and_kind() {
    let before = observed(vec![vm("web", 7, vec![exits(0, Cause::Arm, "TSC_DEADLINE", 10)])]);
    let mut after = observed(vec![
        vm(
            "web",
            7,
            vec![exits(0, Cause::Arm, "TSC_DEADLINE", 15), exits(1, Cause::Arm, "TSC_DEADLINE", 4)],
        ),
        vm("db", 8, vec![exits(0, Cause::Arm, "TSC_DEADLINE", 2)]),
    ]);
    after.ns += 1_000_000_000;
    after.vms[0].ns += 1_000_000_000;
    let since = after.since(&before);
    let counts = |vm: &Vm| vm.exits.iter().map(|exits| exits.spent.count).collect::<Vec<_>>();
    assert_eq!((counts(&since.vms[0]), counts(&since.vms[1])), (vec![5, 4], vec![2]));
    assert_eq!(
        (since.ns, since.vms[0].ns, since.vms[1].ns),
        (1_000_000_000, 1_000_000_000, 2_000_000_000)
    );
    assert_eq!(since.total().count, 11);
}

#[test]
fn what_is_saved_reads_back() {
    let seen = observed(vec![vm("web", 7, vec![exits(0, Cause::Arm, "TSC_DEADLINE", 10)])]);
    let text = serde_json::to_string(&seen).unwrap();
    assert_eq!(serde_json::from_str::<Observed>(&text).unwrap(), seen);
}

#[test]
fn numbers_that_have_no_sum_are_not_sound() {
    let mut seen = observed(vec![vm("web", 7, vec![exits(0, Cause::Arm, "TSC_DEADLINE", 10)])]);
    assert!(seen.is_sound());
    seen.vms[0].exits[0].spent.count = u64::MAX;
    assert!(!seen.is_sound());
}
