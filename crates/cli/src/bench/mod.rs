// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench`: tick modes measured side by side.

mod common;
mod crowd;
mod isolated;
mod measure;
mod mileage;
mod noise;
mod paper;
mod programs;
mod timeline;
mod workloads;

use crate::{errors::usage, input, options::Format};
use anyhow::Result;
use clap::Subcommand;
use crowd::Crowds;
use isolated::Isolated;
use mileage::Tables;
use paratick_core::results::Results;
use paratick_view::terminal;
use std::{path::PathBuf, process::ExitCode};

/// Measure tick modes side by side: exits by cause, ticks, execution time
#[derive(Subcommand)]
pub enum Verb {
    /// Run small workloads of fixed work in guests of every tick mode
    ///
    /// Boots one host, and in every round a fresh guest per mode, in rotating order.  Results are
    /// kept in one file after every guest; an interrupted bench continues with --resume.
    /// docs/bench.md says how to read the table, docs/results.md describes the file.
    /// Exit codes: 0 everything was measured and is sound, 1 a check failed (the output names it),
    /// 2 wrong usage, 69 the bench could not run.
    Quick(workloads::Quick),
    /// Measure the paper's Table 1: W1 to W4, in every mode
    ///
    /// W1 is an idle guest of 16 vCPUs, W3 one whose 16 threads synchronize 1000 times a second by
    /// blocking; W2 and W4 are four such guests on the same 16 pCPUs.  The paper's runs took 10 s;
    /// of virtual time W1 takes as long, W2 and W3 4 s and W4 half a second, and with --quick W3 1
    /// s and W4 a quarter: exits are in proportion, and the report gives them for one vCPU and one
    /// second. Results go to a folder, one file for each number of guests.
    Table1(workloads::Table1),
    /// Measure halt polling by the host's rules and by the guests': what it saves and what it costs
    ///
    /// The host's rules never, of 2021, of the article on polling time (in both readings) and of
    /// today with `tickless` guests; and guests that poll by several rules on a host that never
    /// does.  With --modes or --halt-poll, every mode is measured under every rule of the host.
    /// Each workload's halts are recorded in one more run.  docs/halt-polling.md says how to read
    /// the tables.
    Polling(workloads::Polling),
    /// Measure what idle guests cost their host: 1 to 50 of them, in every mode
    ///
    /// Guests of one vCPU that do nothing share one pCPU.  In one window of all of them it counts
    /// the host's interrupts and the wake-ups of its pCPUs, exits by cause, and instructions; and
    /// says what each guest more adds.  `--kernel 6.12-hz1000` measures at another tick rate.
    /// Results go to a folder, one file for each number of guests.  docs/idle.md says how to read
    /// the tables.
    Idle(workloads::Idle),
    /// Measure the noise of a busy guest, with CPUs isolated on its host, in it, both or neither
    ///
    /// osnoise samples on all vCPUs but the first, while host and guest have some chores. For each
    /// of the four ways to isolate, and on hosts of 4 and of 6 CPUs: steal, the time in KVM and the
    /// VMM, hardware noise, exits by class and cause, the longest noise.  In every recording parts
    /// must add up to the noise, and exits must be as many as the emulator's world switches; else
    /// the exit code is 1.  Results go to a folder, one file for each host and isolation.
    /// docs/noise.md says how to read the tables.
    Noise(noise::Noise),
    /// Measure an idle guest of 2 vCPUs as a paper of 2007 did: by mode, sampler and clock device
    ///
    /// The tables of "Getting maximum mileage out of tickless", with VM exits beside interrupts:
    /// every tick mode; a timer that samples, deferrable or not; clock devices from the PIT to the
    /// TSC deadline; and who balances load for idle vCPUs of a busy guest.  `--kernel 6.12-hz1000`
    /// measures at another tick rate; `bench show` takes the files of several.  Results go to a
    /// folder, one file for each kind of guest.
    /// docs/idle.md says how to read the tables.
    IdleTables(workloads::IdleTables),
    /// Trace one idle cycle in every tick mode: which exit happens when
    ///
    /// Boots one host and in it a guest of each mode in turn.  The host traces a workload that goes
    /// idle again and again. The most typical cycle from one halt to the next is kept.
    /// docs/timeline.md describes the file.
    Timeline(timeline::Options),
    /// The paper's whole evaluation: all of the benches below, a time line, and the report
    ///
    /// Results, time line and report.html go to a folder.  An interrupted run continues with
    /// --resume.  The expected time is printed first, as far as it is known.
    Paper(paper::Options),
    /// Run thirteen real programs on one vCPU (the paper's section 6.1)
    ///
    /// docs/programs.md says what they are, and for which workload of PARSEC's each stands.
    Sequential(programs::Sequential),
    /// Run the programs with a thread for each vCPU, in guests of several sizes (section 6.2)
    ///
    /// Results go to a folder, one file for each size.
    Multithreaded(programs::Multithreaded),
    /// Read and write a disk with fio (section 6.3)
    Io(programs::Io),
    /// Let two guests talk to each other: requests and responses, a cache, a stream
    ///
    /// Each has one vCPU; a server of Debian's runs in the second, and its client in the first.
    /// Exits are those of both.
    Network(programs::Network),
    /// Print the tables of a results file
    ///
    /// Summaries and comparisons are computed again by today's rules, whichever version wrote the
    /// file.
    Show {
        /// As any of the benches wrote it; of `bench idle`, `noise` or `idle-tables` several
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
}

pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Quick(options) => workloads::quick(options),
        Verb::Table1(options) => workloads::table1(options),
        Verb::Polling(options) => workloads::polling(options),
        Verb::Idle(options) => workloads::idle(options),
        Verb::Noise(options) => noise::run(options),
        Verb::IdleTables(options) => workloads::idle_tables(options),
        Verb::Paper(options) => paper::run(options),
        Verb::Sequential(options) => programs::sequential(options),
        Verb::Multithreaded(options) => programs::multithreaded(options),
        Verb::Io(options) => programs::io(options),
        Verb::Network(options) => programs::network(options),
        Verb::Timeline(options) => timeline::run(options),
        Verb::Show { files, format } => show(&files, format),
    }
}

fn show(files: &[PathBuf], format: Format) -> Result<ExitCode> {
    let all = files.iter().map(|file| input::results("show", file));
    let all = all.collect::<Result<Vec<_>>>()?;
    if all.iter().all(|results| results.bench == crowd::BENCH) {
        let all: Vec<&Results> = all.iter().collect();
        format.print(&Crowds::of(&all), || terminal::crowds(&all))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.iter().all(|results| results.bench == isolated::BENCH) {
        let all: Vec<&Results> = all.iter().collect();
        format.print(&Isolated::of(&all), || terminal::isolated(&all))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.iter().all(|results| results.bench == mileage::BENCH) {
        let all: Vec<&Results> = all.iter().collect();
        format.print(&Tables::of(&all), || terminal::mileage(&all))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [results] = &all[..] else {
        return Err(usage(format!(
            "{} files are too many to show at once\n\
             hint: give one, or several of bench {}, {} or {}; `paratick report` takes any",
            files.len(),
            crowd::BENCH,
            isolated::BENCH,
            mileage::BENCH
        )));
    };
    show_one(results, format)
}

fn show_one(results: &Results, format: Format) -> Result<ExitCode> {
    format.print(results, || match results.cycles().next() {
        Some(_) => terminal::timeline(results),
        None => terminal::results(results),
    })?;
    Ok(ExitCode::SUCCESS)
}
