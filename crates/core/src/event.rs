// SPDX-License-Identifier: GPL-2.0-only
//! What long work says while it runs.  These are values; the command has the words for them.

use crate::{
    mode::Mode,
    results::{Boot, Fault, Problem},
    subject::Subject,
};
use std::{path::Path, time::Duration};

#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    Step(Step<'a>),
    /// How far the current step is.  `total` is an estimate, absent where there is nothing to go
    /// by; `left` is absent until it can be guessed.
    Progress {
        done: u64,
        total: Option<u64>,
        left: Option<Duration>,
    },
    /// Something the user should know although the work goes on.
    Warning(Warning<'a>),
}

pub type Events<'a> = &'a mut dyn FnMut(Event);

/// A piece of work; the command's words say what each is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'a> {
    WaitingForLock { name: &'a str },
    FetchingEmulator,
    UnpackingEmulator { version: &'a str },
    ConfiguringEmulator,
    BuildingEmulator { version: &'a str, patches: usize },
    FetchingKernel { package: &'a str },
    MakingSystem { name: &'a str },
    MakingRootDisk { folder: &'a Path },
    UnpackingKernel { tarball: &'a Path },
    CommittingBase,
    ApplyingSeries { series: &'a str },
    WritingSeries,
    CheckingRoundTrip { series: &'a str },
    CheckingStyle { series: &'a str },
    CompilingPatch { patch: &'a str, off: Option<&'a str> },
    CompilingRow { row: &'a str, number: usize, of: usize },
    ReadingComments,
    CompilingWithout { row: &'a str, warnings: usize },
    ConfiguringKernel,
    BuildingKernel { base: &'a str, suffix: &'a str, patches: usize },
    BuildingSelftest { test: &'a str },
    BootingHost { cpus: u32, accelerator: &'a str },
    BootingGuest { vcpus: u32, mode: Mode },
    KeepingHost,
    StressingGuest,
    ResultsGoTo { output: &'a Path },
    Estimating { minutes: u64, cpus: u32, unknown: &'a [&'a str], resumes: bool },
    BeginningSet { set: &'a str, number: usize, sets: usize },
    MakingInput { workload: &'a str },
    RunningOnce { workload: &'a str, limit: Duration },
    Measuring { boot: Boot, rounds: u32 },
    AddingRound { round: u32 },
    TracingModes,
    Tracing { subject: Subject, workload: &'a str },
    Calibrating { exit: &'a str },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning<'a> {
    EmulatorNotTested {
        version: &'a str,
        tested: &'a str,
    },
    PackageNotTested {
        package: &'a str,
        version: &'a str,
        tested: &'a str,
    },
    TarballNotTested {
        tarball: &'a Path,
        sha256: &'a str,
        tested: &'a str,
    },
    /// There is one of the same settings, with another one of these.
    OtherSnapshot {
        other: &'a str,
    },
    BadSnapshot {
        why: &'a str,
    },
    NoSnapshot {
        why: &'a str,
    },
    FewRounds {
        sets: &'a [&'a str],
        needed: usize,
    },
    NothingToCompareWith,
    WorldSwitchesNotCounted,
    /// Of the machine that is the host.
    NotCountedHere {
        has_pmu: bool,
    },
    PreparedInGuests {
        workload: &'a str,
        why: &'a str,
    },
    MeasuredAnew {
        output: &'a Path,
        kept_as: &'a Path,
        why: &'a str,
    },
    Problem(&'a Problem),
    DoubtfulRun {
        boot: Boot,
        workload: &'a str,
        run: u32,
        fault: &'a Fault,
    },
}

impl<'a> From<Step<'a>> for Event<'a> {
    fn from(step: Step<'a>) -> Event<'a> {
        Event::Step(step)
    }
}

impl<'a> From<Warning<'a>> for Event<'a> {
    fn from(warning: Warning<'a>) -> Event<'a> {
        Event::Warning(warning)
    }
}
