// SPDX-License-Identifier: GPL-2.0-only
//! Noise: how much there was, where it went, what it came from, and the worst of it.

use crate::{
    number::{self, count, nanos},
    table::Table,
};
use paratick_core::noise::{
    Absence, Budget, Class, Entry, Found, HostNoise, Ledger, Level, Parts, Rank, Source, Stalls,
    Trial,
};

/// As many sources as one looks at.
const SHOWN: usize = 20;

pub fn cpus(ledger: &Ledger) -> Table {
    let columns =
        ["CPU", "Gaps", "Noise", "CPU available", "Longest", "Unknown to guest", "Unexplained"];
    let caption = format!("What osnoise found in {}", nanos(ledger.window_ns));
    let mut table = Table::new(caption, columns);
    let mut cpus: Vec<u32> = ledger.entries.iter().map(|entry| entry.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        let gaps: Vec<&Entry> = ledger.entries.iter().filter(|entry| entry.cpu == cpu).collect();
        let noise: u64 = gaps.iter().map(|entry| entry.ns).sum();
        let longest = gaps.iter().map(|entry| entry.ns).max().unwrap_or(0);
        let those = |is: &dyn Fn(&Entry) -> bool| gaps.iter().filter(|entry| is(entry)).count();
        let unexplained =
            |entry: &Entry| entry.events.iter().any(|e| e.source == Source::Unexplained);
        table.row(
            cpu.to_string(),
            [
                count(gaps.len() as f64),
                nanos(noise),
                percent(1.0 - noise as f64 / ledger.window_ns.max(1) as f64),
                nanos(longest),
                count(those(&|entry| entry.unknown_to_guest) as f64),
                count(those(&unexplained) as f64),
            ],
        );
    }
    table.note(
        "Unknown to guest: gaps of which the guest's kernel knows nothing, so its osnoise calls \
         them hardware noise.",
    );
    table
}

/// Where the time of all gaps went; `with_host` is whether the host was asked, too.
pub fn parts(ledger: &Ledger, with_host: bool) -> Table {
    let mut table = Table::new("Where that time went", ["Part", "Time", "Share"]);
    let sum = ledger.parts();
    let all = sum.sum().max(1) as f64;
    for (name, ns) in Parts::NAMES.into_iter().zip(sum.all()) {
        let of_host = ["KVM", "VMM", "blocked", "steal", "host's interrupts"].contains(&name);
        if with_host || !of_host {
            table.row(name, [nanos(ns), percent(ns as f64 / all)]);
        }
    }
    table.note("The parts are disjoint, and add up to the noise to the nanosecond.");
    table.note(match with_host {
        true => "Rest: what no tracepoint sees, such as the world switches themselves.",
        false => "Rest: exits, steal and hardware; only the host can tell them apart.",
    });
    table
}

/// What it came from, the costliest first.
pub fn ranks(ranks: &[Rank], caption: &str) -> Table {
    let mut table = Table::new(caption, ["Source", "Count", "In all", "Share", "Longest"]);
    let all = ranks.iter().map(|rank| rank.total_ns).sum::<u64>().max(1) as f64;
    for rank in ranks.iter().take(SHOWN) {
        table.row(
            rank.source.to_string(),
            [
                count(rank.count as f64),
                nanos(rank.total_ns),
                percent(rank.total_ns as f64 / all),
                nanos(rank.longest_ns),
            ],
        );
    }
    if let Some(more) = ranks.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        table.note(format!(
            "{} more are shorter together; JSON has them.",
            number::plural(more, "source")
        ));
    }
    table
}

/// What to do, for the costliest sources first; each knob once.
pub fn advice(ranks: &[Rank]) -> Vec<String> {
    let mut told = Vec::new();
    let mut lines = Vec::new();
    for Rank { source, .. } in ranks {
        let Some(knob) = source.knob().filter(|knob| !told.contains(knob)) else { continue };
        let or = source.alternative().map_or(String::new(), |or| format!(", or {or}"));
        lines.push(format!("{knob}{or} ({source})"));
        told.push(knob);
    }
    lines
}

