// SPDX-License-Identifier: GPL-2.0-only
//! What user space does with timers that need no exact time: ten threads that wake up once a
//! second, by the rule that the workload is named for.

use super::{measure::measure, options::Options};
use anyhow::{Context, Result};
use paratick_core::workload::Report;
use rustix::{
    thread::set_current_timer_slack,
    time::{clock_gettime, ClockId},
};
use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

const PERIOD: u64 = 1_000_000_000;
/// A tenth of the period: as prctl(2) is used.
const SLACK: u64 = PERIOD / 10;
/// How late a timer of `accuracy` may be.
const ACCURACY: u64 = PERIOD / 4;
/// Where systemd lets timers meet that may not wait for the second.
const STEP: u64 = PERIOD / 4;

/// When one wakes up that could do so at any time of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each at a phase of its own.
    Phases,
    /// All of a system at one offset in the second, which each system has of its own: as
    /// g_timeout_add_seconds(3).
    Grouped,
    /// At its phase, and the kernel may be late.
    Slack,
    /// Within `ACCURACY` from its phase on, where others of its system wake up: as AccuracySec= of
    /// systemd.timer(5).
    Accuracy,
}

pub fn run(options: &Options, rule: Rule) -> Result<Report> {
    let system = system()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for nth in 0..options.threads as u64 {
            let stop = &stop;
            scope.spawn(move || wakes_up(rule, system, nth, stop));
        }
        let measured = measure(options, || {
            thread::sleep(Duration::from_millis(options.work));
            Ok(options.work)
        });
        stop.store(true, Relaxed);
        measured
    })
}

/// A number that each system has of its own.
fn system() -> Result<u64> {
    let id = fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).context("a boot ID is no number")
}

fn wakes_up(rule: Rule, system: u64, nth: u64, stop: &AtomicBool) {
    if rule == Rule::Slack {
        set_current_timer_slack(NonZeroU64::new(SLACK)).expect("any thread may set its own");
    }
    let mut due = 0;
    while !stop.load(Relaxed) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * PERIOD + now.tv_nsec as u64;
        due = next(rule, system, nth, now.max(due));
        thread::sleep(Duration::from_nanos(due - now));
    }
}

/// When it wakes up after `now`.
fn next(rule: Rule, system: u64, nth: u64, now: u64) -> u64 {
    let own = mixed(system ^ nth) % PERIOD;
    let group = system % PERIOD;
    match rule {
        Rule::Grouped => after(now, group, PERIOD),
        Rule::Phases | Rule::Slack => after(now, own, PERIOD),
        Rule::Accuracy => {
            // The phase after the one that `now` may already have answered.
            let from = after(now.saturating_sub(ACCURACY), own, PERIOD);
            let from = if meets(from, group) > now { from } else { from + PERIOD };
            meets(from, group)
        }
    }
}

/// Where a timer that is due at `from` meets others: at the second of its system, or else at a part
/// of it.
fn meets(from: u64, group: u64) -> u64 {
    let second = after(from, group, PERIOD);
    if second - from < ACCURACY {
        second
    } else {
        after(from, group, STEP)
    }
}

/// The next time that is `offset` beyond a multiple of `every`.
fn after(now: u64, offset: u64, every: u64) -> u64 {
    now + every - (now + every - offset % every) % every
}

/// Far apart for numbers that are not (the last step of SplitMix64).
fn mixed(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// When ten threads wake up in ten seconds, of a system.
    fn times(rule: Rule, system: u64) -> Vec<Vec<u64>> {
        let of = |nth| {
            let mut now = 5 * PERIOD;
            let mut times = Vec::new();
            while now < 15 * PERIOD {
                now = next(rule, system, nth, now);
                times.push(now);
            }
            times
        };
        (0..10).map(of).collect()
    }

    fn distinct(all: &[Vec<u64>]) -> usize {
        all.iter().flatten().map(|at| at % PERIOD).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn each_wakes_up_once_in_each_period() {
        for rule in [Rule::Phases, Rule::Grouped, Rule::Slack, Rule::Accuracy] {
            for times in times(rule, 0x1234_5678_9abc_def0) {
                assert!(times[0] > 5 * PERIOD && times[0] <= 6 * PERIOD + ACCURACY, "{rule:?}");
                assert!(times.windows(2).all(|pair| pair[1] - pair[0] == PERIOD), "{rule:?}");
            }
        }
    }

    #[test]
    fn who_is_grouped_meets_the_others_of_its_system_only() {
        let [one, other] = [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321];
        assert_eq!(distinct(&times(Rule::Phases, one)), 10);
        assert_eq!(distinct(&times(Rule::Grouped, one)), 1);
        assert!((1..=4).contains(&distinct(&times(Rule::Accuracy, one))));
        assert_ne!(times(Rule::Grouped, one), times(Rule::Grouped, other));
    }

    #[test]
    fn nobody_is_later_than_its_accuracy() {
        for nth in 0..10 {
            let own = mixed(7 ^ nth) % PERIOD;
            let found = next(Rule::Accuracy, 7, nth, 5 * PERIOD);
            assert!((found + PERIOD - own) % PERIOD < ACCURACY, "{nth}");
        }
    }
}
