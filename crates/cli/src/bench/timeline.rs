// SPDX-License-Identifier: GPL-2.0-only
//! `paratick bench timeline`.

use crate::{
    errors::usage,
    input,
    options::{once, Emulation, Format, Kernels, SettingOptions, Vcpus},
    print::errln,
    progress, signals,
};
use anyhow::Result;
use clap::Args;
use paratick_bench::{self, timeline, Settings};
use paratick_build::tools::{self, Tools};
use paratick_core::{
    catalogue::sets::{self, Set},
    event::{Events, Step},
    mode::Mode,
    results::{Plan, PlannedWorkload},
    subject::Subject,
};
use paratick_machine::backend::EMULATED;
use paratick_view::terminal;
use std::{path::PathBuf, process::ExitCode, sync::Arc};

const MODES: &str = "tickless-stop,tickless,paratick-ticks,paratick+nopoll";

#[derive(Args)]
pub struct Options {
    /// Tick modes to trace, with +poll, +learn and others for guest halt polling
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = MODES)]
    modes: Vec<Mode>,
    #[command(flatten)]
    size: Vcpus,
    /// What runs while the host traces: pingpong, barrier, sleep or block
    #[arg(long, value_name = "NAME", default_value = "pingpong", value_parser = timeline::workload)]
    workload: PlannedWorkload,
    /// Where the time line goes [default: results/timeline-TIME.json in the cache]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    kernels: Kernels,
    #[command(flatten)]
    emulation: Emulation,
    #[command(flatten)]
    settings: SettingOptions,
}

pub fn run(options: Options) -> Result<ExitCode> {
    let started = paratick_bench::now();
    options.check()?;
    let output = match &options.output {
        Some(path) => std::path::absolute(path)?,
        None => paratick_bench::default_path("timeline", false, &started)?,
    };
    input::check_writable(&output)?;
    tools::find_agent()?;
    signals::watch()?;
    let (settings, traced) = progress::during(|events| {
        let settings = options.settings(output, started, events)?;
        let traced = timeline::run(&settings, events)?;
        Ok((settings, traced))
    })?;
    paratick_bench::write(&settings.output, &traced)?;
    options.format.print(&traced, || terminal::timeline(&traced))?;
    for problem in &traced.problems {
        errln!("failed: {problem}");
    }
    errln!("time line: {}", settings.output.display());
    Ok(if traced.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    /// Every mode on a host with each of the settings.
    fn subjects(&self) -> Result<Vec<Subject>> {
        let settings = self.settings.all(EMULATED)?;
        Ok(Subject::each(&self.modes, &settings))
    }

    fn check(&self) -> Result<()> {
        self.subjects()?;
        once(&self.modes, "mode", "--modes")?;
        self.kernels.check(&self.modes)?;
        if self.size.vcpus == 1 && self.workload.workload == "pingpong" {
            return Err(usage(
                "pingpong on one vCPU has no idle cycles: its two threads share the vCPU\n\
                 hint: give it --vcpus 2, or choose --workload sleep",
            ));
        }
        Ok(())
    }

    fn settings(&self, output: PathBuf, started: String, events: Events) -> Result<Settings> {
        let tools = Tools::find(events)?;
        let (kernel, host_kernel) = self.kernels.ensure(None, events)?;
        events(Step::ResultsGoTo { output: &output }.into());
        let set = Set {
            plan: Plan::new(self.size.vcpus, self.subjects()?, [self.workload.clone()], 1, 1),
            disk: (self.workload.workload == "block").then_some(sets::DISK),
            ..timeline::set(self.emulation.exit_cost.unwrap_or(0))
        };
        Ok(Settings {
            set,
            command: super::measure::command_line(),
            kernel,
            host_kernel: Some(host_kernel),
            tools,
            backend: EMULATED,
            prepared: Arc::default(),
            accel: self.emulation.accel,
            jobs: None,
            output,
            resume: false,
            started,
        })
    }
}
