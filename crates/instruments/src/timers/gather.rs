// SPDX-License-Identifier: GPL-2.0-only
//! From records to events with names.

use super::raw::{
    Wake, WAKE_DEVICE, WAKE_HRTIMER, WAKE_IDLE, WAKE_IPI, WAKE_IRQ, WAKE_IRQ_ASYNC_PF,
    WAKE_IRQ_CALL, WAKE_IRQ_RESCHEDULE, WAKE_IRQ_TICK, WAKE_IRQ_TIMER, WAKE_RUN, WAKE_SET,
    WAKE_WAKING, WAKE_WHEEL, WAKE_WORK, WHEEL_CPU, WHEEL_DEFERRABLE, WHEEL_PINNED,
};
use crate::{bpf::name, symbols::Symbols};
use paratick_core::wakeups::{Class, Event, Irq, Jiffies, Late, Process, Timer, What, Wheel};
use std::collections::{BTreeMap, BTreeSet};

/// Where timers were started, by the number of the stack in their records.
pub type Starts = BTreeMap<u32, String>;

/// What the kernel starts timers with, sleeps with, and comes to it by: beginnings of names.
const HELPERS: &[&str] = &[
    "__traceiter_",
    "__mod_timer",
    "mod_timer",
    "timer_reduce",
    "add_timer",
    "enqueue_timer",
    "internal_add_timer",
    "__internal_add_timer",
    "enqueue_hrtimer",
    "hrtimer_start_range_ns",
    "__hrtimer_start_range_ns",
    "hrtimer_sleeper_start_expires",
    "__queue_delayed_work",
    "queue_delayed_work_on",
    "mod_delayed_work_on",
    "schedule_timeout",
    "schedule_hrtimeout",
    "msleep",
    "usleep_range",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "common_nsleep",
];

/// Where timers of high resolution are that their own callbacks start again.
const RESTART: &str = "__hrtimer_run_queues";

/// The state in which x86 polls (drivers/cpuidle/poll_state.c; do_idle(), kernel/sched/idle.c).
const POLL_STATE: u32 = 0;

/// Who started a timer, of the calls in which it was started, the innermost first.
pub fn start(calls: &[u64], symbols: &Symbols) -> Option<String> {
    let helps = |name: &&str| HELPERS.iter().any(|helper| name.starts_with(helper));
    let mut names = calls.iter().map_while(|call| symbols.caller(*call));
    let first = names.find(|name| !helps(name))?;
    (first != RESTART).then(|| first.to_string())
}

