// SPDX-License-Identifier: GPL-2.0-only
//! The project's own workloads: `paratick-agent workload NAME …`, run in a guest.
//!
//! Each does a fixed amount of work, so that exits and time can be compared between modes.
//! Each first makes its threads and does a little of its work, so that everything is in memory
//! and waiting when the window opens; the window holds the measured part and nothing else.

mod barrier;
mod block;
mod chores;
mod compute;
mod cpu;
mod exponential;
mod finelock;
mod fio;
mod futex;
mod idle;
mod measure;
mod mix;
mod options;
mod periodic;
mod pingpong;
mod program;
mod redis;
mod sleep;
mod stencil;
mod sync;
mod ticks;
mod warehouse;

use anyhow::Result;
use options::Options;
use paratick_core::workload::{Report, WORKLOADS};

/// Runs the workload that `args` name (without `paratick-agent workload`); returns the exit code.
pub fn main(args: &[String]) -> Result<i32> {
    let options = match Options::parse(args, measure::cpus()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("paratick-agent workload: {error}\n\n{}", usage());
            return Ok(2);
        }
    };
    measure::keep_in_memory();
    let measured = match run(&options) {
        Err(error) if error.is::<program::Failed>() => {
            eprintln!("paratick-agent: {error:#}");
            return Ok(1);
        }
        measured => measured?,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(0)
}

fn run(options: &Options) -> Result<Report> {
    match options.workload.name {
        "idle" => idle::run(options),
        "phases" => periodic::run(options, periodic::Rule::Phases),
        "grouped" => periodic::run(options, periodic::Rule::Grouped),
        "slack" => periodic::run(options, periodic::Rule::Slack),
        "accuracy" => periodic::run(options, periodic::Rule::Accuracy),
        "cpu" => cpu::run(options),
        "itimer" => cpu::run_with_timer(options),
        "pingpong" => pingpong::run(options),
        "barrier" => barrier::run(options),
        "sync" => sync::run(options),
        "sleep" => sleep::run(options),
        "exponential" => exponential::run(options),
        "block" => block::run(options),
        "ticks" => ticks::run(options),
        "mix" => mix::run(options),
        "chores" => chores::run(options),
        "stencil" => stencil::run(options),
        "finelock" => finelock::run(options),
        "warehouse" => warehouse::run(options, warehouse::FULL),
        "nursery" => warehouse::run(options, warehouse::MINOR),
        "program" => program::run(options),
        name => unreachable!("workload {name} is in the table and has no code"),
    }
}

fn usage() -> String {
    let mut text = "usage: paratick-agent workload NAME [--work N] [--window ID] [--threads N]\n\
        \x20                                           [--idle-entries] [--interrupts]\n\
        \x20      block also: [--device PATH] [--pattern random|sequential]\n\
        \x20      itimer also: [--period-us N]\n\
        \x20      sync also: [--rate PER-SECOND]\n\
        \x20      finelock also: [--locks N]\n\
        \x20      mix also: [--busy-us N] [--sleep-us N] [--jitter PERCENT]\n\
        \x20      chores also: [--busy-us N] [--sleep-us N]\n\
        \x20      program also: [--root FOLDER] -- COMMAND [ARGUMENTS]\n"
        .to_string();
    for workload in WORKLOADS {
        text += &format!(
            "  {:9} {} ({} {})\n",
            workload.name, workload.about, workload.work, workload.unit
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(args: &[&str]) -> Report {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        run(&Options::parse(&args, measure::cpus()).unwrap()).unwrap()
    }

    #[test]
    fn every_workload_that_needs_no_disk_does_its_work_on_this_machine() {
        let needs_more = ["block", "program"];
        for workload in WORKLOADS.iter().filter(|workload| !needs_more.contains(&workload.name)) {
            let measured = run_here(&[workload.name, "--work", "2"]);
            assert!(measured.work >= 2, "{}", workload.name);
            assert!(measured.duration_ns > 0, "{}", workload.name);
        }
    }

    #[test]
    fn a_missing_disk_is_an_error_with_a_hint() {
        let args = ["block", "--device", "/dev/no-such-disk"].map(String::from);
        let options = Options::parse(&args, 1).unwrap();
        let error = format!("{:#}", run(&options).unwrap_err());
        assert!(error.contains("/dev/no-such-disk") && error.contains("hint:"));
    }

    #[test]
    fn more_threads_than_cpus_still_meet_at_the_barrier() {
        let measured = run_here(&["barrier", "--threads", "5", "--work", "50"]);
        assert_eq!(measured.work, 50);
    }

    #[test]
    fn the_usage_names_every_workload() {
        let usage = usage();
        assert!(WORKLOADS.iter().all(|workload| usage.contains(workload.name)));
    }
}
