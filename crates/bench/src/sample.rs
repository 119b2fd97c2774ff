// SPDX-License-Identifier: GPL-2.0-only
//! Makes a sample of what three parties saw of one window: the host's counter, the emulator, and
//! the workload itself.

use anyhow::{bail, Context, Result};
use paratick_core::{
    exits::{VcpuCounts, WindowCounts},
    results::{Fault, HostCpuSample, Sample},
    units::{Hz, Nanos},
    workload::Report,
};
use paratick_instruments::spent::Spent;
use paratick_machine::host::Host;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The unit of /proc/stat on x86, whatever the kernel's own tick rate.
const USER_HZ: Hz = Hz(100);

/// One line of the emulator's: what it counted between the marks of one window.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EmulatorWindow {
    /// Sequence number of the window since the host's boot, from 0.
    pub window: u64,
    pub cpus: Vec<HostCpuSample>,
}

/// All that the emulator counted since the host's boot; none where it does not count.
pub fn emulator_counted(host: &Host) -> Result<Option<Vec<EmulatorWindow>>> {
    let Some(file) = host.world_switches() else { return Ok(None) };
    emulator_windows(&fs_err::read_to_string(file)?).map(Some)
}

/// Reads the emulator's output; a last line without its end is not there yet.
pub fn emulator_windows(text: &str) -> Result<Vec<EmulatorWindow>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut windows = Vec::new();
    for (number, line) in whole.lines().enumerate() {
        let window: EmulatorWindow = serde_json::from_str(line)
            .with_context(|| format!("reading the emulator's line {line:?}"))?;
        if window.window != number as u64 {
            bail!(
                "the emulator's line {number} is about window {}: windows are missing",
                window.window
            );
        }
        windows.push(window);
    }
    Ok(windows)
}

/// The report that a workload printed: one line of JSON.
pub fn report(stdout: &[u8]) -> Result<Report> {
    let text = String::from_utf8_lossy(stdout);
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .with_context(|| format!("the workload printed no report, but {text:?}"))?;
    serde_json::from_str(line).with_context(|| format!("reading the workload's report {line}"))
}

/// The sample of one run in one guest.  `exit_cost_ns` is what the emulator charged for each world
/// switch.
pub fn sample(
    report: &Report,
    counts: &WindowCounts,
    emulator: Option<&EmulatorWindow>,
    exit_cost_ns: u32,
) -> Sample {
    let sum =
        |of: &dyn Fn(&HostCpuSample) -> u64| emulator.map(|seen| seen.cpus.iter().map(of).sum());
    let mut sample = Sample {
        exits: Some(counts.counts()),
        world_switches: sum(&|cpu| cpu.world_switches),
        host_instructions: sum(&|cpu| cpu.host_instructions),
        guest_instructions: sum(&|cpu| cpu.guest_instructions),
        cpu_ns: sum(&|cpu| {
            // In the lab an instruction is a nanosecond.
            cpu.host_instructions
                + cpu.guest_instructions
                + cpu.world_switches * u64::from(exit_cost_ns)
        }),
        duration_ns: Some(counts.duration_ns()),
        guest_duration_ns: Some(report.duration_ns),
        user_ns: Some(clock_ticks(report.cpu_user_ticks)),
        system_ns: Some(clock_ticks(report.cpu_system_ticks)),
        idle_ns: Some(clock_ticks(report.cpu_idle_ticks)),
        per_vcpu: counts.vcpus.iter().map(VcpuCounts::counts).collect(),
        per_host_cpu: emulator.map_or(Vec::new(), |seen| seen.cpus.clone()),
        guest_interrupts: report.interrupts.clone(),
        metrics: metrics(report),
        ..Sample::default()
    };
    sample.problems = doubts(&sample);
    sample
}

/// What this machine's kernel counted of all guests of a run.
pub fn spend(sample: &mut Sample, spent: Spent) {
    sample.cpu_ns = Some(spent.cpu_ns);
    sample.host_cycles = spent.pmu.map(|pmu| pmu.host_cycles);
    sample.guest_cycles = spent.pmu.map(|pmu| pmu.guest_cycles);
    sample.host_instructions = spent.pmu.map(|pmu| pmu.host_instructions);
    sample.guest_instructions = spent.pmu.map(|pmu| pmu.guest_instructions);
}

