// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::{
    cause::Cause,
    noise::{Absence, Class, Clock, Instant, TscOffset},
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// Of a TSC of 1 GHz, which read `tsc` when the clock read `ns`.
fn clock(tsc: u64, ns: u64, seconds: u64) -> Clock {
    let end = Instant { tsc: tsc + seconds * SECOND, ns: ns + seconds * SECOND };
    Clock { begin: Instant { tsc, ns }, end }
}

fn absence(process: u32, begin_ns: u64, ns: u64) -> Absence {
    Absence {
        process,
        vcpu: 0,
        begin_ns,
        ns,
        kvm_ns: ns,
        vmm_ns: 0,
        blocked_ns: 0,
        waited_ns: 0,
        interrupted_ns: 0,
        cause: Cause::HostTick,
        reason: "interrupt".into(),
        about: None,
        tick: false,
        class: Class::Light,
        exit_cpu: 1,
        entry_cpu: 1,
        held: false,
        audited: false,
        taker: None,
    }
}

/// The VM 7 began when its host's clock read 10 s, and 8 and 9 three and four seconds later.
const OFFSETS: [(u32, i64); 3] =
    [(7, -10 * SECOND as i64), (8, -13 * SECOND as i64), (9, -14 * SECOND as i64)];

/// From the host's 20th second to its 24th.
fn host(absences: Vec<Absence>) -> HostNoise {
    let offsets = OFFSETS.map(|(process, offset)| TscOffset { process, vcpu: 0, offset });
    HostNoise::whole(clock(20 * SECOND, 20 * SECOND, 4), offsets.to_vec(), absences)
}

/// Of a guest whose clock is 0 when its TSC is: it sampled from `from` for `seconds`.
fn guest(from: u64, seconds: u64, gaps: &[(u64, u64)]) -> GuestNoise {
    let gap = |(begin_ns, ns): &(u64, u64)| Gap {
        cpu: 0,
        begin_ns: *begin_ns,
        ns: *ns,
        written_ns: 0,
        interference: 0,
        disturbances: Vec::new(),
        told: None,
        stolen_ns: None,
    };
    GuestNoise {
        clock: clock(from, from, seconds),
        begin_ns: from,
        end_ns: from + seconds * SECOND,
        program: None,
        gaps: gaps.iter().map(gap).collect(),
    }
}

proptest! {
    /// Two VMs are away again and again; each guest is told from the other, and from the third VM,
    /// which sleeps for most of the time.  Only what both sides have seen is left.
    #[test]
    fn a_guest_is_found_by_its_gaps(
        begins in prop::collection::btree_set(0u64..390, 20..60),
        others in prop::collection::btree_set(0u64..390, 20..60),
        which in 0usize..2,
    ) {
        // In hundredths of a second; the other VM's lie between them.
        let at = |begin: &u64| 20 * SECOND + begin * SECOND / 100;
        let mut all: Vec<_> = begins.iter().map(|begin| absence(7, at(begin), 9_000)).collect();
        all.extend(others.iter().map(|begin| absence(8, at(begin) + 4_000_000, 9_000)));
        all.extend((0..60).map(|n| absence(9, 20 * SECOND + n * SECOND / 15, SECOND / 16)));
        let (process, offset) = OFFSETS[which];
        let gaps: Vec<_> = all
            .iter()
            .filter(|one| one.process == process)
            .map(|one| ((one.begin_ns as i64 + offset) as u64 - 1_000, 11_000))
            .collect();
        // It began to sample a second before the host looked.
        let from = (19 * SECOND as i64 + offset) as u64;
        let guest = guest(from, 9, &gaps);
        let (cut, found) = pair(&guest, &host(all), None).unwrap();
        prop_assert_eq!(found, process);
        let ends = (from + SECOND + EDGE, from + 5 * SECOND - EDGE);
        prop_assert_eq!((cut.begin_ns, cut.end_ns), ends);
    }
}

#[test]
fn what_does_not_belong_together_is_not_joined() {
    let ticks = |count: u64| (1..=count).map(|n| 20 * SECOND + n * 10_000_000);
    let host_of = |count| host(ticks(count).map(|begin| absence(7, begin, 9_000)).collect());
    // The guest's gaps are elsewhere.
    let elsewhere: Vec<_> = ticks(40).map(|ns| (ns - 10 * SECOND + 5_000_000, 9_000)).collect();
    let off = guest(10 * SECOND, 4, &elsewhere);
    // Of the other VM nothing is known.
    let several = Unpaired::Several { processes: vec![8] };
    assert_eq!(pair(&off, &host_of(40), None), Err(several));
    assert_eq!(pair(&off, &host_of(40), Some(7)), Err(Unpaired::NoneFits));
    // Too few to tell, but somebody says which.
    let right: Vec<_> = ticks(2).map(|ns| (ns - 10 * SECOND, 9_000)).collect();
    let right = guest(10 * SECOND, 4, &right);
    assert_eq!(pair(&right, &host_of(2), None), Err(Unpaired::Several { processes: vec![7, 8] }));
    assert_eq!(pair(&right, &host_of(2), Some(7)).unwrap().1, 7);
    // Recorded an hour later.
    let later = guest(3_600 * SECOND, 4, &[]);
    assert_eq!(pair(&later, &host_of(2), None), Err(Unpaired::NotAtOnce));
    let mut without = host_of(2);
    without.tsc_offsets.clear();
    assert_eq!(pair(&right, &without, None), Err(Unpaired::NoOffsets));
    let unknown = Unpaired::NoSuchVm { vm: 6, known: vec![7, 8, 9] };
    assert_eq!(pair(&right, &host_of(2), Some(6)), Err(unknown));
    // A CPU that the VM has not: its APIC ids leave some out.
    let gap_of = |cpu| Gap { cpu, ..elsewhere_gap() };
    let mut wide = right.clone();
    wide.gaps.push(gap_of(1));
    assert_eq!(pair(&wide, &host_of(40), Some(7)), Err(Unpaired::NoneFits));
}

fn elsewhere_gap() -> Gap {
    guest(10 * SECOND, 4, &[(11 * SECOND, 9_000)]).gaps.remove(0)
}
