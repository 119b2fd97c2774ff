// SPDX-License-Identifier: GPL-2.0-only
//! Latency: its parts, the exits in it, and the worst of it.

use crate::{
    number::{self, count, nanos},
    table::Table,
};
use paratick_core::latency::{ByCause, Parts, Sampler, Split, Spread, Summary};

/// The first of [`Parts`] that only a host tells, and how many there are.
const HOST_S: usize = 3;

/// The parts and the sampler's own two numbers; `with_host` is whether the host was asked, too.
pub fn parts(summary: &Summary, sampler: Sampler, window_ns: u64, with_host: bool) -> Table {
    let activations = number::plural(summary.activations, "activation");
    let who = match sampler {
        Sampler::Timerlat => "timerlat",
        Sampler::User => "a program that sleeps",
    };
    let caption = format!("{activations} of {who} in {}", nanos(window_ns));
    let columns = ["Part", "Half at most", "99 % at most", "Longest", "In all", "Share"];
    let mut table = Table::new(caption, columns);
    let all = summary.thread.map_or(1, |spread| spread.sum_ns.max(1)) as f64;
    let mut row = |name: &str, spread: Option<Spread>| {
        let cell = |of: &dyn Fn(Spread) -> u64| number::or_nothing(spread, |s| nanos(of(s)));
        let share = |s: Spread| format!("{:.1} %", 100.0 * s.sum_ns as f64 / all);
        table.row(
            name,
            [
                cell(&|s| s.median_ns),
                cell(&|s| s.p99_ns),
                cell(&|s| s.max_ns),
                cell(&|s| s.sum_ns),
                number::or_nothing(spread, share),
            ],
        );
    };
    for (at, (name, spread)) in summary.parts.iter().enumerate() {
        let exits = name.starts_with("exits");
        match with_host {
            false if at < HOST_S || exits => {}
            false if at == HOST_S => row("until the guest's IRQ", *spread),
            _ => row(name, *spread),
        }
    }
    let whose = match sampler {
        Sampler::Timerlat => "timerlat's",
        Sampler::User => "the program's",
    };
    row(&format!("= {whose} IRQ"), summary.irq);
    row(&format!("= {whose} thread"), summary.thread);
    table.note(match with_host {
        true => format!(
            "The parts of each activation add up to {whose} number for the thread, and all but the \
             last two to that for the IRQ, to the nanosecond. Halves do not add up."
        ),
        false => {
            "Without its host, a guest cannot tell what the time until its IRQ consists of.".into()
        }
    });
    if sampler == Sampler::User {
        table.note(PROGRAM);
    }
    table.note(carriers(summary, with_host));
    if summary.doubtful > 0 {
        table.note(format!(
            "In {} the clocks of guest and host contradict each other by more than 1 µs.",
            number::plural(summary.doubtful, "activation")
        ));
    }
    table
}

/// What a program that slept, and not timerlat, measures otherwise.
const PROGRAM: &str = "A program in user space waited, one thread on each CPU with SCHED_FIFO 95, \
    as timerlat's: guest's thread has the way back to user space, too, until the program has read \
    the clock.";

fn carriers(summary: &Summary, with_host: bool) -> String {
    let via = summary.via.iter().map(|(via, times)| format!("{via} {}", count(*times as f64)));
    let via = via.collect::<Vec<_>>().join(", ");
    match with_host {
        true => format!(
            "The guest's timer expired in: {via}. KVM's own timer expired for {} of them; for the \
             others the first that the host had to do with it counts.",
            count(summary.host_timers as f64)
        ),
        false => format!("The guest's timer expired in: {via}."),
    }
}

/// The exits between the entry with the interrupt and the thread.
pub fn exits(causes: &[ByCause]) -> Table {
    let mut table = Table::new("Exits on the way", ["Cause", "Count", "In all", "Longest"]);
    for one in causes {
        table.row(
            format!("{} ({})", one.cause, one.reason),
            [count(one.count as f64), nanos(one.total_ns), nanos(one.longest_ns)],
        );
    }
    table
}

