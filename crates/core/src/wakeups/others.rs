// SPDX-License-Identifier: GPL-2.0-only
//! What others need because a CPU sleeps on: the recorded timers that are set on it or expire for
//! it, replayed where some rounds are gone.

use super::{
    recording::{Class, GuestWakeups, What, Wheel},
    rounds::Round,
};
use std::collections::BTreeMap;

/// A CPU that is woken at most so much before a timer expires is not woken again for it.
const AT_ONCE_NS: u64 = 1_000_000;

/// More than there was in the recording; less of it is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needed {
    /// CPUs woken by another one: an IPI and a round.
    pub kicks: f64,
    /// CPUs that wake up for a timer that another one may expire first.
    pub wakes: f64,
}

/// When CPUs are awake.
struct Awake {
    /// From when to when, for each CPU.
    spans: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// The same of rounds that are gone.
    gone: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// For how long one is that has nothing to do.
    shortly_ns: u64,
}

/// Where not all rounds of a recording are: whether one `stays`; and when each CPU wakes up beside
/// them for a pinned timer of the wheel, in the place of those of `function`.
///
/// Where no round is gone that would have been there, all is as it was recorded.
pub fn needed(
    guest: &GuestWakeups,
    rounds: &[Round],
    stays: &dyn Fn(&Round) -> bool,
    function: &str,
    more: &BTreeMap<u32, Vec<u64>>,
) -> Needed {
    let mut awake = Awake::of(guest, rounds, stays, more);
    let mut needed = Needed::default();
    let numbers = guest.numbers();
    let moves = expire_elsewhere(guest);
    let window = guest.begin_ns..guest.end_ns;
    for (index, event) in guest.events.iter().enumerate() {
        if !window.contains(&event.at_ns) {
            continue;
        }
        match &event.what {
            What::Set { on, due_ns } => {
                let mut after = guest.events[index + 1..].iter();
                let next = after.find(|next| next.cpu == event.cpu).map(|next| &next.what);
                let kicked = next == Some(&What::Ipi { to: *on });
                let earlier = || before(guest, function, more, *on, event.at_ns, *due_ns);
                let woken = awake.was_woken(*on, event.at_ns, *due_ns);
                if !kicked && woken && awake.sleeps(*on, event.at_ns) && !earlier() {
                    needed.kicks += 1.0;
                    awake.wake(*on, event.at_ns);
                }
            }
            What::Expiry { timer, wheel: Some(Wheel { cpu: home, pinned: false }), .. }
                if moves && timer.function != function && awake.sleeps_longer(event.at_ns) =>
            {
                let at = event.at_ns;
                let woken: Vec<u32> =
                    numbers.iter().copied().filter(|cpu| awake.expires(*cpu, at)).collect();
                if woken.is_empty() {
                    continue;
                }
                // Who is first among those that wake up for it is chance.
                let away = woken.iter().filter(|cpu| *cpu != home).count();
                let away = away as f64 / woken.len() as f64;
                needed.kicks += away - f64::from(u8::from(event.cpu != *home));
                for cpu in woken {
                    if awake.sleeps(cpu, at) && !awake.woke_just_before(cpu, at) {
                        needed.wakes += 1.0;
                        awake.wake(cpu, at);
                    }
                }
            }
            _ => (),
        }
    }
    needed
}

/// Whether idle CPUs leave timers to each other (since Linux 6.9).
fn expire_elsewhere(guest: &GuestWakeups) -> bool {
    guest.events.iter().any(|event| match &event.what {
        What::Expiry { wheel: Some(wheel), .. } => !wheel.pinned && wheel.cpu != event.cpu,
        _ => false,
    })
}

