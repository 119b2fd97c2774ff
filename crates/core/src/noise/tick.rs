// SPDX-License-Identifier: GPL-2.0-only
//! Which exits for a guest's timer are its tick's, as far as a host can know.

use super::Absence;
use crate::cause::Cause;
use std::collections::BTreeMap;

/// The rates that Linux can be built with.
const PERIODS_NS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];
/// An interrupt of the tick's comes no earlier or later than this.
const JITTER_NS: u64 = 60_000;
/// The tick's handler arms the next one after so long at most.
const HANDLER_NS: u64 = 200_000;
/// A single distance may be chance.
const ROW: usize = 3;
/// So many other timers may expire between two ticks; where there are more, some of them are a
/// period apart by chance.
const OTHERS: usize = 1;

/// Marks the exits of ticks: of a vCPU that keeps running, expiries in a row that are one period
/// apart with hardly another between them, and the arms in their handlers.
///
/// Sleeps of a program's end in a halt, not in an expiry.  A program that is woken at the rate of
/// a tick, on a vCPU that is never idle, looks like one.
pub fn mark(absences: &mut [Absence]) {
    let mut vcpus: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (at, absence) in absences.iter().enumerate() {
        vcpus.entry((absence.process, absence.vcpu)).or_default().push(at);
    }
    for mut places in vcpus.into_values() {
        places.sort_by_key(|at| absences[*at].begin_ns);
        let of = |cause| -> Vec<u64> {
            let all = places.iter().map(|at| &absences[*at]);
            all.filter(|one| one.cause == cause).map(|one| one.begin_ns).collect()
        };
        let ticks = ticks(&of(Cause::Expiry), &of(Cause::Halt));
        let mut last = None;
        for at in places {
            let absence = &mut absences[at];
            match absence.cause {
                Cause::Expiry => {
                    absence.tick = ticks.binary_search(&absence.begin_ns).is_ok();
                    last = absence.tick.then_some(absence.begin_ns + absence.ns);
                }
                Cause::Arm => {
                    let since = last.take().map(|end| absence.begin_ns.saturating_sub(end));
                    absence.tick = since.is_some_and(|since| since <= HANDLER_NS);
                }
                Cause::Halt => last = None,
                _ => {}
            }
        }
    }
}

/// Those of these times that are in a row of one of the periods, with no halt in it; all sorted.
fn ticks(times: &[u64], halts: &[u64]) -> Vec<u64> {
    let between = |all: &[u64], from: u64, to: u64| {
        let before = |time: u64| all.partition_point(|one| *one < time);
        before(to) - before(from)
    };
    // The first of the two is among them.
    let follows = |from: u64, to: u64| {
        between(halts, from, to) == 0 && between(times, from, to) <= 1 + OTHERS
    };
    let near = |due: u64| {
        let from = times.partition_point(|time| time + JITTER_NS < due);
        times.get(from).copied().filter(|time| *time <= due + JITTER_NS)
    };
    let rows = |period: u64| -> Vec<u64> {
        let mut found = Vec::new();
        for first in times {
            let mut row = vec![*first];
            loop {
                let last = row[row.len() - 1];
                let Some(next) = near(last + period).filter(|next| follows(last, *next)) else {
                    break;
                };
                row.push(next);
                if row.len() == ROW {
                    found.extend(row);
                    break;
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    PERIODS_NS.into_iter().map(rows).max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Class;

    fn exit(begin_ns: u64, cause: Cause) -> Absence {
        Absence {
            process: 7,
            vcpu: 0,
            begin_ns,
            ns: 2_000,
            kvm_ns: 2_000,
            vmm_ns: 0,
            blocked_ns: 0,
            waited_ns: 0,
            interrupted_ns: 0,
            cause,
            reason: String::new(),
            about: None,
            tick: false,
            class: Class::Light,
            exit_cpu: 0,
            entry_cpu: 0,
            held: false,
            audited: false,
            taker: None,
        }
    }

    fn marked(mut absences: Vec<Absence>) -> Vec<bool> {
        mark(&mut absences);
        absences.iter().map(|one| one.tick).collect()
    }

    #[test]
    fn expiries_a_period_apart_and_the_arms_in_them_are_ticks() {
        for period in PERIODS_NS {
            let tick = |nth: u64| {
                let at = nth * period + nth % 3 * 10_000;
                [exit(at, Cause::Expiry), exit(at + 5_000, Cause::Arm)]
            };
            let mut all: Vec<_> = (1..9).flat_map(tick).collect();
            let of_ticks = all.len();
            // A program's own timer, and another vCPU's tick.
            all.push(exit(period / 2, Cause::Expiry));
            all.push(Absence { vcpu: 1, ..exit(2 * period, Cause::Expiry) });
            all.push(exit(3 * period / 2, Cause::Arm));
            let marks = marked(all);
            assert!(marks[..of_ticks].iter().all(|tick| *tick), "{period}: {marks:?}");
            assert_eq!(marks[of_ticks..], [false; 3], "{period}");
        }
    }

    #[test]
    fn a_program_that_sleeps_has_no_tick_in_its_arms() {
        let sleep = |nth: u64| {
            let at = nth * 4_000_000;
            [exit(at, Cause::Arm), Absence { ns: 3_900_000, ..exit(at + 3_000, Cause::Halt) }]
        };
        assert!(!marked((0..20).flat_map(sleep).collect()).contains(&true));
        // Nor has one whose timers expire at such distances while others wake it.
        let often = |nth: u64| {
            let at = nth * 250_000;
            [exit(at, Cause::Expiry), exit(at + 3_000, Cause::Halt)]
        };
        assert!(!marked((0..80).flat_map(often).collect()).contains(&true));
        // Nor has one that is woken more often than that, and polls instead of halting.
        let polls = (0..200).map(|nth| exit(nth * 142_857, Cause::Expiry));
        assert!(!marked(polls.collect()).contains(&true));
        // Nor has one whose timers expire at other times.
        let busy = (0..20).map(|nth| exit(nth * 700_000, Cause::Expiry));
        assert!(!marked(busy.collect()).contains(&true));
        assert!(marked(vec![]).is_empty());
    }

    #[test]
    fn an_arm_after_a_halt_is_not_the_handler_s() {
        let mut all: Vec<_> = (1..5).map(|nth| exit(nth * 4_000_000, Cause::Expiry)).collect();
        all.push(exit(16_010_000, Cause::Halt));
        all.push(exit(16_100_000, Cause::Arm));
        assert_eq!(marked(all), [true, true, true, true, false, false]);
    }
}
