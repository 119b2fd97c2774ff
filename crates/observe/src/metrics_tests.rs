// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use paratick_core::observed::{Exits, Kind, SCHEMA};

const UUID: &str = "c7a5fdbd-edaf-9455-926a-d65c16db1809";

fn exits(vcpu: u32, cause: Cause, reason: &str, count: u64) -> Exits {
    let kind = Kind { cause, reason: reason.into(), about: None };
    let spent = Spent { count, kvm_ns: 1_500 * count, steal_ns: 7, ..Spent::default() };
    Exits { vcpu, kind, spent }
}

fn vm(name: &str, process: u32, exits: Vec<Exits>) -> Vm {
    Vm { name: name.into(), others: Vec::new(), process, ended: false, ns: 1, lost: 0, exits }
}

fn seen(vms: Vec<Vm>) -> Observed {
    Observed {
        schema: SCHEMA.into(),
        ns: 1,
        vms,
        earlier: 0,
        lost: 0,
        exits_by_kvm: None,
        vmm_end_unknown: false,
        host_hz: None,
        lacks: Vec::new(),
    }
}

/// Two VMs of one name, and one that ended.
fn three() -> Observed {
    let mut web = vm(
        "web",
        41,
        vec![
            exits(0, Cause::Arm, "msr_write", 2),
            exits(0, Cause::Arm, "apic_access", 1),
            exits(1, Cause::Arm, "msr_write", 4),
            exits(1, Cause::HostTick, "interrupt", 8),
        ],
    );
    web.others = vec!["100".into(), UUID.into()];
    let mut ended = vm("web", 52, vec![exits(0, Cause::Arm, "msr_write", 16)]);
    (ended.ended, ended.lost) = (true, 3);
    Observed { lost: 1, ..seen(vec![web, vm("a\"\\\n", 60, Vec::new()), ended]) }
}

#[test]
fn a_reading_is_told_in_both_formats() {
    let mut past = Sums::default();
    past.add(&[vm("old", 7, vec![exits(0, Cause::Eoi, "msr_write", 32)])]);
    let metrics = Metrics::of(three(), &past, false);
    insta::assert_snapshot!("plain", metrics.text(Format::Plain));
    insta::assert_snapshot!("openmetrics", metrics.text(Format::OpenMetrics));
}

#[test]
fn a_vcpu_is_a_label_where_it_is_asked_for() {
    let text = Metrics::of(three(), &Sums::default(), true).text(Format::OpenMetrics);
    let of_arm = |line: &&str| line.starts_with("paratick_vm_exits") && line.contains("arm");
    let lines: Vec<&str> = text.lines().filter(of_arm).collect();
    assert_eq!(
        lines,
        [
            r#"paratick_vm_exits_total{vm="web",pid="41",vcpu="0",cause="arm"} 3"#,
            r#"paratick_vm_exits_total{vm="web",pid="41",vcpu="1",cause="arm"} 4"#,
        ]
    );
}

#[test]
fn a_long_name_is_cut() {
    let text = Metrics::of(seen(vec![vm(&"ü".repeat(9_000), 1, vec![])]), &Sums::default(), false);
    assert!(text.text(Format::Plain).len() < 3_000);
}

#[test]
fn who_asks_for_openmetrics_gets_it() {
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Plain);
}

/// 1 000 hosts with 50 VMs of 4 vCPUs, each with exits of all causes: no VM can have more series.
/// docs/serve.md has these numbers.
#[test]
fn a_fleet_is_so_many_series_and_bytes() {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        random >> 24
    };
    let (mut series, mut bytes) = (0, [0, 0]);
    for host in 0..1_000 {
        let mut made = |number: u32| {
            let all = Cause::ALL.iter().flat_map(|cause| (0..4).map(move |vcpu| (vcpu, *cause)));
            let mut one = |(vcpu, cause)| {
                let mut made = exits(vcpu, cause, "reason", next() % 1_000_000_000);
                let spent = &mut made.spent;
                (spent.vmm_ns, spent.interrupts_ns) = (next(), next());
                (spent.blocked_ns, spent.steal_ns) = (next(), next());
                made
            };
            let exits = all.map(&mut one).collect();
            let name = format!("instance-{:08x}", host * 50 + number);
            Vm { others: vec![UUID.into()], ..vm(&name, 100_000 + number, exits) }
        };
        let vms = (0..50).map(&mut made).collect();
        let metrics = Metrics::of(seen(vms), &Sums::default(), false);
        for (bytes, format) in bytes.iter_mut().zip([Format::OpenMetrics, Format::Plain]) {
            let text = metrics.text(format);
            *bytes += text.len();
            if format == Format::Plain {
                series += text.lines().filter(|line| !line.starts_with('#')).count();
            }
        }
    }
    println!("{series} series, {bytes:?} bytes");
    // Of each VM 12 causes with a count and 5 times, what it lost, and its names.
    assert_eq!(series, 1_000 * (50 * (12 * 6 + 2) + 12 * 6 + 2));
    assert!(bytes.iter().all(|bytes| bytes / 1_000 < 400_000), "{bytes:?}");
}