/// One marker's windows of several guests, as the window that they are.
pub fn whole(each: Vec<WindowCounts>) -> WindowCounts {
    let edge = |of: fn(&WindowCounts) -> u64| each.iter().map(of);
    WindowCounts {
        window: each.first().map_or(0, |first| first.window),
        opened_ns: edge(|one| one.opened_ns).max().unwrap_or(0),
        closed_ns: edge(|one| one.closed_ns).min().unwrap_or(0),
        vcpus: each.into_iter().flat_map(|one| one.vcpus).collect(),
    }
}

/// The time of the fastest of several guests, in ns.
const FASTEST: &str = "fastest_guest_ns";

/// What guests that ran side by side did together, as if they were one: counts add up, and the
/// longest time is the time, beside which a metric has that of the fastest guest: is the host fair
/// to them?  Of one sample, that sample.
pub fn together(parts: Vec<Sample>) -> Sample {
    let durations: Option<Vec<u64>> = parts.iter().map(|part| part.duration_ns).collect();
    let fastest = durations.filter(|all| all.len() > 1).and_then(|all| all.into_iter().min());
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_default();
    for part in parts {
        whole.exits = whole.exits.zip(part.exits).map(|(mut whole, part)| {
            whole.add(&part);
            whole
        });
        add(&mut whole.world_switches, part.world_switches);
        add(&mut whole.host_instructions, part.host_instructions);
        add(&mut whole.guest_instructions, part.guest_instructions);
        add(&mut whole.cpu_ns, part.cpu_ns);
        add(&mut whole.user_ns, part.user_ns);
        add(&mut whole.system_ns, part.system_ns);
        add(&mut whole.idle_ns, part.idle_ns);
        whole.duration_ns = longest(whole.duration_ns, part.duration_ns);
        whole.guest_duration_ns = longest(whole.guest_duration_ns, part.guest_duration_ns);
        whole.per_vcpu.extend(part.per_vcpu);
        for (name, value) in part.metrics {
            *whole.metrics.entry(name).or_default() += value;
        }
        whole.problems.extend(part.problems);
    }
    if let Some(ns) = fastest {
        whole.metrics.insert(FASTEST.into(), ns as f64);
    }
    whole
}

/// A sum of which a part is not known is not known.
fn add(whole: &mut Option<u64>, part: Option<u64>) {
    *whole = whole.zip(part).map(|(whole, part)| whole + part);
}

fn longest(whole: Option<u64>, part: Option<u64>) -> Option<u64> {
    whole.zip(part).map(|(whole, part)| whole.max(part))
}

fn clock_ticks(ticks: u64) -> u64 {
    Nanos::from_clock_ticks(ticks, USER_HZ).0
}

fn metrics(report: &Report) -> BTreeMap<String, f64> {
    let own = report.more.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    own.chain([
        ("process_user_ns".to_string(), report.user_ns as f64),
        ("process_system_ns".to_string(), report.system_ns as f64),
        ("steal_ns".to_string(), clock_ticks(report.cpu_steal_ticks) as f64),
    ])
    .collect()
}

