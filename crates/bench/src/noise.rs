// SPDX-License-Identifier: GPL-2.0-only
//! Recording the noise of a host's guests, from both sides.

/// For whoever ends this process at once, while it records.
pub use paratick_instruments::end_traces;
/// For whoever runs something else meanwhile.
pub use paratick_instruments::{
    noise::NoiseRecorder, osnoise::OsnoiseRecorder, sampler::ProgramRecorder,
};

use crate::{
    here::Here,
    sample::{emulator_counted, EmulatorWindow},
};
use anyhow::{bail, Result};
use paratick_core::{
    noise::{pair, GuestNoise, HostNoise, Sampler, Stalls, TscOffset},
    wire::GuestConfig,
};
use paratick_instruments::{gaps::GapRecorder, osnoise::LEAD, pinned};
use paratick_machine::{
    exec::{Exec, ExecResult},
    guest::Guest,
    host::Host,
    spec::{HostSpec, Stall},
};
use serde::{Deserialize, Serialize};
use std::{fmt, thread, time::Duration};

/// At the beginning and the end of a recording, for the noise that we make ourselves.
const MARGIN: Duration = Duration::from_millis(200);

/// Wall-clock limit of what takes no time.
pub const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Which sides look; an operator has no guest, and a tenant no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    pub host: bool,
    pub guest: bool,
    /// Who samples in the guest; None: osnoise where its kernel has it.
    pub sampler: Option<Sampler>,
}

impl Sides {
    pub const BOTH: Sides = Sides { host: true, guest: true, sampler: None };
    pub const GUEST: Sides = Sides { host: false, ..Sides::BOTH };
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    pub host: Option<HostNoise>,
    pub guest: Option<GuestNoise>,
    /// The guest's VMM on the host.  None: the sides are not joined.
    pub process: Option<u32>,
    /// Why it is not all that was asked for.
    #[serde(default)]
    pub incomplete: Option<String>,
    /// What the emulator took from the pCPU of its CPU 0.
    #[serde(default)]
    pub stalls: Option<Stalls>,
}

impl Recorded {
    /// The host's side, and which of its processes the guest is.
    pub fn joined(&self) -> Option<(&HostNoise, u32)> {
        self.host.as_ref().zip(self.process)
    }

    /// Both sides of a VM, of which each has recorded one by itself, and how many ns they share.
    pub fn with(self, other: Recorded, vm: Option<u32>) -> Result<(Recorded, u64)> {
        let (host, guest, why) = match (self.sides(), other.sides()) {
            ((Some(host), None), (None, Some(guest))) => (host, guest, &other.incomplete),
            ((None, Some(guest)), (Some(host), None)) => (host, guest, &self.incomplete),
            _ => bail!(
                "these are not the two sides of a VM\n\
                 hint: give what `paratick noise --save FILE` recorded on the host, and with \
                 --side guest in the VM"
            ),
        };
        let (guest, process) = pair(guest, host, vm)?;
        let ns = guest.end_ns - guest.begin_ns;
        let mut host = host.clone();
        // Of others' exits nothing is said.
        host.lost.retain(|vm, _| [0, process].contains(vm));
        let reasons: Vec<_> = host.incomplete().into_iter().chain(why.clone()).collect();
        let incomplete = (!reasons.is_empty()).then(|| reasons.join("; "));
        let (host, guest) = (Some(host), Some(guest));
        Ok((Recorded { guest, host, process: Some(process), incomplete, stalls: None }, ns))
    }

    /// Changes the host's side, which may have exits that nobody asked for; none: there is none.
    pub fn on_host<T>(&mut self, change: impl FnOnce(&mut HostNoise) -> T) -> Option<T> {
        let host = self.host.as_mut()?;
        let losses = host.incomplete();
        let done = change(host);
        if self.incomplete == losses {
            self.incomplete = host.incomplete();
        }
        Some(done)
    }

    fn sides(&self) -> (Option<&HostNoise>, Option<&GuestNoise>) {
        (self.host.as_ref(), self.guest.as_ref())
    }
}

/// The guest ended, or the sides cannot be joined; what was recorded all the same.
#[derive(Debug)]
pub struct Interrupted(pub Recorded);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gaps = self.0.guest.as_ref().map_or(0, |guest| guest.gaps.len());
        let exits = self.0.host.as_ref().map_or(0, |host| host.absences.len());
        write!(f, "the recording is incomplete: it has {exits} exits and {gaps} gaps")
    }
}

fn interrupted(error: anyhow::Error, recorded: Recorded) -> anyhow::Error {
    let incomplete = Some(error.root_cause().to_string());
    error.context(Interrupted(Recorded { incomplete, ..recorded }))
}