/// Whether a pinned timer of the wheel expires there earlier, so that nobody need be told.
fn before(
    guest: &GuestWakeups,
    function: &str,
    more: &BTreeMap<u32, Vec<u64>>,
    cpu: u32,
    at: u64,
    due: u64,
) -> bool {
    let jiffy = guest.jiffies.map_or(0, |jiffies| jiffies.jiffy_ns());
    let due = due.saturating_sub(jiffy);
    let from = guest.events.partition_point(|event| event.at_ns <= at);
    let mut until = guest.events[from..].iter().take_while(|event| event.at_ns < due);
    let pinned = |what: &What| match what {
        What::Expiry { timer, wheel: Some(wheel), .. } => {
            wheel.pinned && timer.class != Class::Deferrable && timer.function != function
        }
        _ => false,
    };
    let mine = more.get(&cpu).map_or(&[][..], |times| times);
    until.any(|event| event.cpu == cpu && pinned(&event.what))
        || mine.iter().any(|wakes| (at + 1..due).contains(wakes))
}

impl Awake {
    fn of(
        guest: &GuestWakeups,
        rounds: &[Round],
        stays: &dyn Fn(&Round) -> bool,
        more: &BTreeMap<u32, Vec<u64>>,
    ) -> Awake {
        let mut spans: BTreeMap<u32, BTreeMap<u64, u64>> =
            guest.numbers().into_iter().map(|cpu| (cpu, BTreeMap::new())).collect();
        let mut gone = spans.clone();
        for round in rounds {
            let from = guest.events.partition_point(|event| event.at_ns < round.woke_ns);
            let within = guest.events[from..].iter().take_while(|event| event.at_ns < round.end_ns);
            let idle = within.filter(|event| event.cpu == round.cpu && event.what == What::Idle);
            let idle = idle.last().map_or(round.end_ns, |event| event.at_ns);
            let of = if stays(round) { &mut spans } else { &mut gone };
            of.entry(round.cpu).or_default().insert(round.woke_ns, idle);
        }
        let mut short: Vec<u64> =
            gone.values().flatten().map(|(woke, idle)| idle.saturating_sub(*woke)).collect();
        short.sort_unstable();
        let shortly_ns = short.get(short.len() / 2).copied().unwrap_or(0);
        let mut awake = Awake { spans, gone, shortly_ns };
        for (cpu, times) in more {
            times.iter().for_each(|at| awake.wake(*cpu, *at));
        }
        awake
    }

    fn wake(&mut self, cpu: u32, at: u64) {
        let spans = self.spans.entry(cpu).or_default();
        spans.entry(at).or_insert(at.saturating_add(self.shortly_ns));
    }

    /// The last time that it was awake, or is.
    fn last(&self, cpu: u32, at: u64) -> Option<(u64, u64)> {
        let span = self.spans.get(&cpu)?.range(..=at).next_back()?;
        Some((*span.0, *span.1))
    }

    /// By a round that is gone.
    fn was_woken(&self, cpu: u32, from: u64, until: u64) -> bool {
        let before = self.gone.get(&cpu).and_then(|gone| gone.range(..until).next_back());
        before.is_some_and(|(_, idle)| *idle > from)
    }

    /// The last round of a CPU is gone.
    fn sleeps_longer(&self, at: u64) -> bool {
        let last = |spans: &BTreeMap<u64, u64>| spans.range(..=at).next_back().map(|one| *one.0);
        self.gone.values().zip(self.spans.values()).any(|(gone, spans)| last(gone) > last(spans))
    }

    fn sleeps(&self, cpu: u32, at: u64) -> bool {
        self.last(cpu, at).is_some_and(|(_, idle)| idle <= at)
    }

    fn woke_just_before(&self, cpu: u32, at: u64) -> bool {
        let around = at.saturating_sub(AT_ONCE_NS)..at + AT_ONCE_NS;
        self.spans.get(&cpu).is_some_and(|spans| spans.range(around).next().is_some())
    }

