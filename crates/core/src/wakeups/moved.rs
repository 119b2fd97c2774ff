// SPDX-License-Identifier: GPL-2.0-only
//! What it would save if timers of the wheel were deferrable, or rounded to full seconds: their
//! recorded expiries, replayed.

use super::{
    others::needed,
    recording::{Class, GuestWakeups, Irq, Jiffies, What},
    rounds::{exits, Round, Source},
};
use std::collections::BTreeMap;

/// What a timer becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// Deferrable: it waits for a tick that comes anyway.
    Defer,
    /// Rounded to full seconds (`round_jiffies()`).
    Round,
}

/// The exits that would be left of the whole guest if all timers of this function were; none where
/// the recording does not tell.
///
/// Each timer is started again when it expires, for the same time as before.  Others that had been
/// served with it wake CPUs of their own; what they do later for it is not known here.
pub fn left_if_moved(
    guest: &GuestWakeups,
    rounds: &[Round],
    function: &str,
    how: Move,
) -> Option<f64> {
    let jiffies = match how {
        Move::Defer => None,
        Move::Round => Some(guest.jiffies?),
    };
    let of = |round: &Round| match &round.source {
        Source::Timer { timer } => timer.function == function,
        _ => false,
    };
    let ends = |round: &&Round| {
        let waits =
            |timer: &super::Timer| timer.function == function || timer.class == Class::Deferrable;
        of(round) && (round.goes_on || !round.passed_on) && round.timers.iter().all(waits)
    };
    let expiries = |round: &Round| {
        round.timers.iter().filter(|timer| timer.function == function).count() as u64
    };
    let sum = |of: &[&Round]| of.iter().flat_map(|round| round.exits.values()).sum::<u64>() as f64;

    let (mut fires, mut before) = (0, 0);
    let mut wakes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for cpu in guest.numbers() {
        let its: Vec<&Round> = rounds.iter().filter(|round| round.cpu == cpu).collect();
        let times: Vec<u64> =
            its.iter().flat_map(|round| (0..expiries(round)).map(|_| round.woke_ns)).collect();
        before += times.len() as u64;
        let ticks = ticks_in(guest, cpu, its.iter().filter(|round| !ends(round)));
        let (fired, woken) = match jiffies {
            None => (deferred(&times, &ticks, guest.end_ns), Vec::new()),
            Some(jiffies) => rounded(&times, &ticks, jiffies, cpu, guest.end_ns),
        };
        fires += fired;
        wakes.insert(cpu, woken);
    }
    if before == 0 {
        return None;
    }
    let ended: Vec<&Round> = rounds.iter().filter(ends).collect();
    let woken = ended.iter().filter(|round| !round.goes_on).count();
    // What its expiries make other CPUs do.
    let passed: Vec<&Round> =
        rounds.iter().filter(|round| of(round) && round.passed_on && !round.goes_on).collect();
    let each = |of: f64, number: usize| of / number.max(1) as f64;
    let a_wake_up = each(sum(&ended), woken);
    let more = needed(guest, rounds, &|round| !ends(&round), function, &wakes);
    let kicked: Vec<&Round> =
        rounds.iter().filter(|round| round.passed_on && !round.goes_on && !of(round)).collect();
    let a_kick = if kicked.is_empty() { a_wake_up } else { each(sum(&kicked), kicked.len()) };
    let left = exits(rounds) as f64 - sum(&ended) - sum(&passed)
        + (wakes.values().flatten().count() as f64 + more.wakes) * a_wake_up
        + fires as f64 * each(sum(&passed), before as usize)
        + more.kicks * (1.0 + a_kick);
    Some(left)
}

/// When the tick's handler ran, which expires all timers that are due.
fn ticks_in<'a>(
    guest: &GuestWakeups,
    cpu: u32,
    rounds: impl Iterator<Item = &'a &'a Round>,
) -> Vec<u64> {
    let is_tick = |what: &What| match what {
        What::Expiry { timer, .. } => timer.is_tick(),
        What::Irq { irq } => *irq == Irq::Tick,
        _ => false,
    };
    let mut ticks = Vec::new();
    for round in rounds {
        let from = guest.events.partition_point(|event| event.at_ns < round.begin_ns);
        let within = guest.events[from..].iter().take_while(|event| event.at_ns < round.end_ns);
        let its = within.filter(|event| event.cpu == cpu && is_tick(&event.what));
        ticks.extend(its.map(|event| event.at_ns));
    }
    ticks
}

fn sleeps(times: &[u64]) -> impl Iterator<Item = u64> + '_ {
    times.windows(2).map(|pair| pair[1] - pair[0])
}

/// How often a chain of timers expires if each waits for a tick.
fn deferred(times: &[u64], ticks: &[u64], end: u64) -> u64 {
    let Some(mut due) = times.first().copied() else { return 0 };
    let mut fires = 0;
    let mut sleeps = sleeps(times);
    let mut ticks = ticks.iter().copied().filter(|tick| *tick < end);
    while let Some(now) = ticks.find(|tick| *tick >= due) {
        fires += 1;
        match sleeps.next() {
            Some(sleep) => due = now + sleep,
            None => break,
        }
    }
    fires
}