/// Fails where no vCPU of this machine made an exit while it was recorded, or none was heard of.
pub fn check_ran(host: Option<&HostNoise>) -> Result<()> {
    let Some(host) = host.filter(|host| host.exits == 0) else { return Ok(()) };
    if let Some(exits) = host.exits_by_kvm.filter(|exits| *exits > 0) {
        bail!(
            "KVM counted {exits} exits, and its tracepoint kvm_exit told of none\n\
             hint: record inside the VM, with --side guest: this kernel does not tell more"
        );
    }
    bail!(
        "KVM told of no exit on this machine while it was recorded\n\
         hint: start a VM, or look longer with --for (of kvm_pvm none is told); in a VM, give \
         --side guest"
    );
}

/// In instructions: what a CPU of the emulator can miss while others run, far less than a gap.
const ROUND: u32 = 200;

/// The pCPU of vCPU 0; the host keeps the first for itself.
const VCPU_S: u32 = 1;

/// Makes the emulator's own noise too short to be seen, except for the stalls it is to make.
pub fn quiet(host: &mut HostSpec, guest: &mut GuestConfig, stalls: Option<Stalls>) {
    quiet_host(host);
    host.emulation.stall =
        stalls.map(|Stalls { ns, every_ns }| Stall { cpu: VCPU_S, ns, every_ns });
    pin(guest);
}

/// The same of the host alone, without stalls.
pub fn quiet_host(host: &mut HostSpec) {
    // Else CPUs, which take turns, would lose what the others execute.
    host.emulation.parallel_clock = true;
    host.emulation.round = Some(ROUND);
    host.emulation.count_world_switches = true;
}

/// Each vCPU to a pCPU of its own.
pub fn pin(guest: &mut GuestConfig) {
    guest.pins = (VCPU_S..).take(guest.vcpus as usize).collect();
}

/// Lets whoever samples do so on these CPUs of the guest from now on, not on all.
pub fn sample_on(guest: &Guest, cpus: &str) -> Result<()> {
    let script = format!(
        "cd /sys/kernel/tracing; echo {cpus} >{}; [ ! -e osnoise ] || echo {cpus} >osnoise/cpus",
        pinned::CPUS
    );
    let result = guest.exec(Exec::new(["sh", "-c", &script]).timeout(STEP_LIMIT))?;
    if result.code != 0 {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!("the CPUs that are sampled cannot be set (code {}): {}", result.code, said.trim());
    }
    Ok(())
}

/// What runs on the host and in the guest meanwhile: workloads of the agent's, whose work is ms.
pub struct Beside {
    pub on_host: Vec<String>,
    pub in_guest: Vec<String>,
}

fn workload(words: &[String], time: Duration, limit: Duration) -> Exec {
    let work = time.as_millis().to_string();
    let words = words.iter().map(String::as_str);
    Exec::new(words.chain(["--window", "0", "--work", &work])).timeout(limit)
}

/// Lets the guest be sampled on all its CPUs for `time`, and records what disturbs that.
///
/// `limit` is in wall-clock time.
pub fn record(
    host: &Host,
    guest: &Guest,
    sides: Sides,
    time: Duration,
    limit: Duration,
) -> Result<Recorded> {
    record_beside(host, guest, sides, time, limit, None)
}

/// The same while something else runs on both.
///
/// An error with [`Interrupted`] where some was recorded, and not all.
pub fn record_beside(
    host: &Host,
    guest: &Guest,
    sides: Sides,
    time: Duration,
    limit: Duration,
    beside: Option<&Beside>,
) -> Result<Recorded> {
    if sides.host {
        host.start::<NoiseRecorder>()?;
    }
    if sides.guest {
        match sides.sampler {
            None => guest.start::<GapRecorder>()?,
            Some(Sampler::Osnoise) => guest.start::<OsnoiseRecorder>()?,
            Some(Sampler::User) => guest.start::<ProgramRecorder>()?,
        }
    }
    let noise = in_guest(host, guest, sides, (time, limit), beside);
    let seen = if sides.host { Some(host.read::<NoiseRecorder>()) } else { None };
    let process = Some(guest.pid());
    let (noise, mut seen) = match (noise, seen.transpose()) {
        (Ok(noise), seen) => (noise, seen?),
        (Err(error), Ok(Some(seen))) => {
            // The emulator's count is for a guest that is still there.
            let host = Some(HostNoise { audit: None, ..seen });
            return Err(interrupted(error, Recorded { host, process, ..Recorded::default() }));
        }
        (Err(error), _) => return Err(error),
    };
    if let Some(audit) = seen.as_mut().and_then(|seen| seen.audit.as_mut()) {
        let counted = emulator_counted(host)?.and_then(|mut windows| windows.pop());
        if let Some(EmulatorWindow { cpus, .. }) = counted {
            audit.world_switches = Some(cpus.iter().map(|cpu| cpu.world_switches).sum());
            audit.guest_instructions = cpus.iter().map(|cpu| cpu.guest_instructions).collect();
        }
    }
    let incomplete = seen.as_ref().and_then(HostNoise::incomplete);
    let recorded =
        Recorded { host: seen, guest: noise, process, incomplete, ..Recorded::default() };
    match &recorded.host {
        Some(seen) if sides.guest => match check_joined(seen, guest.pid()) {
            Ok(()) => Ok(recorded),
            Err(error) => Err(interrupted(error, Recorded { process: None, ..recorded })),
        },
        _ => Ok(recorded),
    }
}

