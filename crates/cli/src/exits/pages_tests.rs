// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::top::{
    test::{press, screen},
    Top,
};
use paratick_core::{
    cause::Cause,
    observed::{Kind, SCHEMA},
};
use ratatui::crossterm::event::KeyCode;

fn exits(vcpu: u32, cause: Cause, reason: &str, about: Option<&str>, count: u64, ns: u64) -> Exits {
    let kind = Kind { cause, reason: reason.into(), about: about.map(Into::into) };
    let spent = Spent {
        count,
        kvm_ns: ns,
        vmm_ns: if cause == Cause::Io { ns } else { 0 },
        steal_ns: if cause == Cause::HostTick { ns } else { 0 },
        lengths: vec![0, 0, 0, 0, count],
        ..Spent::default()
    };
    Exits { vcpu, kind, spent }
}

fn vm(name: &str, process: u32, ended: bool, exits: Vec<Exits>) -> Vm {
    let (name, ns) = (name.into(), 2_000_000_000);
    Vm { name, others: Vec::new(), process, ended, ns, lost: 0, exits }
}

fn seen(vms: Vec<Vm>) -> Observed {
    Observed {
        schema: SCHEMA.into(),
        ns: 2_000_000_000,
        vms,
        earlier: 0,
        lost: 0,
        exits_by_kvm: None,
        vmm_end_unknown: false,
        host_hz: None,
        lacks: Vec::new(),
    }
}

fn three() -> Top<Counts> {
    let arm = Some("TSC_DEADLINE");
    Top::of(Counts::of(seen(vec![
        vm(
            "shop/frontend-7d9f",
            412,
            false,
            vec![
                exits(0, Cause::Arm, "msr_write", arm, 500, 1_000_000),
                exits(0, Cause::Expiry, "interrupt", Some("apic_timer_fn"), 498, 900_000),
                exits(1, Cause::Halt, "hlt", None, 12_345, 20_000_000),
            ],
        ),
        vm(
            "db",
            4_015,
            false,
            vec![
                exits(0, Cause::HostTick, "interrupt", None, 500, 1_500_000_000),
                exits(3, Cause::Io, "io", Some("port 0x3f8"), 90, 300_000_000),
            ],
        ),
        vm("5017", 5_017, true, vec![exits(0, Cause::Other, "cpuid", None, 3, 9_000)]),
    ])))
}

#[test]
fn vms_fit_the_smallest_terminal_and_use_a_large_one() {
    insta::assert_snapshot!("vms_80x24", screen(&three(), 80, 24));
    insta::assert_snapshot!("vms_200x60", screen(&three(), 200, 60));
}

#[test]
fn an_opened_vm_has_its_vcpus_and_causes() {
    let mut top = three();
    press(&mut top, &[KeyCode::Char('c'), KeyCode::Enter]);
    insta::assert_snapshot!("opened_80x24", screen(&top, 80, 24));
    press(&mut top, &[KeyCode::Esc, KeyCode::Char('e'), KeyCode::Enter]);
    // The mark stays on the VM that was opened.
    insta::assert_snapshot!("opened_200x60", screen(&top, 200, 60));
}

fn order(top: &Top<Counts>) -> Vec<String> {
    top.page().0.lines.into_iter().map(|line| line.key).collect()
}

#[test]
fn keys_sort_and_the_mark_stays_on_its_line() {
    let mut top = three();
    assert_eq!(order(&top), ["412", "4015", "5017"]);
    press(&mut top, &[KeyCode::Down]);
    for (key, expected) in [
        ('c', ["4015", "412", "5017"]),
        ('n', ["5017", "4015", "412"]),
        ('s', ["4015", "5017", "412"]),
    ] {
        press(&mut top, &[KeyCode::Char(key)]);
        assert_eq!(order(&top), expected, "{key}");
        let (page, at) = top.page();
        assert_eq!(page.lines[at].key, "4015");
    }
    press(&mut top, &[KeyCode::PageDown]);
    assert_eq!(top.page().1, 2);
    press(&mut top, &[KeyCode::PageUp, KeyCode::Up]);
    assert_eq!(top.page().1, 0);
}

#[test]
fn numbers_are_of_what_came_since_the_last_look() {
    let mut top = three();
    let before = top.pages.seen.clone();
    let mut later = before.clone();
    later.ns += 2_000_000_000;
    later.vms[0].ns += 2_000_000_000;
    later.vms[0].exits[2].spent.count += 200;
    top.pages = Counts { lately: later.since(&before), seen: later };
    let (page, _) = top.page();
    assert_eq!((page.lines[0].key.as_str(), page.lines[0].ranks[0]), ("412", 200));
    assert!(screen(&top, 80, 24).contains("100 exits/s"), "{}", screen(&top, 80, 24));
}

#[test]
fn no_size_is_too_small_and_no_number_of_vms_too_large() {
    let many = (1..2_000).map(|process| {
        vm(&format!("vm-{process}"), process, false, vec![exits(0, Cause::Halt, "hlt", None, 9, 9)])
    });
    let mut top = Top::of(Counts::of(seen(many.collect())));
    press(&mut top, &[KeyCode::Char('n'), KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageDown]);
    let (page, at) = top.page();
    let marked = page.lines[at].cells[0].clone();
    assert!(screen(&top, 80, 24).contains(&marked));
    for (width, height) in [(1, 1), (10, 2), (20, 3)] {
        screen(&top, width, height);
    }
    screen(&Top::of(Counts::of(seen(Vec::new()))), 80, 24);
}
