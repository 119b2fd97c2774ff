// SPDX-License-Identifier: GPL-2.0-only
//! The words for what the machinery says while it works.

use paratick_core::event::{Step, Warning};

pub fn step(step: &Step) -> String {
    match step {
        Step::WaitingForLock { name } => {
            format!("waiting for another paratick that works on {name}")
        }
        Step::FetchingEmulator => "fetching QEMU's source from Debian".into(),
        Step::UnpackingEmulator { version } => format!("unpacking QEMU {version}"),
        Step::ConfiguringEmulator => "configuring QEMU".into(),
        Step::BuildingEmulator { version, patches } => {
            format!("building QEMU {version} with {patches} patches")
        }
        Step::UnpackingKernel { tarball } => format!("unpacking {}", tarball.display()),
        Step::CommittingBase => "committing the base (about a minute)".into(),
        Step::ApplyingSeries { series } => format!("applying {series}"),
        Step::WritingSeries => "writing the series".into(),
        Step::CheckingRoundTrip { series } => {
            format!("{series}: applying the patches and writing them again")
        }
        Step::CheckingStyle { series } => format!("{series}: running checkpatch.pl --strict"),
        Step::CompilingPatch { patch, off: None } => {
            format!("compiling {patch} with the lab's configuration")
        }
        Step::CompilingPatch { patch, off: Some(symbol) } => {
            format!("compiling {patch} with CONFIG_{symbol}=n")
        }
        Step::ConfiguringKernel => "configuring the kernel".into(),
        Step::BuildingKernel { base, suffix, patches } => {
            format!("building Linux {base}{suffix} with {patches} patches")
        }
        Step::BuildingSelftest { test } => format!("building the KVM selftest {test}"),
        Step::BootingHost { cpus, accelerator } => {
            format!("booting the host ({cpus} CPUs, {accelerator})")
        }
        Step::BootingGuest { vcpus, mode } => format!("booting the guest ({vcpus} vCPUs, {mode})"),
        Step::StressingGuest => "stressing the guest".into(),
        Step::ResultsGoTo { output } => format!("results go to {}", output.display()),
        Step::Estimating { minutes, cpus, unknown, resumes } => {
            let mut text = format!("about {minutes} minutes on {cpus} idle CPUs");
            if !unknown.is_empty() {
                text += &format!(", and an unknown time for {}", unknown.join(", "));
            }
            text + if *resumes { ", less what is already measured" } else { "" }
        }
        Step::BeginningSet { set, number, sets } => format!("{set} ({number} of {sets})"),
        Step::RunningOnce { workload, limit } => format!(
            "running {workload} once on this machine to find the files that it reads, \
             for {} s at most",
            limit.as_secs_f32()
        ),
        Step::MakingInput { workload } => format!("making the input of {workload}"),
        Step::Measuring { boot, rounds } => {
            format!("round {} of {rounds}: {}", boot.round, boot.subject)
        }
        Step::AddingRound { round } => format!("intervals are still too wide: round {round}"),
        Step::TracingModes => "one idle cycle of every mode".into(),
        Step::Tracing { subject, workload } => format!("{subject}: tracing {workload}"),
    }
}

pub fn warning(warning: &Warning) -> String {
    match warning {
        Warning::EmulatorNotTested { version, tested } => {
            format!("building QEMU {version}; the patches were last tested on {tested}")
        }
        Warning::PackageNotTested { package, version, tested } => {
            format!("{package} is {version}; the series were last tested on {tested}")
        }
        Warning::TarballNotTested { tarball, sha256, tested } => format!(
            "{} is not the file that the series were tested on (sha256 {sha256}, tested {tested})",
            tarball.display()
        ),
        Warning::FewRounds { sets, needed } => format!(
            "{}: fewer than {needed} boots do not show how modes differ; use --rounds {needed}",
            sets.join(", ")
        ),
        Warning::NothingToCompareWith => {
            "there is no baseline to compare with; add tickless (and tickless-stop) to \
             --modes"
                .into()
        }
        Warning::WorldSwitchesNotCounted => {
            "world switches and instructions are not counted: only the lab's own emulator counts \
             them"
                .into()
        }
        Warning::PreparedInGuests { workload, why } => {
            format!("{workload} is prepared in every guest, which takes longer: {why}")
        }
        Warning::MeasuredAnew { output, kept_as, why } => format!(
            "{} holds older results ({why}); they are kept as {}",
            output.display(),
            kept_as.display()
        ),
        Warning::Problem(problem) => problem.to_string(),
        Warning::DoubtfulRun { boot, workload, run, fault } => {
            format!("{boot}, {workload}, run {run}: {fault}")
        }
    }
}