/// Lets the time pass; what the sampler saw, where it was asked.
fn in_guest(
    host: &Host,
    guest: &Guest,
    sides: Sides,
    (time, limit): (Duration, Duration),
    beside: Option<&Beside>,
) -> Result<Option<GuestNoise>> {
    let limit = limit.max(LEAD + time + STEP_LIMIT);
    match beside {
        None => {
            guest.wait(whole(sides.guest, time), limit)?;
        }
        Some(beside) => both(host, guest, whole(sides.guest, time), limit, beside)?,
    }
    if !sides.guest {
        return Ok(None);
    }
    let noise = match sides.sampler {
        None => guest.read::<GapRecorder>(),
        Some(Sampler::Osnoise) => guest.read::<OsnoiseRecorder>(),
        Some(Sampler::User) => guest.read::<ProgramRecorder>(),
    };
    Ok(Some(cut(noise?, time)))
}

/// Runs it on both at once, and a command in the guest, which ends before: what that said.
pub fn exec_beside(
    (host, guest): (&Host, &Guest),
    (time, limit): (Duration, Duration),
    beside: &Beside,
    command: Exec,
) -> Result<ExecResult> {
    thread::scope(|scope| {
        let both = scope.spawn(|| both(host, guest, time, limit, beside));
        let result = guest.exec(command);
        both.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result
    })
}

/// Runs it on both at once.
fn both(
    host: &Host,
    guest: &Guest,
    time: Duration,
    limit: Duration,
    beside: &Beside,
) -> Result<()> {
    thread::scope(|scope| {
        let on_host = scope.spawn(|| host.exec(workload(&beside.on_host, time, limit)));
        let in_guest = guest.exec(workload(&beside.in_guest, time, limit));
        let on_host = on_host.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        waited(in_guest?)?;
        waited(on_host?)
    })
}

fn waited(result: ExecResult) -> Result<()> {
    if result.code != 0 {
        bail!("waiting failed: {}", String::from_utf8_lossy(&result.stderr).trim());
    }
    Ok(())
}

pub fn check_joined(seen: &HostNoise, process: u32) -> Result<()> {
    check_offsets(&seen.tsc_offsets, process)
}

pub fn check_offsets(known: &[TscOffset], process: u32) -> Result<()> {
    if known.iter().any(|one| one.process == process) {
        return Ok(());
    }
    bail!(
        "the clocks of guest and host cannot be joined: KVM does not tell the TSC's offset\n\
         hint: mount debugfs at /sys/kernel/debug on the host, or give --side"
    );
}

/// The same on this machine, in this process.
pub type NoiseHere = Here<NoiseRecorder, GapRecorder>;

/// Only absences of VMs that are as long as `above_ns` are kept.
pub fn start_here(sides: Sides, above_ns: u64) -> Result<NoiseHere> {
    let host = sides.host.then(|| NoiseRecorder::start_above(above_ns)).transpose()?;
    let guest = sides.guest.then(|| GapRecorder::start_with(sides.sampler)).transpose()?;
    Ok(Here::of(host, guest))
}

/// It ends early when `leave` says so.
pub fn record_here(
    here: &mut NoiseHere,
    time: Duration,
    leave: &dyn Fn() -> bool,
) -> Result<Recorded> {
    let (host, noise) = here.record(whole(here.has_guest(), time), leave)?;
    Ok(Recorded {
        guest: noise.map(|noise| cut(noise, time)),
        incomplete: host.as_ref().and_then(HostNoise::incomplete),
        host,
        ..Recorded::default()
    })
}

/// Fails where records were lost: for whoever needs them all.
pub fn check_whole(host: Option<&HostNoise>) -> Result<()> {
    match host.and_then(HostNoise::incomplete) {
        None => Ok(()),
        Some(why) => bail!("{why}\nhint: record for a shorter time, or fewer guests"),
    }
}

/// For how long to record: a sampler needs some time before and after.
fn whole(has_guest: bool, time: Duration) -> Duration {
    if has_guest {
        LEAD + time + 2 * MARGIN
    } else {
        time
    }
}

fn cut(noise: GuestNoise, time: Duration) -> GuestNoise {
    noise.cut(MARGIN.as_nanos() as u64, time.as_nanos() as u64)
}