/// Exits by how far they went, as the host saw them.
pub fn classes(absences: &[Absence], window_ns: u64) -> Table {
    let caption = format!("Exits in {}, by how far they went", nanos(window_ns));
    let columns =
        ["Class", "Exits", "Half at most", "90 % at most", "Longest", "KVM", "VMM", "Steal"];
    let mut table = Table::new(caption, columns);
    for class in [Class::Light, Class::Heavy, Class::Halt] {
        let those: Vec<&Absence> = absences.iter().filter(|one| one.class == class).collect();
        let mut lengths: Vec<u64> = those.iter().map(|one| one.ns).collect();
        lengths.sort_unstable();
        let at_most = |share: f64| {
            let at = (lengths.len().saturating_sub(1) as f64 * share) as usize;
            number::or_nothing(lengths.get(at), |ns| nanos(*ns))
        };
        let sum = |of: &dyn Fn(&Absence) -> u64| nanos(those.iter().map(|one| of(one)).sum());
        table.row(
            class.to_string(),
            [
                count(those.len() as f64),
                at_most(0.5),
                at_most(0.9),
                at_most(1.0),
                sum(&|one| one.kvm_ns + one.interrupted_ns),
                sum(&|one| one.vmm_ns),
                sum(&|one| one.waited_ns),
            ],
        );
    }
    table.note(
        "Light: KVM alone dealt with it. Heavy: the VMM had to. Halt: the vCPU had nothing to do. \
         The host's interrupts count as KVM here.",
    );
    table
}