/// In the order of time.
///
/// A timer that was started before the recording, and expires again in it, is known by that.
pub fn gather(records: &[Wake], starts: &Starts, symbols: &Symbols) -> Vec<Event> {
    let hz = rate_of_jiffies(records);
    let mut known: BTreeMap<u64, &Wake> = BTreeMap::new();
    for one in records.iter().rev().filter(|one| one.known != 0) {
        known.insert(one.timer, one);
    }
    let mut polls = BTreeSet::new();
    let mut events: Vec<Event> = records
        .iter()
        .filter(|one| !halts_after_a_poll(one, &mut polls))
        .filter_map(|one| {
            let again = known.get(&one.timer).filter(|again| again.function == one.function);
            let armed = if one.known == 0 { again.copied().unwrap_or(one) } else { one };
            let what = what(one, armed, starts, symbols, hz)?;
            Some(Event { cpu: one.cpu, at_ns: one.at_ns, what })
        })
        .collect();
    // Each CPU's are in order already.
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Whether a CPU that has become idle, and polled, now halts, with nothing between the two: it is
/// idle still.  `polls` are the CPUs of which the last record says that they poll.
fn halts_after_a_poll(one: &Wake, polls: &mut BTreeSet<u32>) -> bool {
    let polled = polls.remove(&one.cpu);
    if one.kind == WAKE_IDLE && one.number == POLL_STATE {
        polls.insert(one.cpu);
    }
    polled && one.kind == WAKE_IDLE && one.number != POLL_STATE
}

/// `armed` tells of a timer's start.  None where it is not known when it is due.
fn what(
    one: &Wake,
    armed: &Wake,
    starts: &Starts,
    symbols: &Symbols,
    hz: Option<u64>,
) -> Option<What> {
    let text = || name(one.name_low, one.name_high);
    Some(match one.kind {
        WAKE_IDLE => What::Idle,
        WAKE_IRQ => What::Irq { irq: irq(one.number) },
        WAKE_DEVICE => What::Device { name: text() },
        WAKE_HRTIMER | WAKE_WHEEL => What::Expiry {
            timer: Timer {
                function: symbols.name(one.function),
                class: class(armed, hz),
                process: process(armed),
                start: starts.get(&armed.stack).cloned(),
            },
            late: late(one, hz),
            wheel: wheel(armed),
        },
        WAKE_WORK => What::Work { function: symbols.name(one.function) },
        WAKE_WAKING => What::Waking { task: one.number, by: text() },
        WAKE_RUN => What::Run { task: one.number, name: text() },
        WAKE_IPI => What::Ipi { to: one.number },
        WAKE_SET => {
            let jiffies = one.expires.max(one.bucket).saturating_sub(one.now);
            let due_ns = one.at_ns + jiffies * 1_000_000_000 / hz?;
            What::Set { on: one.flags & WHEEL_CPU, due_ns }
        }
        kind => unreachable!("a record of kind {kind}, of our own program"),
    })
}

fn wheel(armed: &Wake) -> Option<Wheel> {
    let is_known = armed.kind == WAKE_WHEEL && armed.known != 0;
    is_known.then_some(Wheel {
        cpu: armed.flags & WHEEL_CPU,
        pinned: armed.flags & (WHEEL_PINNED | WHEEL_DEFERRABLE) != 0,
    })
}

fn irq(number: u32) -> Irq {
    match number {
        WAKE_IRQ_TIMER => Irq::Timer,
        WAKE_IRQ_RESCHEDULE => Irq::Reschedule,
        WAKE_IRQ_CALL => Irq::Call,
        WAKE_IRQ_TICK => Irq::Tick,
        WAKE_IRQ_ASYNC_PF => Irq::AsyncPageFault,
        _ => Irq::Work,
    }
}

/// `round_jiffies()` takes full seconds, and three jiffies less for each CPU (kernel/time/timer.c).
fn class(one: &Wake, hz: Option<u64>) -> Class {
    let skewed = |hz: u64| one.expires.wrapping_add(3 * u64::from(one.cpu)) % hz == 0;
    match one.kind {
        _ if one.known == 0 => Class::Unknown,
        WAKE_HRTIMER if one.slack_ns > 0 => Class::Slack,
        WAKE_HRTIMER => Class::Hard,
        _ if one.flags & WHEEL_DEFERRABLE != 0 => Class::Deferrable,
        _ if hz.is_some_and(skewed) => Class::Rounded,
        _ => Class::Hard,
    }
}

/// How late it is, and may be; by jiffies where it is of the wheel.
fn late(one: &Wake, hz: Option<u64>) -> Option<Late> {
    if one.known == 0 {
        return None;
    }
    let since = |then: u64| one.now.wrapping_sub(then) as i64;
    if one.kind == WAKE_HRTIMER {
        return Some(Late { ns: since(one.expires), allowed_ns: Some(one.slack_ns) });
    }
    let jiffy = 1_000_000_000 / hz?;
    let bucket = (one.bucket != 0 && one.flags & WHEEL_DEFERRABLE == 0)
        .then(|| one.bucket.saturating_sub(one.expires) * jiffy);
    Some(Late { ns: since(one.expires) * jiffy as i64, allowed_ns: bucket })
}

fn process(one: &Wake) -> Option<Process> {
    let name = name(one.name_low, one.name_high);
    match one.pid {
        0 => None,
        _ if name.starts_with("kworker/") => {
            Some(Process { pid: None, name: "kworker".into(), unit: None })
        }
        pid => Some(Process { pid: Some(pid), name, unit: None }),
    }
}

/// None where no two timers of the wheel expired, or its rate is none we know.
pub fn jiffies(records: &[Wake]) -> Option<Jiffies> {
    let hz = rate_of_jiffies(records)?;
    let wheel = records.iter().filter(|one| one.kind == WAKE_WHEEL);
    // Each jiffy begins at the earliest a little before what expires in it.
    let zero = |one: &Wake| i128::from(one.at_ns) - i128::from(one.now) * (SECOND / i128::from(hz));
    let second_ns = wheel.map(zero).min()?.rem_euclid(SECOND) as u64;
    Some(Jiffies { hz, second_ns })
}

const SECOND: i128 = 1_000_000_000;

/// The kernel's HZ: by how many jiffies two expiries of the wheel are apart.
fn rate_of_jiffies(records: &[Wake]) -> Option<u64> {
    let mut wheel = records.iter().filter(|one| one.kind == WAKE_WHEEL);
    let first = wheel.next()?;
    let last = wheel.next_back()?;
    let jiffies = last.now.checked_sub(first.now)? as f64;
    let rate = jiffies * 1e9 / last.at_ns.checked_sub(first.at_ns)? as f64;
    [100, 250, 300, 1000].into_iter().find(|hz| (rate / *hz as f64 - 1.0).abs() < 0.05)
}
