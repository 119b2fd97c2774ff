// SPDX-License-Identifier: GPL-2.0-only
//! Noise: how much there was, where it went, what it came from, and the worst of it.

use crate::{
    number::{self, count, nanos, plural},
    table::Table,
};
use paratick_core::{
    noise::{
        Absence, Budget, Class, Entry, Found, HostNoise, Ledger, Level, Parts, Rank, Source,
        Stalls, Trial,
    },
    stats::at_most,
    vms::OfVms,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// As many sources as one looks at.
const SHOWN: usize = 20;

pub fn cpus(ledger: &Ledger) -> Table {
    let columns =
        ["CPU", "Gaps", "Noise", "CPU available", "Longest", "Unknown to guest", "Unexplained"];
    let who = if ledger.program.is_some() { "a program that samples" } else { "osnoise" };
    let caption = format!("What {who} found in {}", nanos(ledger.window_ns));
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
        "Unknown to guest: gaps of which the guest's kernel knows nothing, so stock osnoise calls \
         them hardware noise.",
    );
    table
}

/// Where the time of all gaps went; `with_host` is whether the host was asked, too.
pub fn parts(ledger: &Ledger, with_host: bool) -> Table {
    let mut table = Table::new("Where that time went", ["Part", "Time", "Share"]);
    let sum = ledger.parts();
    let all = sum.sum().max(1) as f64;
    let told = ledger.exits().is_some();
    for (name, ns) in Parts::NAMES.into_iter().zip(sum.all()) {
        let shown = match name {
            "steal" => ledger.has_steal,
            "KVM" | "VMM" | "blocked" | "host's interrupts" => with_host || told,
            _ => true,
        };
        if shown {
            table.row(name, [nanos(ns), percent(ns as f64 / all)]);
        }
    }
    table.note("The parts are disjoint, and add up to the noise to the nanosecond.");
    table.note(match (with_host, told) {
        (false, false) if ledger.program.is_some() => {
            "Rest: exits, hardware, steal if it has no row, and the ways into the kernel and back. \
             Only the host can tell them apart."
        }
        (true, _) => "Rest: what no tracepoint sees, such as the world switches themselves.",
        (false, true) => {
            "As the host told the guest's kernel. KVM: with the world switches. Host's interrupts: \
             from the exits for them on. Rest: osnoise's loop, the ways into interrupts and to \
             threads, and hardware."
        }
        (false, false) => {
            "Rest: exits, steal and hardware. Only the host can tell them apart, or the kernels of \
             both: one of them is without the series `noise`, or it is switched off."
        }
    });
    table
}

/// What a program that sampled, and not osnoise, cannot know, and what it costs.
pub fn program(ledger: &Ledger) -> Option<String> {
    let program = ledger.program?;
    let steal = match ledger.has_steal {
        true => "",
        false => {
            " Steal is not told apart: the kernel has no such clock, or no CONFIG_KALLSYMS_ALL to \
             say where it is."
        }
    };
    Some(format!(
        "A program in user space sampled: it reads the TSC every {}. The ways into the kernel and \
         back, and what the kernel does on them, are part of each gap. It is a task as any other, \
         and had {} of its own. To tell of a gap takes {} or more, {} of its time. It does not \
         look then: of what comes meanwhile only what the kernel's tracepoints tell of is \
         known.{steal}",
        nanos(program.reading_ns),
        number::plural(program.page_faults as usize, "page fault"),
        nanos(program.telling_ns),
        percent(program.telling_ppm as f64 / 1e6),
    ))
}