    /// Whoever became idle last looks after the timers of all.  Who had been the last before does
    /// so, too, until it wakes up again.
    fn expires(&self, cpu: u32, at: u64) -> bool {
        let before = at.saturating_sub(AT_ONCE_NS);
        let Some((_, idle)) = self.last(cpu, before) else { return false };
        let mut others = self.spans.keys().filter(|other| **other != cpu);
        idle > before || others.all(|other| self.sleeps(*other, idle))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::recording::{Event, Jiffies, Timer},
        super::rounds::Source,
        *,
    };
    use crate::noise::{Clock, Instant};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const END: u64 = 2_000 * MS;

    fn expiry(function: &str, wheel: Option<Wheel>) -> What {
        let timer =
            Timer { function: function.into(), class: Class::Hard, process: None, start: None };
        What::Expiry { timer, late: None, wheel }
    }

    fn pinned(function: &str, cpu: u32) -> What {
        expiry(function, Some(Wheel { cpu, pinned: true }))
    }

    /// Rounds of 1 ms on two CPUs: when, and what happens in the middle of each.
    fn recorded(all: &[(u32, u64, &[What])]) -> (GuestWakeups, Vec<Round>) {
        let mut events = Vec::new();
        let mut rounds = Vec::new();
        for (cpu, ms, what) in all {
            let at = ms * MS;
            let event = |at_ns, what: &What| Event { cpu: *cpu, at_ns, what: what.clone() };
            events.extend((0u64..).zip(*what).map(|(nth, what)| event(at + nth, what)));
            events.push(event(at + MS, &What::Idle));
            rounds.push(Round {
                cpu: *cpu,
                begin_ns: at,
                woke_ns: at,
                end_ns: at + 2 * MS,
                source: Source::Tick,
                passed_on: false,
                goes_on: false,
                timers: what.iter().filter_map(timer).collect(),
                exits: BTreeMap::new(),
                slept: true,
            });
        }
        events.sort_by_key(|event| event.at_ns);
        let at = |ns| Instant { tsc: ns, ns };
        let guest = GuestWakeups {
            clock: Clock { begin: at(0), end: at(END) },
            begin_ns: 0,
            end_ns: END,
            cpus: 2,
            online: Vec::new(),
            jiffies: Some(Jiffies { hz: 250, second_ns: 0 }),
            damon_stat: false,
            events,
        };
        (guest, rounds)
    }

    fn timer(what: &What) -> Option<Timer> {
        match what {
            What::Expiry { timer, .. } => Some(timer.clone()),
            _ => None,
        }
    }

    /// If no timer called `mine` woke a CPU.
    fn without_mine(
        (guest, rounds): (GuestWakeups, Vec<Round>),
        more: &[(u32, Vec<u64>)],
    ) -> Needed {
        let stays = |round: &Round| round.timers.iter().all(|timer| timer.function != "mine");
        needed(&guest, &rounds, &stays, "mine", &more.iter().cloned().collect())
    }

    fn kicks(kicks: f64) -> Needed {
        Needed { kicks, wakes: 0.0 }
    }

    #[test]
    fn who_sleeps_on_is_told_of_a_timer_that_is_due_before_all_of_its_own() {
        let set = What::Set { on: 1, due_ns: 600 * MS };
        let of = |set: &[What], last: &str, at| {
            recorded(&[
                (0, 20, &[]),
                (1, 50, &[pinned("mine", 1)]),
                (0, 100, set),
                (1, 150, &[pinned("mine", 1)]),
                (1, at, &[pinned(last, 1)]),
            ])
        };
        let told = without_mine(of(std::slice::from_ref(&set), "set", 598), &[]);
        assert_eq!(told, kicks(0.0), "it was never seen asleep before");
        let awake_once = |set: &[What], last: &str, at| {
            let (guest, mut rounds) = of(set, last, at);
            rounds[1].timers.clear();
            (guest, rounds)
        };
        let found = |last, at| without_mine(awake_once(std::slice::from_ref(&set), last, at), &[]);
        assert_eq!(found("set", 598), kicks(1.0));
        assert_eq!(found("other", 300), kicks(0.0), "it wakes up before");
        assert_eq!(found("mine", 300), kicks(1.0));
        // It was told in the recording, too.
        let ipi = [set.clone(), What::Ipi { to: 1 }];
        assert_eq!(without_mine(awake_once(&ipi, "set", 598), &[]), kicks(0.0));
        // Rounded to half a second, which is before.
        let more = [(1, vec![500 * MS])];
        assert_eq!(
            without_mine(awake_once(std::slice::from_ref(&set), "set", 598), &more),
            kicks(0.0)
        );
        // It is awake.
        let mut busy = awake_once(std::slice::from_ref(&set), "set", 598);
        busy.1[1].end_ns = 400 * MS;
        busy.0.events.retain(|event| event.what != What::Idle || event.at_ns != 51 * MS);
        assert_eq!(without_mine(busy, &[]), kicks(0.0));
    }