/// One line for a gap: its length, and what it consists of, in the order in which that began.
pub fn chain(entry: &Entry) -> String {
    // What comes again and again is told once.
    let mut told: Vec<(&Source, u64, u64)> = Vec::new();
    for event in entry.events.iter().filter(|event| event.ns > 0) {
        match told.iter_mut().find(|(source, ..)| *source == &event.source) {
            Some((_, count, ns)) => (*count, *ns) = (*count + 1, *ns + event.ns),
            None => told.push((&event.source, 1, event.ns)),
        }
    }
    let times = |count: u64| if count > 1 { format!("{count} × ") } else { String::new() };
    let parts: Vec<String> = told
        .iter()
        .map(|(source, count, ns)| format!("{}{source} {}", times(*count), nanos(*ns)))
        .collect();
    let at = entry.begin_ns as f64 / 1e9;
    format!("CPU {} at {at:.6} s: {} = {}", entry.cpu, nanos(entry.ns), parts.join(" + "))
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Exits by class, and the same by the emulator.
pub fn audit(host: &HostNoise) -> Option<String> {
    let audit = host.audit?;
    let world_switches = audit.world_switches?;
    let [light, heavy, halts] =
        [Class::Light, Class::Heavy, Class::Halt].map(|class| host.audited(class));
    let going_on = audit.exits - light - heavy - halts;
    let number = |n: u64| count(n as f64);
    Some(format!(
        "{} light exits + {} heavy ones + {} halts + {} that went on = {} exits; the emulator \
         counted {} world switches meanwhile.",
        number(light),
        number(heavy),
        number(halts),
        number(going_on),
        number(audit.exits),
        number(world_switches),
    ))
}

/// Which knobs to turn so that no gap is longer than a budget.
pub fn budget(plan: &Budget) -> String {
    let most = nanos(plan.budget_ns);
    if plan.over == 0 {
        return format!(
            "No gap is longer than {most}: the longest takes {}.\n",
            nanos(plan.longest_ns)
        );
    }
    let gaps = number::plural(plan.over, "gap");
    let mut text = match plan.still_over {
        0 => format!("For {gaps} longer than {most}, the fewest knobs that are enough:\n"),
        left => format!(
            "For {gaps} longer than {most}, no knobs are enough: {left} would be left with all of \
             these:\n"
        ),
    };
    for knob in &plan.knobs {
        text += &format!("- {knob}\n");
    }
    let left: Vec<String> = plan.left.iter().map(Source::to_string).collect();
    let of = if left.is_empty() { String::new() } else { format!(" ({})", left.join(" + ")) };
    text += &format!(
        "Predicted: the longest gap {}{of}, the noise {}.\n",
        nanos(plan.longest_ns),
        nanos(plan.noise_ns)
    );
    text
}

/// What knobs were to do, and what they did.
pub fn trial(trial: &Trial) -> Table {
    let over = format!("Longer than {}", nanos(trial.budget_ns));
    let mut table =
        Table::new("With these knobs turned", ["", "Longest gap", over.as_str(), "Noise"]);
    let rows =
        [("before", trial.before), ("predicted", trial.predicted), ("measured", trial.measured)];
    for (name, Level { longest_ns, over, noise_ns }) in rows {
        table.row(name, [nanos(longest_ns), count(over as f64), nanos(noise_ns)]);
    }
    for knob in &trial.not_turned {
        table.note(format!("Not turned, because no boot does that: {knob}."));
    }
    table
}

/// What was found of the stalls that the emulator was told to make.
pub fn stalls(stalls: Stalls, found: &Found) -> String {
    let lengths = match (found.lengths_ns.iter().min(), found.lengths_ns.iter().max()) {
        (Some(least), Some(most)) => {
            format!(", {} to {} ns long", count(*least as f64), count(*most as f64))
        }
        _ => String::new(),
    };
    format!(
        "Stalls of {} every {} on the pCPU of CPU 0: {} were due, {} are found as \
         unexplained{lengths}, {} are part of an exit or of what the guest did, {} are missed. \
         Unexplained without a stall: {}.",
        nanos(stalls.ns),
        nanos(stalls.every_ns),
        found.due,
        found.lengths_ns.len(),
        found.hidden,
        found.missed,
        found.others,
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use paratick_core::{
        cause::Cause,
        noise::{
            budget as plan, by_source, host_sources, ledger, Clock, Disturbance, Gap, GuestNoise,
            HostNoise, Instant, Kind, Knob, TscOffset,
        },
    };

    pub(crate) fn recorded() -> (GuestNoise, HostNoise) {
        let at = |ns| Instant { tsc: ns, ns };
        let clock = Clock { begin: at(0), end: at(10_000_000) };
        let tick = Disturbance {
            kind: Kind::Irq,
            name: "virtual_tick".into(),
            begin_ns: 101_000,
            end_ns: 106_000,
        };
        let gap = |cpu, begin_ns, ns, disturbances: Vec<Disturbance>| Gap {
            cpu,
            begin_ns,
            ns,
            interference: disturbances.len() as u32,
            disturbances,
        };
        let gaps = vec![
            gap(0, 100_000, 7_000, vec![tick]),
            gap(0, 200_000, 41_000, vec![]),
            gap(1, 300_000, 9_000, vec![]),
        ];
        let absence =
            |vcpu, begin_ns, [kvm_ns, vmm_ns, waited_ns]: [u64; 3], cause, reason: &str| Absence {
                process: 5,
                vcpu,
                begin_ns,
                ns: kvm_ns + vmm_ns + waited_ns,
                kvm_ns,
                vmm_ns,
                blocked_ns: 0,
                waited_ns,
                interrupted_ns: 0,
                cause,
                reason: reason.into(),
                class: if vmm_ns > 0 { Class::Heavy } else { Class::Light },
                exit_cpu: 0,
                entry_cpu: 0,
                held: false,
                audited: false,
                taker: (waited_ns > 0).then(|| "kworker/2:1".into()),
            };
        let absences = vec![
            absence(0, 200_500, [6_000, 0, 33_000], Cause::HostTick, "intr"),
            absence(1, 300_400, [2_000, 6_000, 0], Cause::Io, "io"),
        ];
        let offset = |vcpu| TscOffset { process: 5, vcpu, offset: 0 };
        let host = HostNoise {
            clock,
            tsc_offsets: vec![offset(0), offset(1)],
            exits: 2,
            vmm_end_unknown: false,
            audit: None,
            absences,
        };
        (GuestNoise { clock, begin_ns: 0, end_ns: 10_000_000, gaps }, host)
    }

    #[test]
    fn noise_is_shown_from_its_sum_to_its_worst_gap() {
        let (guest, host) = recorded();
        let book = ledger(&guest, Some((&host, 5)));
        let events = book.entries.iter().flat_map(|entry| &entry.events);
        let sources = by_source(events.map(|event| (event.source.clone(), event.ns)));
        let text = [
            cpus(&book).text(),
            parts(&book, true).text(),
            ranks(&sources, "What it came from").text(),
            advice(&sources).join("\n") + "\n",
            chain(&book.entries[1]) + "\n",
        ];
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn a_host_alone_shows_its_exits() {
        let (_, host) = recorded();
        let text = classes(&host.absences, 10_000_000).text()
            + "\n"
            + &ranks(&host_sources(&host.absences), "What their time came from").text();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_budget_names_the_knobs_that_meet_it() {
        let (guest, host) = recorded();
        let book = ledger(&guest, Some((&host, 5)));
        let texts = [100_000, 20_000, 1_000].map(|most| super::budget(&plan(&book, most)));
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn what_knobs_did_stands_below_what_they_were_to_do() {
        let level = |longest_ns, over, noise_ns| Level { longest_ns, over, noise_ns };
        let trial = Trial {
            budget_ns: 20_000,
            before: level(41_000, 12, 300_000),
            predicted: level(9_000, 0, 20_000),
            measured: level(21_000, 1, 31_000),
            not_turned: vec![Knob::Quota],
            over: Vec::new(),
        };
        insta::assert_snapshot!(super::trial(&trial).text());
    }
}