/// How many exits the gaps had, where the guest's kernel was told.
pub fn exits(ledger: &Ledger) -> Option<String> {
    let exits = ledger.exits()?;
    let number = |n: u64| count(n as f64);
    let causes = exits.by_cause().map(|(cause, count)| format!("{} {cause}", number(count)));
    Some(format!(
        "Exits in these gaps: {} light + {} heavy + {} halts = {}; by cause {}.",
        number(exits.light),
        number(exits.heavy),
        number(exits.halts),
        number(exits.all()),
        causes.join(" + "),
    ))
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

/// What to do, for the costliest sources first; each knob once.  `with_guest` is whether the guest
/// was asked, too.
pub fn advice(ranks: &[Rank], with_guest: bool) -> Vec<String> {
    let mut told = Vec::new();
    let mut lines = Vec::new();
    for Rank { source, .. } in ranks {
        let Some(knob) = source.knob().filter(|knob| !told.contains(knob)) else { continue };
        if knob.needs_the_guest() && !with_guest {
            continue;
        }
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
        let at_most = |percent| number::or_nothing(at_most(&lengths, percent), nanos);
        let sum = |of: &dyn Fn(&Absence) -> u64| nanos(those.iter().map(|one| of(one)).sum());
        table.row(
            class.to_string(),
            [
                count(those.len() as f64),
                at_most(50),
                at_most(90),
                at_most(100),
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

/// The longest of those absences that were kept for their length.
pub fn long(host: &HostNoise, window_ns: u64) -> Table {
    let caption = format!(
        "{} of {} or more in {}",
        plural(host.absences.len(), "absence"),
        nanos(host.least_ns),
        nanos(window_ns)
    );
    let columns = ["VM", "vCPU", "At", "Away", "Exit", "It was", "Taken by", "CPU"];
    let mut table = Table::new(caption, columns).words(4..);
    let mut longest: Vec<&Absence> = host.absences.iter().collect();
    longest.sort_by_key(|one| (std::cmp::Reverse(one.kept_ns()), one.begin_ns));
    for one in longest.iter().take(SHOWN) {
        let parts = [
            ("in KVM", one.kvm_ns),
            ("in the VMM", one.vmm_ns),
            (if one.held { "held back by a quota" } else { "waiting for a CPU" }, one.waited_ns),
            ("interrupted", one.interrupted_ns),
        ];
        let mut parts: Vec<_> = parts.into_iter().filter(|(_, ns)| *ns > 0).collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let parts = parts.into_iter().map(|(part, ns)| format!("{part} {}", nanos(ns)));
        let cpu = match one.exit_cpu == one.entry_cpu {
            true => one.exit_cpu.to_string(),
            false => format!("{} → {}", one.exit_cpu, one.entry_cpu),
        };
        table.row(
            host.name(one.process),
            [
                one.vcpu.to_string(),
                format!("{:.6} s", one.begin_ns as f64 / 1e9),
                nanos(one.kept_ns()),
                format!("{} ({})", one.cause, one.words()),
                parts.collect::<Vec<_>>().join(", "),
                number::or_nothing(one.taker.as_ref(), |taker| taker.clone()),
                cpu,
            ],
        );
    }
    if longest.len() > SHOWN {
        table.note(format!("These are the longest {SHOWN}; --format json has all of them."));
    }
    table.note(format!(
        "Away: without sleep, and without polls for the end of a halt. The exit is why the vCPU \
         left its guest, and the parts say what it waited for. At: of the host's CLOCK_MONOTONIC. \
         All VMs made {} exits.",
        count(host.exits as f64)
    ));
    table
}

/// Each VM that a host recorded, with the longest of its absences; none where there is one VM.
pub fn vms(host: &HostNoise) -> Option<Table> {
    let vms = host.vms();
    if vms.len() < 2 {
        return None;
    }
    let columns =
        ["VM", "vCPUs", "Exits", "Longest", "It was for", "KVM", "VMM", "Steal", "Taken most by"];
    let mut table = Table::new("Each VM", columns).words(4..5).words(8..);
    for (process, its) in vms {
        let vcpus: BTreeSet<u32> = its.iter().map(|one| one.vcpu).collect();
        // A vCPU that has nothing to do is not kept from anything.
        let away = its.iter().filter(|one| one.class != Class::Halt);
        let longest = away.max_by_key(|one| one.ns);
        let sum = |of: &dyn Fn(&Absence) -> u64| nanos(its.iter().map(|one| of(one)).sum());
        let mut takers: BTreeMap<&String, u64> = BTreeMap::new();
        for (taker, ns) in its.iter().filter_map(|one| Some((one.taker.as_ref()?, one.waited_ns))) {
            *takers.entry(taker).or_default() += ns;
        }
        let most = takers.into_iter().max_by_key(|(_, ns)| *ns);
        table.row(
            host.name(process),
            [
                count(vcpus.len() as f64),
                count(its.len() as f64),
                number::or_nothing(longest, |one| nanos(one.ns)),
                number::or_nothing(longest, |one| format!("{} ({})", one.cause, one.words())),
                sum(&|one| one.kvm_ns + one.interrupted_ns),
                sum(&|one| one.vmm_ns),
                sum(&|one| one.waited_ns),
                number::or_nothing(most, |(taker, _)| taker.clone()),
            ],
        );
    }
    table.note("Longest: without halts. All below is of all of them; --vm NAME shows one alone.");
    Some(table)
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
    let audit = host.audit.as_ref()?;
    let world_switches = audit.world_switches?;
    let [light, heavy, halts] =
        [Class::Light, Class::Heavy, Class::Halt].map(|class| host.audited(class));
    let number = |n: u64| count(n as f64);
    // Of each vCPU one may go on; others were left out, as by --above.
    let most = host.vcpus().len() as u64;
    let going_on = audit.exits.checked_sub(light + heavy + halts);
    let parts = going_on.filter(|n| host.least_ns == 0 && *n <= most).map(|going_on| {
        format!(
            "{} light exits + {} heavy ones + {} halts + {} that went on = ",
            number(light),
            number(heavy),
            number(halts),
            number(going_on),
        )
    });
    let mut text = format!(
        "{}{} exits; the emulator counted {} world switches meanwhile.",
        parts.unwrap_or_default(),
        number(audit.exits),
        number(world_switches),
    );
    if let Some(seen) = host.in_guests() {
        let _ = write!(
            text,
            " Between them the guest ran for {} ns; the emulator counted {} instructions of it, \
             of 1 ns each: {:+.2} %, {} ns for each exit, for code beside the world switch.",
            number(seen.ns),
            number(seen.instructions),
            100.0 * (seen.ns as f64 / seen.instructions as f64 - 1.0),
            count(seen.apart_ns()),
        );
    }
    Some(text)
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
#[path = "noise_tests.rs"]
pub(crate) mod tests;