/// One line for an activation: its latency, and what it consists of.
pub fn chain(split: &Split) -> String {
    let parts = Parts::NAMES.into_iter().zip(split.parts.all());
    let mut told: Vec<String> = parts
        .filter(|(name, ns)| *ns > 0 && !name.starts_with("exits"))
        .map(|(name, ns)| format!("{name} {}", nanos(ns)))
        .collect();
    let exits = split.exits.iter().filter(|exit| exit.ns > 0);
    told.extend(
        exits.map(|exit| format!("exit: {} ({}) {}", exit.cause, exit.reason, nanos(exit.ns))),
    );
    format!(
        "CPU {} #{}, in {}: {} = {}",
        split.cpu,
        split.number,
        split.via,
        nanos(split.thread_ns),
        told.join(" + ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::{
        cause::Cause,
        latency::{exits_by_cause, summary, Absent, Via},
    };

    fn split(number: u64, thread_exits: u64, via: Via) -> Split {
        let parts = Parts {
            timer: 1_000 * number,
            wake: 2_000,
            entry: 3_000,
            injection: 900,
            irq: 1_500,
            irq_exits: 0,
            thread: 4_000,
            thread_exits,
        };
        let exit = Absent { cause: Cause::Arm, reason: "msr_write".into(), ns: thread_exits };
        Split {
            cpu: 1,
            number,
            deadline_ns: number * 1_000_000,
            via,
            irq_ns: parts.until_irq(),
            thread_ns: parts.sum(),
            parts,
            host_timer: number < 3,
            doubtful: number == 3,
            exits: vec![exit],
        }
    }

    #[test]
    fn latency_is_shown_by_its_parts_and_at_its_worst() {
        let splits = [
            split(1, 3_700, Via::LocalTimer),
            split(2, 4_100, Via::LocalTimer),
            split(3, 0, Via::VirtualTick),
        ];
        let table = parts(&summary(&splits), Sampler::Timerlat, 3_000_000, true)
            .text()
            .replace("\n  ", " ");
        assert!(table.contains("3 activations of timerlat in 3.00 ms"), "{table}");
        assert!(table.contains("local timer 2, virtual tick 1."), "{table}");
        assert!(table.contains("KVM's own timer expired for 2 of them"), "{table}");
        assert!(table.contains("In 1 activation the clocks of guest and host"), "{table}");
        let causes = exits(&exits_by_cause(&splits)).text();
        assert!(causes.contains("arm (msr_write)"), "{causes}");
        assert_eq!(
            chain(&splits[1]),
            "CPU 1 #2, in local timer: 17.5 µs = host's timer late 2.00 µs + wake-up 2.00 µs + \
             entry 3.00 µs + injection 900 ns + guest's IRQ 1.50 µs + guest's thread 4.00 µs + \
             exit: arm (msr_write) 4.10 µs"
        );
        // An exit of no time is not told.
        assert!(chain(&splits[2]).ends_with("guest's thread 4.00 µs"));
    }

    #[test]
    fn a_guest_alone_has_one_part_until_its_interrupt() {
        let splits = [split(1, 0, Via::LocalTimer)];
        let table = parts(&summary(&splits), Sampler::Timerlat, 3_000_000, false).text();
        assert!(table.contains("until the guest's IRQ"), "{table}");
        assert!(!table.contains("wake-up") && !table.contains("exits"), "{table}");
        assert!(!table.contains("program"), "{table}");
    }

    #[test]
    fn a_program_that_waited_is_told() {
        let splits = [split(1, 0, Via::LocalTimer)];
        let table = parts(&summary(&splits), Sampler::User, 3_000_000, true).text();
        assert!(table.contains("1 activation of a program that sleeps in 3.00 ms"), "{table}");
        assert!(table.contains("= the program's IRQ") && !table.contains("= timerlat"), "{table}");
        assert!(table.contains("the way back to user space"), "{table}");
    }

    #[test]
    fn of_no_activations_nothing_is_known() {
        let table = parts(&summary(&[]), Sampler::Timerlat, 3_000_000, true).text();
        assert!(table.contains("0 activations") && !table.contains("NaN"), "{table}");
    }
}
