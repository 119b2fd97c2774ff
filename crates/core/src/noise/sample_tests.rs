// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::noise::{Audit, Clock, Disturbance, Gap, Instant, TscOffset, TICK_NOHZ_IRQ_EXIT};
use proptest::prelude::*;

const PROCESS: u32 = 9;
const SECOND: u64 = 1_000_000_000;

fn clock() -> Clock {
    let at = |ns: u64| Instant { tsc: ns, ns };
    Clock { begin: at(0), end: at(SECOND) }
}

fn exit(vcpu: u32, begin_ns: u64, parts: [u64; 5], cause: Cause) -> Absence {
    let [kvm_ns, vmm_ns, blocked_ns, waited_ns, interrupted_ns] = parts;
    Absence {
        process: PROCESS,
        vcpu,
        begin_ns,
        ns: parts.iter().sum(),
        kvm_ns,
        vmm_ns,
        blocked_ns,
        waited_ns,
        interrupted_ns,
        cause,
        reason: "x".into(),
        about: None,
        tick: false,
        class: if vmm_ns > 0 { Class::Heavy } else { Class::Light },
        exit_cpu: 1,
        entry_cpu: 1,
        held: false,
        audited: true,
        taker: (waited_ns > 0).then(|| "kworker/1:1".into()),
    }
}

fn recorded(absences: Vec<Absence>, gaps: Vec<Gap>) -> (GuestNoise, HostNoise) {
    let offset = |vcpu| TscOffset { process: PROCESS, vcpu, offset: 0 };
    let exits = absences.len() as u64;
    let audit = Audit { exits, world_switches: Some(exits), ..Audit::default() };
    let host = HostNoise {
        audit: Some(audit),
        ..HostNoise::whole(clock(), vec![offset(0), offset(1)], absences)
    };
    (GuestNoise { clock: clock(), begin_ns: 0, end_ns: SECOND, program: None, gaps }, host)
}

fn gap(cpu: u32, begin_ns: u64, ns: u64, disturbances: Vec<Disturbance>) -> Gap {
    let interference = disturbances.len() as u32;
    Gap {
        cpu,
        begin_ns,
        ns,
        written_ns: 0,
        interference,
        disturbances,
        told: None,
        stolen_ns: None,
    }
}

fn tick(begin_ns: u64) -> Disturbance {
    Disturbance { kind: Kind::Irq, name: "local_timer".into(), begin_ns, end_ns: begin_ns + 900 }
}

#[test]
fn only_the_cpus_that_sampled_count_and_a_cause_is_counted_once_for_each_exit() {
    let late = SECOND / 2;
    let absences = vec![
        exit(1, 1_000, [3_000, 0, 0, 0, 500], Cause::HostTick),
        exit(1, late, [1_000, 4_000, 0, 9_000, 0], Cause::Io),
        exit(0, 2_000, [1_000, 0, 0, 0, 0], Cause::Arm),
    ];
    let way_out = Disturbance { name: TICK_NOHZ_IRQ_EXIT.into(), ..tick(5_650) };
    let gaps =
        vec![gap(1, 900, 5_000, vec![tick(4_700), way_out]), gap(1, late - 50, 14_100, vec![])];
    let (guest, host) = recorded(absences, gaps);
    let sample = NoiseSample::of(&guest, &host, PROCESS, &[1]);
    assert_eq!((sample.light, sample.heavy, sample.halts), (1, 1, 0));
    assert_eq!(sample.by_cause, BTreeMap::from([(Cause::HostTick, 1), (Cause::Io, 1)]));
    assert_eq!((sample.guest_ticks, sample.guest_timer_events()), (1, 1));
    assert_eq!((sample.gaps, sample.unknown_to_guest, sample.longest_ns), (2, 1, 14_100));
    assert_eq!((sample.parts.waited, sample.hypervisor_ns()), (9_000, 8_500));
    assert_eq!(sample.preemptions, BTreeMap::from([("kworker/1:1".to_string(), 1)]));
    // The guest's own vCPU 0 did not sample, and is audited all the same.
    assert_eq!((sample.audit.exits, sample.audit.light, sample.audit.heavy), (3, 2, 1));
    let busy: Vec<usize> =
        (0..sample.moments.len()).filter(|at| sample.moments[*at] != Moment::default()).collect();
    assert_eq!(busy, [0, 24]);
    assert!((sample.available() - 100.0 * (1.0 - 19_100.0 / SECOND as f64)).abs() < 1e-9);
    assert_eq!(unbalanced(&guest, &host, PROCESS), []);
}

