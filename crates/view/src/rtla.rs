// SPDX-License-Identifier: GPL-2.0-only
//! Noise in the text of `rtla osnoise` (tools/tracing/rtla), for scripts that read that.  Times are
//! in microseconds, cut as rtla cuts them.

use paratick_core::noise::{Entry, Kind, Ledger, Place, Source};
use std::fmt::Write as _;

/// `rtla osnoise hist` has so many buckets by default, of 1 µs.
const BUCKETS: u64 = 256;

struct Cpu<'a> {
    number: u32,
    gaps: Vec<&'a Entry>,
}

impl Cpu<'_> {
    fn events(&self, is: impl Fn(&Source) -> bool) -> usize {
        let events = self.gaps.iter().flat_map(|gap| &gap.events);
        events.filter(|event| event.ns > 0 && is(&event.source)).count()
    }

    fn exits(&self) -> usize {
        let told = self.gaps.iter().filter_map(|gap| gap.exits).map(|exits| exits.all() as usize);
        told.sum::<usize>() + self.events(|source| matches!(source, Source::Exit { .. }))
    }

    fn of_guest(&self, wanted: Kind) -> usize {
        self.events(|source| matches!(source, Source::Guest { kind, .. } if *kind == wanted))
    }

    /// In each bucket, then how many are longer.
    fn buckets(&self) -> Vec<usize> {
        let mut buckets = vec![0; BUCKETS as usize + 1];
        for gap in &self.gaps {
            buckets[(gap.ns / 1_000).min(BUCKETS) as usize] += 1;
        }
        buckets
    }

    fn micros(&self) -> impl Iterator<Item = u64> + '_ {
        self.gaps.iter().map(|gap| gap.ns / 1_000)
    }
}

/// What the guest was told has no number: it is one for each gap.
fn is_away(source: &Source, where_to: Place) -> bool {
    match source {
        Source::Vmm { .. } => where_to == Place::Vmm,
        Source::Preempted { .. } | Source::Held => where_to == Place::Steal,
        Source::Away { place } => *place == where_to,
        _ => false,
    }
}

fn cpus(ledger: &Ledger) -> Vec<Cpu<'_>> {
    let mut numbers: Vec<u32> = ledger.entries.iter().map(|entry| entry.cpu).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number: u32| Cpu {
        number,
        gaps: ledger.entries.iter().filter(|entry| entry.cpu == number).collect(),
    };
    numbers.into_iter().map(of).collect()
}

fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("{days:3} {hours:02}:{:02}:{:02}", seconds / 60 % 60, seconds % 60)
}

/// As `rtla osnoise top`, with columns that it lacks at the end.  `with_host` is whether the host
/// was asked, too; without it, and if it did not tell the guest, exits count as hardware, as they
/// do for rtla.
pub fn top(ledger: &Ledger, with_host: bool) -> String {
    let with_host = with_host || ledger.exits().is_some();
    let mut text = format!("{:>58}\n", "Operating System Noise");
    let _ = writeln!(text, "duration: {} | time is in us", clock(ledger.window_ns));
    text += "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          \
             HW          NMI          IRQ      Softirq       Thread";
    if with_host {
        text += "         KVM          VMM        Steal";
    }
    text.push('\n');
    let periods = ledger.window_ns.div_ceil(1_000_000_000);
    let runtime = ledger.window_ns / 1_000;
    for cpu in cpus(ledger) {
        let noise: u64 = cpu.gaps.iter().map(|gap| gap.ns).sum::<u64>() / 1_000;
        let available = 100.0 * runtime.saturating_sub(noise) as f64 / runtime.max(1) as f64;
        let mut per_period = std::collections::BTreeMap::<u64, u64>::new();
        for gap in &cpu.gaps {
            *per_period.entry(gap.begin_ns / 1_000_000_000).or_default() += gap.ns;
        }
        let most = per_period.values().max().copied().unwrap_or(0) / 1_000;
        let longest = cpu.micros().max().unwrap_or(0);
        let unknown = |gap: &&&Entry| match with_host {
            true => gap.events.iter().any(|event| event.source == Source::Unexplained),
            false => gap.unknown_to_guest,
        };
        let hardware = cpu.gaps.iter().filter(unknown).count();
        let _ = write!(
            text,
            "{:3} #{periods:<6} {runtime:12} {noise:12} {available:12.5} {most:11} {longest:12} \
             {hardware:12} {:12} {:12} {:12} {:12}",
            cpu.number,
            cpu.of_guest(Kind::Nmi),
            cpu.of_guest(Kind::Irq),
            cpu.of_guest(Kind::Softirq),
            cpu.of_guest(Kind::Thread),
        );
        if with_host {
            let _ = write!(
                text,
                " {:11} {:12} {:12}",
                cpu.exits(),
                cpu.events(|source| is_away(source, Place::Vmm)),
                cpu.events(|source| is_away(source, Place::Steal)),
            );
        }
        text.push('\n');
    }
    text
}

/// As `rtla osnoise hist`.
pub fn hist(ledger: &Ledger) -> String {
    let cpus = cpus(ledger);
    let mut text = format!(
        "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration: {}\n",
        clock(ledger.window_ns)
    );
    let mut row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>9} ")).collect();
        let _ = writeln!(text, "{name:<6}{}", cells.trim_end());
    };
    row("Index", cpus.iter().map(|cpu| format!("CPU-{:03}", cpu.number)).collect());
    let buckets: Vec<Vec<usize>> = cpus.iter().map(Cpu::buckets).collect();
    for at in 0..BUCKETS as usize {
        let cells: Vec<usize> = buckets.iter().map(|of_cpu| of_cpu[at]).collect();
        if cells.iter().any(|count| *count > 0) {
            row(&at.to_string(), cells.iter().map(usize::to_string).collect());
        }
    }
    row("over:", buckets.iter().map(|of_cpu| of_cpu[BUCKETS as usize].to_string()).collect());
    row("count:", cpus.iter().map(|cpu| cpu.gaps.len().to_string()).collect());
    row("min:", cpus.iter().map(|cpu| cpu.micros().min().unwrap_or(0).to_string()).collect());
    let average = |cpu: &Cpu| cpu.micros().sum::<u64>() as f64 / cpu.gaps.len().max(1) as f64;
    row("avg:", cpus.iter().map(|cpu| format!("{:.2}", average(cpu))).collect());
    row("max:", cpus.iter().map(|cpu| cpu.micros().max().unwrap_or(0).to_string()).collect());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::noise::tests::recorded;
    use paratick_core::noise::ledger;

    #[test]
    fn scripts_find_the_columns_of_rtla() {
        let (guest, host) = recorded();
        let (both, alone) = (ledger(&guest, Some((&host, 5))), ledger(&guest, None));
        insta::assert_snapshot!([top(&both, true), top(&alone, false), hist(&both)].join("\n"));
    }
}
