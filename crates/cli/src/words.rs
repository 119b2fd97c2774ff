// SPDX-License-Identifier: GPL-2.0-only
//! The words for what the machinery says while it works.

use paratick_core::event::{Step, Warning};

pub fn step(step: &Step) -> String {
    use Step::*;
    match step {
        WaitingForLock { name } => {
            format!("waiting for another paratick that works on {name}")
        }
        FetchingEmulator => "fetching QEMU's source from Debian".into(),
        UnpackingEmulator { version } => format!("unpacking QEMU {version}"),
        ConfiguringEmulator => "configuring QEMU".into(),
        BuildingEmulator { version, patches } => {
            format!("building QEMU {version} with {patches} patches")
        }
        FetchingKernel { package } => format!("fetching {package} from Debian"),
        MakingSystem { name } => format!("making a system of {name} (minutes, network)"),
        MakingRootDisk { folder } => format!("making a disk of {}", folder.display()),
        UnpackingKernel { tarball } => format!("unpacking {}", tarball.display()),
        CommittingBase => "committing the base (about a minute)".into(),
        ApplyingSeries { series } => format!("applying {series}"),
        WritingSeries => "writing the series".into(),
        CheckingRoundTrip { series } => {
            format!("{series}: applying the patches and writing them again")
        }
        CheckingStyle { series } => format!("{series}: running checkpatch.pl --strict"),
        CompilingPatch { patch, off: None } => {
            format!("compiling {patch} with the lab's configuration")
        }
        CompilingPatch { patch, off: Some(symbol) } => {
            format!("compiling {patch} with CONFIG_{symbol}=n")
        }
        CompilingRow { row, number, of } => {
            format!("compiling the stack as {row} ({number} of {of})")
        }
        ReadingComments => "reading the comments of the files that the stack touches".into(),
        CompilingWithout { row, warnings } => {
            format!(
                "compiling {row} without the stack: does the base have the {warnings} warnings?"
            )
        }
        ConfiguringKernel => "configuring the kernel".into(),
        BuildingKernel { base, suffix, patches } => {
            format!("building Linux {base}{suffix} with {patches} patches")
        }
        BuildingSelftest { test } => format!("building the KVM selftest {test}"),
        BootingHost { cpus, accelerator } => {
            format!("booting the host ({cpus} CPUs, {accelerator})")
        }
        BootingGuest { vcpus, mode } => format!("booting the guest ({vcpus} vCPUs, {mode})"),
        KeepingHost => "keeping the booted host for the next time".into(),
        StressingGuest => "stressing the guest".into(),
        ResultsGoTo { output } => format!("results go to {}", output.display()),
        Estimating { minutes, cpus, unknown, resumes } => {
            let mut text = format!("about {minutes} min on {cpus} idle CPUs");
            if !unknown.is_empty() {
                text += &format!(", and an unknown time for {}", unknown.join(", "));
            }
            text + if *resumes { ", less what is already measured" } else { "" }
        }
        BeginningSet { set, number, sets } => format!("{set} ({number} of {sets})"),
        RunningOnce { workload, limit } => format!(
            "running {workload} once on this machine to find the files that it reads, \
             for {} s at most",
            limit.as_secs_f32()
        ),
        MakingInput { workload } => format!("making the input of {workload}"),
        Measuring { boot, rounds } => {
            format!("round {} of {rounds}: {}", boot.round, boot.subject)
        }
        AddingRound { round } => format!("intervals are still too wide: round {round}"),
        TracingModes => "one idle cycle of every mode".into(),
        Tracing { subject, workload } => format!("{subject}: tracing {workload}"),
        Calibrating { exit } => format!("measuring {exit}"),
    }
}

pub fn warning(warning: &Warning) -> String {
    use Warning::*;
    match warning {
        EmulatorNotTested { version, tested } => {
            format!("building QEMU {version}; the patches were last tested on {tested}")
        }
        PackageNotTested { package, version, tested } => {
            format!("{package} is {version}; the series were last tested on {tested}")
        }
        TarballNotTested { tarball, sha256, tested } => format!(
            "{} is not the file that the series were tested on (sha256 {sha256}, tested {tested})",
            tarball.display()
        ),
        OtherSnapshot { other } => {
            format!("the snapshot of this host has another {other}: booting it once more")
        }
        BadSnapshot { why } => {
            format!("the snapshot of this host cannot be used ({why}): booting it once more")
        }
        NoSnapshot { why } => format!("no snapshot of this host is kept: {why}"),
        FewRounds { sets, needed } => format!(
            "{}: fewer than {needed} boots do not show how modes differ; use --rounds {needed}",
            sets.join(", ")
        ),
        NothingToCompareWith => {
            "there is no baseline to compare with; add tickless (and tickless-stop) to \
             --modes"
                .into()
        }
        WorldSwitchesNotCounted => {
            "world switches and instructions are not counted: only the lab's own emulator counts \
             them"
                .into()
        }
        NotCountedHere { has_pmu: true } => {
            "world switches are not counted: only the lab's own emulator counts them".into()
        }
        NotCountedHere { has_pmu: false } => {
            "neither world switches are counted, as only the lab's own emulator counts them, nor \
             cycles and instructions, as this machine has no PMU"
                .into()
        }
        PreparedInGuests { workload, why } => {
            format!("{workload} is prepared in every guest, which takes longer: {why}")
        }
        MeasuredAnew { output, kept_as, why } => format!(
            "{} holds older results ({why}); they are kept as {}",
            output.display(),
            kept_as.display()
        ),
        Problem(problem) => problem.to_string(),
        DoubtfulRun { boot, workload, run, fault } => {
            format!("{boot}, {workload}, run {run}: {fault}")
        }
    }
}