/// Every exit is a world switch and the other way round: two counts of the same thing.
fn doubts(sample: &Sample) -> Vec<Fault> {
    let exits = sample.exits.as_ref().map(|exits| exits.total);
    match (exits, sample.world_switches) {
        (Some(exits), Some(world_switches)) if exits != world_switches => {
            vec![Fault::CountsDiffer { exits, world_switches }]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::{cause::Cause, exits::ExitCount};

    fn counts(exits: &[u64]) -> WindowCounts {
        let vcpus = (0..).zip(exits).map(|(vcpu, count)| VcpuCounts {
            vm: 100,
            vcpu,
            exits: vec![ExitCount {
                reason: "msr_write".into(),
                about: Some("TSC_DEADLINE".into()),
                cause: Cause::Arm,
                count: *count,
            }],
            ticks_delivered: Some(3),
        });
        WindowCounts { window: 1, opened_ns: 1000, closed_ns: 5000, vcpus: vcpus.collect() }
    }

    const TWO_CPUS: &str = concat!(
        r#"{"window":0,"cpus":["#,
        r#"{"world_switches":0,"host_instructions":500,"guest_instructions":0},"#,
        r#"{"world_switches":30,"host_instructions":90000,"guest_instructions":7000}]}"#,
        "\n",
    );

    fn seen() -> Report {
        report(
            concat!(
                "warm\n",
                r#"{"workload":"cpu","work":5,"unit":"x","window":1,"threads":2,"duration_ns":7,"#,
                r#""user_ns":1,"system_ns":2,"cpu_user_ticks":3,"cpu_system_ticks":0,"#,
                r#""cpu_idle_ticks":4,"cpu_steal_ticks":0,"loops":2.5,"device":"/dev/vda"}"#,
                "\n",
            )
            .as_bytes(),
        )
        .unwrap()
    }

    #[test]
    fn what_three_parties_saw_becomes_one_sample() {
        let emulator = emulator_windows(TWO_CPUS).unwrap();
        let sample = sample(&seen(), &counts(&[10, 20]), emulator.first(), 100);
        let exits = sample.exits.unwrap();
        assert_eq!((exits.total, sample.world_switches), (30, Some(30)));
        assert_eq!(sample.host_instructions, Some(90_500));
        assert_eq!(sample.guest_instructions, Some(7_000));
        assert_eq!(sample.cpu_ns, Some(90_500 + 7_000 + 30 * 100));
        assert_eq!((sample.duration_ns, sample.guest_duration_ns), (Some(4000), Some(7)));
        assert_eq!(exits.ticks_delivered, Some(6));
        assert_eq!(sample.per_vcpu[1].total, 20);
        assert_eq!(sample.per_host_cpu[0].host_instructions, 500);
        assert_eq!(exits.msr_writes.unwrap()["TSC_DEADLINE"], 30);
        assert_eq!((sample.user_ns, sample.idle_ns), (Some(30_000_000), Some(40_000_000)));
        assert_eq!(sample.metrics["loops"], 2.5);
        assert!(!sample.metrics.contains_key("device"));
        assert!(sample.problems.is_empty());
    }

    #[test]
    fn counts_that_differ_make_a_doubtful_sample_that_is_kept() {
        let emulator = emulator_windows(TWO_CPUS).unwrap();
        let sample = sample(&seen(), &counts(&[10, 21]), emulator.first(), 0);
        assert_eq!(sample.exits.unwrap().total, 31);
        let doubt = Fault::CountsDiffer { exits: 31, world_switches: 30 };
        assert_eq!(sample.problems, [doubt]);
    }

    #[test]
    fn without_an_emulator_nothing_is_made_up() {
        let sample = sample(&seen(), &counts(&[1]), None, 100);
        assert_eq!(sample.world_switches, None);
        assert_eq!(sample.host_instructions, None);
        assert!(sample.problems.is_empty());
    }

    #[test]
    fn guests_side_by_side_add_up_and_the_slowest_is_the_time() {
        let emulator = emulator_windows(TWO_CPUS).unwrap();
        let one = sample(&seen(), &counts(&[10, 20]), emulator.first(), 0);
        assert_eq!(together(vec![one.clone()]), one);
        let mut slow = sample(&seen(), &counts(&[5, 7]), None, 0);
        slow.duration_ns = Some(9000);
        slow.problems.clear();
        let both = together(vec![one, slow]);
        let exits = both.exits.unwrap();
        assert_eq!((exits.total, exits.cause(Cause::Arm)), (42, 42));
        assert_eq!((both.duration_ns, both.metrics[FASTEST]), (Some(9000), 4000.0));
        let each: Vec<u64> = both.per_vcpu.iter().map(|vcpu| vcpu.total).collect();
        assert_eq!(each, [10, 20, 5, 7]);
        // The emulator did not tell them apart: nothing is known of the sum.
        assert_eq!((both.world_switches, both.cpu_ns), (None, None));
    }

    #[test]
    fn windows_of_one_marker_are_one_of_all_vcpus() {
        let later = WindowCounts { opened_ns: 1010, closed_ns: 5010, ..counts(&[5]) };
        let whole = whole(vec![counts(&[10, 20]), later]);
        assert_eq!((whole.total(), whole.duration_ns(), whole.vcpus.len()), (35, 3990, 3));
    }

    #[test]
    fn an_unfinished_line_is_not_read_and_a_gap_is_an_error() {
        let cut = format!("{TWO_CPUS}{{\"window\":1,\"cp");
        assert_eq!(emulator_windows(&cut).unwrap().len(), 1);
        assert_eq!(emulator_windows("").unwrap(), []);
        assert!(emulator_windows(&format!("{TWO_CPUS}{TWO_CPUS}")).is_err());
        assert!(emulator_windows("garbage\n").is_err());
    }

    #[test]
    fn a_workload_without_a_report_is_quoted() {
        let error = report(b"sh: not found\n").unwrap_err().to_string();
        assert!(error.contains("not found"), "{error}");
    }
}