#[test]
fn whatever_does_not_add_up_is_told_with_its_numbers() {
    let one = || exit(1, 1_000, [3_000, 0, 0, 0, 0], Cause::Arm);
    let faults = |change: &dyn Fn(&mut HostNoise)| {
        let (guest, mut host) = recorded(vec![one(), exit(1, 9_000, [1; 5], Cause::Io)], vec![]);
        change(&mut host);
        let faults = unbalanced(&guest, &host, PROCESS);
        faults.iter().map(Unbalanced::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(&|_| ()), Vec::<String>::new());
    let lost = faults(&|host| host.absences[0].kvm_ns -= 1);
    assert_eq!(lost, ["an exit of 3000 ns on vCPU 1 has parts of 2999 ns"]);
    let switches = |count| {
        move |host: &mut HostNoise| host.audit.as_mut().unwrap().world_switches = Some(count)
    };
    assert_eq!(faults(&switches(3)), ["2 exits, but the emulator counted 3 world switches"]);
    // Two vCPUs may be out at the end, not three.
    let exits = |count| {
        move |host: &mut HostNoise| {
            host.audit = Some(Audit { exits: count, ..Audit::default() });
        }
    };
    assert_eq!(faults(&exits(4)), Vec::<String>::new());
    assert!(faults(&exits(5))[0].contains("5 exits, but 2 light, heavy and halts, and 3 vCPUs"));
    assert!(faults(&exits(1))[0].contains("1 exits, but 2 light"));
}

#[test]
fn a_vcpu_that_may_have_slept_when_the_part_began_has_no_known_time_in_its_guest() {
    let of = |vcpu: u32, begin_ns, audited| {
        let one = exit(vcpu, begin_ns, [200, 0, 0, 0, 0], Cause::Arm);
        Absence { exit_cpu: vcpu + 1, entry_cpu: vcpu + 1, audited, ..one }
    };
    // vCPU 0 opened it; of vCPU 1 nothing was seen before.
    let absences = vec![of(0, 900, false), of(0, 3_000, true), of(1, 6_000, true)];
    let (_, mut host) = recorded(absences, vec![]);
    let audit = Audit { exits: 2, begin_ns: 1_000, end_ns: 9_000, ..Audit::default() };
    host.audit = Some(Audit { guest_instructions: vec![0, 7_700, 2_800], ..audit });
    assert_eq!(host.in_guests(), None);
    host.absences.push(of(1, 950, false));
    assert_eq!(host.in_guests().unwrap().instructions, 10_500);
}

#[test]
fn time_in_guests_is_that_between_exits_of_the_audited_part() {
    let one = |begin_ns| exit(1, begin_ns, [200, 0, 0, 0, 0], Cause::Arm);
    // The first opened the part and the last closed it: neither is of it, or had a record in time.
    let absences = vec![Absence { audited: false, ..one(900) }, one(3_000), one(7_000)];
    let (_, mut host) = recorded(absences, vec![]);
    let audit = Audit { exits: 2, begin_ns: 1_000, end_ns: 9_000, ..Audit::default() };
    host.audit = Some(Audit { guest_instructions: vec![77, 7_400], ..audit.clone() });
    let seen = host.in_guests().unwrap();
    assert_eq!((seen.ns, seen.instructions, seen.exits), (7_500, 7_400, 2));
    assert_eq!(seen.apart_ns(), 50.0);
    let unknown = |change: &dyn Fn(&mut HostNoise)| {
        let mut host = host.clone();
        change(&mut host);
        host.in_guests()
    };
    assert_eq!(unknown(&|host| host.audit = Some(audit.clone())), None, "nobody else counted");
    assert_eq!(unknown(&|host| host.audit.as_mut().unwrap().exits = 3), None, "one has no end");
    assert_eq!(unknown(&|host| host.absences[1].vcpu = 2), None, "two on a pCPU");
    assert_eq!(unknown(&|host| host.absences[1].entry_cpu = 0), None, "it moved");
    assert_eq!(unknown(&|host| host.audit.as_mut().unwrap().end_ns = 1), None, "no time");
}

proptest! {
    #[test]
    fn a_sample_keeps_all_noise_and_adds_up(
        gaps in prop::collection::vec((0..90_000_000u64, 1_000..50_000u64), 0..40),
        exits in prop::collection::vec(
            (0..90_000_000u64, prop::array::uniform5(0..9_000u64)), 0..40),
    ) {
        // In turn, so that none overlaps another.
        let mut at = 0;
        let gaps: Vec<Gap> = gaps.into_iter().map(|(wait, ns)| {
            let begin = at + wait / 100;
            at = begin + ns;
            gap(1, begin, ns, vec![])
        }).collect();
        let mut at = 0;
        let absences: Vec<Absence> = exits.into_iter().map(|(wait, parts)| {
            let begin = at + wait / 100;
            at = begin + parts.iter().sum::<u64>();
            exit(1, begin, parts, Cause::Arm)
        }).collect();
        let exits = absences.len() as u64;
        let (guest, host) = recorded(absences, gaps);
        let sample = NoiseSample::of(&guest, &host, PROCESS, &[1]);
        prop_assert_eq!(sample.parts.sum(), sample.noise_ns);
        let steal: u64 = sample.moments.iter().map(|moment| moment.steal_ns).sum();
        let hypervisor: u64 = sample.moments.iter().map(|moment| moment.hypervisor_ns).sum();
        prop_assert_eq!((steal, hypervisor), (sample.parts.waited, sample.hypervisor_ns()));
        prop_assert_eq!(sample.light + sample.heavy + sample.halts, exits);
        prop_assert_eq!(unbalanced(&guest, &host, PROCESS), []);
        let text = serde_json::to_string(&sample).unwrap();
        prop_assert_eq!(serde_json::from_str::<NoiseSample>(&text).unwrap(), sample);
    }
}