    /// CPU 1's timer of 1 s: whoever became idle when the other one slept wakes up for it.
    #[test]
    fn a_timer_that_any_cpu_may_expire_wakes_all_that_had_been_the_last_to_sleep() {
        let task = [expiry("task", Some(Wheel { cpu: 1, pinned: false }))];
        let mine = [0, 1].map(|cpu| [pinned("mine", cpu)]);
        // CPU 0 sleeps from 101 ms on and CPU 1 from 201, each as the last.
        let slept: [(u32, u64, &[What]); 4] =
            [(0, 10, &task), (1, 50, &[]), (0, 100, &[]), (1, 200, &[])];
        // Then only CPU 1 is.
        let again: [(u32, u64, &[What]); 3] =
            [(0, 900, &mine[0]), (1, 901, &mine[1]), (1, 1_000, &task)];
        let both = Needed { kicks: 0.5, wakes: 1.0 };
        assert_eq!(without_mine(recorded(&[&slept[..], &again].concat()), &[]), both);
        let always = recorded(&[&slept[..], &again[2..]].concat());
        assert_eq!(without_mine(always, &[]), kicks(0.0), "it was so before");
        // Where each CPU's timers are its own.
        let never = recorded(&[&slept[1..], &again].concat());
        assert_eq!(without_mine(never, &[]), kicks(0.0));
    }

    proptest! {
        #[test]
        fn where_nothing_is_gone_nothing_is_needed(
            all in prop::collection::btree_map((0u32..2, 0u64..200), 0usize..4, 0..40)
        ) {
            let whats = [
                vec![],
                vec![What::Set { on: 1, due_ns: 900 * MS }],
                vec![expiry("task", Some(Wheel { cpu: 1, pinned: false }))],
                vec![pinned("other", 0)],
            ];
            let all: Vec<(u32, u64, &[What])> =
                all.iter().map(|((cpu, at), kind)| (*cpu, at * 10, &whats[*kind][..])).collect();
            let (guest, rounds) = recorded(&all);
            let found = needed(&guest, &rounds, &|_| true, "", &BTreeMap::new());
            prop_assert_eq!(found, Needed::default());
        }

        #[test]
        fn no_more_are_told_than_timers_are_set(
            all in prop::collection::btree_map((0u32..2, 0u64..200), 0usize..3, 0..40)
        ) {
            let whats = [
                vec![pinned("mine", 0)],
                vec![What::Set { on: 1, due_ns: 900 * MS }],
                vec![pinned("mine", 1), What::Set { on: 0, due_ns: 1_900 * MS }],
            ];
            let sets = all.values().filter(|kind| **kind > 0).count() as f64;
            let all: Vec<(u32, u64, &[What])> =
                all.iter().map(|((cpu, at), kind)| (*cpu, at * 10, &whats[*kind][..])).collect();
            let found = without_mine(recorded(&all), &[]);
            prop_assert!(found.kicks.abs() <= sets, "{:?}", found);
            prop_assert_eq!(found.wakes, 0.0);
        }
    }
}