/// How often a chain of timers expires if each is rounded, and when it wakes its CPU.
fn rounded(times: &[u64], ticks: &[u64], jiffies: Jiffies, cpu: u32, end: u64) -> (u64, Vec<u64>) {
    let (mut fires, mut wakes) = (0, Vec::new());
    let Some(first) = times.first().copied() else { return (fires, wakes) };
    let mut sleeps = sleeps(times);
    // As if it had been started as long before as the second one was.
    let before = times.get(1).map_or(0, |second| second - first);
    let mut due = jiffies.rounded(first, first.saturating_sub(before), cpu);
    while due < end {
        fires += 1;
        let next = ticks.partition_point(|tick| *tick < due);
        let shared = ticks.get(next).is_some_and(|tick| tick - due < jiffies.jiffy_ns());
        wakes.extend((!shared).then_some(due));
        match sleeps.next() {
            Some(sleep) => due = jiffies.rounded(due + sleep, due, cpu),
            None => break,
        }
    }
    (fires, wakes)
}

impl Jiffies {
    pub fn jiffy_ns(self) -> u64 {
        1_000_000_000 / self.hz
    }

    /// As `round_jiffies()` (kernel/time/timer.c), of a time that is asked for at `now`.
    fn rounded(self, at_ns: u64, now_ns: u64, cpu: u32) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        let skew = 3 * u64::from(cpu) * self.jiffy_ns();
        // So that no difference is negative.
        let shifted = at_ns + skew + SECOND - self.second_ns % SECOND;
        let after = shifted % SECOND;
        let rounded = match after < SECOND / 4 {
            true => at_ns.saturating_sub(after),
            false => at_ns - after + SECOND,
        };
        if rounded > now_ns {
            rounded
        } else {
            at_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cause::Cause,
        wakeups::{Event, Timer},
    };
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const JIFFIES: Jiffies = Jiffies { hz: 250, second_ns: 0 };

    /// A timer every 46 ms for two seconds on a CPU that something else wakes 5 times a second.
    fn sampled() -> (GuestWakeups, Vec<Round>) {
        let timer = |function: &str| Timer {
            function: function.into(),
            class: Class::Hard,
            process: None,
            start: None,
        };
        let [mine, other, tick] = ["mine", "other", "tick_nohz_handler"].map(timer);
        let mut times: Vec<(u64, &Timer)> =
            (1..43).map(|turn| (turn * 46_000_000, &mine)).collect();
        times.extend((1..10).map(|turn| (turn * 200_000_000 + 7_000_000, &other)));
        times.sort();
        let round = |(begin_ns, timer): (u64, &Timer), end_ns| Round {
            cpu: 0,
            begin_ns,
            woke_ns: begin_ns,
            end_ns,
            source: Source::Timer { timer: timer.clone() },
            passed_on: false,
            goes_on: false,
            timers: vec![timer.clone()],
            exits: [(Cause::Arm, 2), (Cause::Halt, 1)].into(),
            slept: true,
        };
        let ends = times.iter().skip(1).map(|(at, _)| *at).chain([2 * SECOND]);
        let rounds: Vec<Round> =
            times.iter().copied().zip(ends).map(|(at, end)| round(at, end)).collect();
        let expiry = |(at_ns, _): &(u64, &Timer)| Event {
            cpu: 0,
            at_ns: at_ns + 1000,
            what: What::Expiry { timer: tick.clone(), late: None, wheel: None },
        };
        let at = |ns| crate::noise::Instant { tsc: ns, ns };
        let guest = GuestWakeups {
            clock: crate::noise::Clock { begin: at(0), end: at(2 * SECOND) },
            begin_ns: 0,
            end_ns: 2 * SECOND,
            cpus: 1,
            online: Vec::new(),
            jiffies: Some(JIFFIES),
            damon_stat: false,
            events: times.iter().map(expiry).collect(),
        };
        (guest, rounds)
    }

    #[test]
    fn a_deferred_timer_costs_nothing() {
        let (guest, rounds) = sampled();
        assert_eq!(exits(&rounds), 51 * 3);
        assert_eq!(left_if_moved(&guest, &rounds, "mine", Move::Defer), Some(27.0));
        assert_eq!(left_if_moved(&guest, &rounds, "none", Move::Defer), None);
    }

    /// It is due again right after each full second, which is in the past when it is rounded to:
    /// so up to a quarter of a second it expires as before.
    #[test]
    fn a_rounded_timer_wakes_its_cpu_up_to_a_quarter_of_a_second_and_at_its_end() {
        let (guest, rounds) = sampled();
        let left = left_if_moved(&guest, &rounds, "mine", Move::Round).unwrap();
        // 46, 92, 138, 184 and 230 ms, then the full second, and the same again.
        assert_eq!(left, 27.0 + 11.0 * 3.0);
        let unknown = GuestWakeups { jiffies: None, ..guest };
        assert_eq!(left_if_moved(&unknown, &rounds, "mine", Move::Round), None);
    }

    proptest! {
        #[test]
        fn rounded_times_are_full_seconds_or_as_they_were(
            at in SECOND..9 * SECOND,
            before in 0..SECOND,
            second_ns in 0..SECOND,
            cpu in 0u32..4,
        ) {
            let jiffies = Jiffies { hz: 250, second_ns };
            let found = jiffies.rounded(at, at - before, cpu);
            prop_assert!(found > at - before || found == at);
            prop_assert!(found + SECOND / 4 > at && found < at + SECOND);
            let skewed = found + 12_000_000 * u64::from(cpu) + SECOND - second_ns;
            prop_assert!(found == at || skewed.is_multiple_of(SECOND));
        }

        #[test]
        fn who_waits_for_ticks_expires_at_most_once_in_each(
            times in proptest::collection::btree_set(0..9 * SECOND, 0..40),
            ticks in proptest::collection::btree_set(0..9 * SECOND, 0..40),
        ) {
            let [times, ticks] = [times, ticks].map(Vec::from_iter);
            let fires = deferred(&times, &ticks, 9 * SECOND);
            prop_assert!(fires <= times.len().min(ticks.len()) as u64);
        }
    }
}
