// SPDX-License-Identifier: GPL-2.0-only
//! Guests on one host of the lab's (or on this machine), with everything that counts switched on.

use super::{
    isolated, lateness, sample,
    schedule::{counts_idle_entries, records_halts, runs_natively, Measured, Worker},
    settings::Settings,
    verify,
    workloads::{self, Completed, Run},
};
use anyhow::{bail, Context, Result};
use paratick_core::{
    balancing::Balancing,
    event::{Events, Warning},
    exits::WindowCounts,
    network::{self, Card},
    results::{Boot, Fault, Plan, PlannedWorkload, Sample},
    subject::HostSettings,
    wire::GuestConfig,
};
use paratick_instruments::spent::SpentCounter;
use paratick_machine::{guest::Guest, host::Host, spec::HostSpec};

/// A host that is booted when it is first needed, and again after a guest has failed on it.
pub struct HostWorker<'a> {
    pub spec: HostSpec,
    pub settings: &'a Settings,
    /// Without what hung in a guest.
    pub plan: Plan,
    pub host: Option<CountingHost>,
}

pub struct CountingHost {
    pub host: Host,
    /// Windows that the emulator had counted when the current guest was started.
    before: usize,
}

impl HostWorker<'_> {
    /// Boots the host if none with these settings is up.
    pub fn host(&mut self, settings: HostSettings, events: Events) -> Result<&mut CountingHost> {
        if self.spec.settings != settings {
            self.spec.settings = settings;
            self.host = None;
        }
        if self.host.is_none() {
            let host = Host::boot(self.spec.clone(), &self.settings.tools, events)?;
            verify::check_host(&host)?;
            if !self.spec.backend.boots() {
                let has_pmu = SpentCounter::start(&[std::process::id()])?.has_pmu();
                events(Warning::NotCountedHere { has_pmu }.into());
            } else if host.world_switches().is_none() {
                events(Warning::WorldSwitchesNotCounted.into());
            }
            self.host = Some(CountingHost { host, before: 0 });
        }
        self.host.as_mut().context("a host was just booted")
    }

    fn guest_spec(&self, boot: Boot) -> GuestConfig {
        let (settings, plan, mode) = (self.settings, &self.plan, boot.subject.mode);
        let memory = settings.set.memory;
        let mut spec = GuestConfig::new(&settings.kernel.image, plan.vcpus, memory, mode);
        spec.disk = settings.set.guest_disk();
        spec.root_disk = settings.kernel.root_disk.clone();
        spec.disk_device = plan.disk_device;
        spec.clock = plan.clock_device;
        spec.sockets = plan.sockets;
        if let Some(sampler) = plan.sampler {
            let parameters = sampler.parameters().into_iter();
            spec.append
                .extend(parameters.map(|(name, value)| format!("lab_sampler.{name}={value}")));
        }
        spec.append.extend(plan.balancing.map(Balancing::parameter));
        if plan.guests > 1 {
            // All on the same pCPUs: CPU 0 is the host's own.
            spec.pins = (1..=plan.vcpus).collect();
        }
        if let Some(isolation) = plan.isolation {
            isolated::guest(&mut spec, isolation);
        }
        spec
    }

    /// Records the noise of a guest, which nothing else counts in.
    fn in_busy_guest(&mut self, boot: Boot, ran: &mut dyn FnMut()) -> Result<Measured> {
        let spec = self.guest_spec(boot);
        let (settings, plan) = (self.settings, self.plan.clone());
        let agent = settings.tools.agent.display().to_string();
        let on = self.host(boot.subject.host, &mut |_| ())?;
        let guest = on.host.start_guest(spec)?;
        ran();
        let measured = Measured {
            samples: isolated::samples(&on.host, &guest, &agent, (&plan, boot), ran)?,
            command_line: guest.command_line().to_vec(),
            kernel: guest.ready().kernel.clone(),
            ..Measured::default()
        };
        guest.shutdown()?;
        on.host.check()?;
        Ok(measured)
    }

    fn in_guests(&mut self, boot: Boot, ran: &mut dyn FnMut()) -> Result<Measured> {
        let spec = self.guest_spec(boot);
        let (settings, plan) = (self.settings, self.plan.clone());
        let agent = settings.tools.agent.display().to_string();
        let on = self.host(boot.subject.host, &mut |_| ())?;
        on.begin()?;
        let guests: Vec<Guest> = (0..plan.guests)
            .map(|nth| on.host.start_guest(of_its_own(&spec, &plan, nth)))
            .collect::<Result<_>>()?;
        let in_effect = || -> Result<()> {
            guests
                .iter()
                .try_for_each(|guest| verify::check(guest, &agent, boot.subject.mode, &plan))
        };
        in_effect()?;
        ran();
        let Completed { runs, mut problems, hung } = match plan.one_window {
            true => {
                let prepared = &settings.prepared;
                workloads::in_one_window(&on.host, &guests, &agent, &plan, prepared, ran)?
            }
            false => {
                let here = !on.host.boots();
                workloads::all(&guests, here, &agent, &plan, &settings.prepared, ran)?
            }
        };
        let mut samples = on.join(&guests, &runs, boot)?;
        let through: Vec<&Run> = match hung {
            None => runs.iter().filter(|run| run.repeat == plan.repeats).collect(),
            Some(_) => Vec::new(),
        };
        let once_more = |run: bool| through.iter().filter(move |_| run);
        if plan.records_wakeups && hung.is_none() {
            let last = samples.iter_mut().filter(|(_, sample)| sample.repeat == plan.repeats);
            problems.extend(record_wakeups(&on.host, &guests[0], &agent, last, ran)?);
        }
        if plan.records_lateness && hung.is_none() {
            let last = samples.iter_mut().filter(|(_, sample)| sample.repeat == plan.repeats);
            for (workload, sample) in last {
                let late = lateness::of_all(&on.host, &guests, &agent, workload)?;
                late.map_or_else(|fault| problems.push(fault), |late| sample.late = late);
                ran();
            }
        }
        let mut idle_entries = Vec::new();
        for run in once_more(counts_idle_entries(boot, &plan)) {
            let counted = workloads::idle_entries(&guests, &agent, run)?;
            counted.map_or_else(|fault| problems.push(fault), |one| idle_entries.push(one));
            ran();
        }
        let mut halts = Vec::new();
        for run in once_more(records_halts(boot, &plan)) {
            let recorded = workloads::halts(&on.host, &guests, &agent, run)?;
            recorded.map_or_else(|fault| problems.push(fault), |one| halts.push(one));
            ran();
        }
        // Again: a guest whose virtual ticks stay away goes back to its own.
        in_effect()?;
        let mut measured = Measured {
            samples,
            idle_entries,
            halts,
            native: Vec::new(),
            command_line: guests[0].command_line().to_vec(),
            kernel: guests[0].ready().kernel.clone(),
            problems,
        };
        // A console that complained makes every sample of the guest worthless.
        match &hung {
            None => guests.into_iter().try_for_each(Guest::shutdown)?,
            // It would wait for what does not end.
            Some(_) => drop(guests),
        }
        for run in once_more(runs_natively(boot, &plan)) {
            let Some(ran_natively) = workloads::native(&on.host, &agent, plan.vcpus, run)? else {
                continue;
            };
            match ran_natively {
                Ok(one) => measured.native.push(one),
                Err(fault) => measured.problems.push(fault),
            }
            ran();
        }
        on.host.check()?;
        if let Some(hung) = hung {
            // It would take as long in every guest to come; a resumed bench tries it again.
            self.plan.workloads.retain(|one| one.workload != hung);
            self.host = None;
        }
        Ok(measured)
    }
}

/// The n-th guest's, where they are not all alike: those that talk to each other have addresses,
/// and pCPUs of their own.
fn of_its_own(spec: &GuestConfig, plan: &Plan, nth: u32) -> GuestConfig {
    let mut spec = spec.clone();
    if let Some(network) = plan.network {
        spec.card = Some(Card { network, address: network::address(nth as u8) });
        let first = 1 + nth * plan.vcpus;
        spec.pins = (first..first + plan.vcpus).collect();
    }
    spec
}

/// Adds to each sample what wakes its guest; returns what went wrong with it.
fn record_wakeups<'a>(
    host: &Host,
    guest: &Guest,
    agent: &str,
    samples: impl Iterator<Item = &'a mut (PlannedWorkload, Sample)>,
    ran: &mut dyn FnMut(),
) -> Result<Vec<Fault>> {
    let mut problems = Vec::new();
    for (workload, sample) in samples {
        match workloads::woken(host, guest, agent, workload)? {
            Ok(woken) => sample.woken = Some(woken),
            Err(fault) => problems.push(fault),
        }
        ran();
    }
    Ok(problems)
}

impl Worker for HostWorker<'_> {
    fn measure(&mut self, boot: Boot, ran: &mut dyn FnMut()) -> Result<Measured> {
        let measured = match self.plan.isolation {
            Some(_) => self.in_busy_guest(boot, ran),
            None => self.in_guests(boot, ran),
        };
        if measured.is_err() || self.plan.one_window {
            // What is wrong with it may be wrong for the next guest too; and where the host itself
            // is measured, guests that are just ending would be in it.
            self.host = None;
        }
        measured
    }

    fn end(&mut self) {
        self.host = None;
    }
}

impl CountingHost {
    /// Forgets the windows of earlier guests.
    fn begin(&mut self) -> Result<()> {
        self.host.counting_start()?;
        self.before = sample::emulator_counted(&self.host)?.map_or(0, |windows| windows.len());
        Ok(())
    }

    /// Fetches what the host and the emulator counted in the windows of `runs`.
    fn join(
        &mut self,
        guests: &[Guest],
        runs: &[Run],
        boot: Boot,
    ) -> Result<Vec<(PlannedWorkload, Sample)>> {
        let windows = self.host.windows()?;
        if runs.iter().any(|run| run.pcpus.is_some()) {
            return self.join_all(guests, runs, boot, &windows);
        }
        // The emulator cannot tell windows apart that are open at the same time.
        let emulator = match guests {
            [_] => sample::emulator_counted(&self.host)?,
            _ => None,
        };
        let emulator = emulator.as_deref().map(|all| &all[self.before.min(all.len())..]);
        if let Some(seen) = emulator.filter(|seen| seen.len() != windows.len()) {
            bail!("the host counted {} windows, and the emulator {}", windows.len(), seen.len());
        }
        let cost = self.host.exit_cost_ns();
        let sample_of = |run: &Run| -> Result<(PlannedWorkload, Sample)> {
            let parts = run.reports.iter().zip(guests).map(|(report, guest)| {
                let place = place_of(&windows, run.window, guest.pid())?;
                let emulator = emulator.map(|seen| &seen[place]);
                Ok(sample::sample(report, &windows[place], emulator, cost))
            });
            let mut sample = Sample {
                round: boot.round,
                repeat: run.repeat,
                ..sample::together(parts.collect::<Result<_>>()?)
            };
            if let Some(spent) = run.spent {
                sample::spend(&mut sample, spent);
            }
            Ok((run.done(), sample))
        };
        runs.iter().map(sample_of).collect()
    }

    /// The same where each run's window is of all guests: the emulator saw it as one.
    fn join_all(
        &self,
        guests: &[Guest],
        runs: &[Run],
        boot: Boot,
        windows: &[WindowCounts],
    ) -> Result<Vec<(PlannedWorkload, Sample)>> {
        let emulator = sample::emulator_counted(&self.host)?;
        let emulator = emulator.as_deref().map(|all| &all[self.before.min(all.len())..]);
        if let Some(seen) = emulator.filter(|seen| seen.len() != runs.len()) {
            bail!("{} runs had a window, and the emulator counted {}", runs.len(), seen.len());
        }
        let sample_of = |(number, run): (usize, &Run)| -> Result<(PlannedWorkload, Sample)> {
            let each = guests
                .iter()
                .map(|guest| Ok(windows[place_of(windows, run.window, guest.pid())?].clone()));
            let whole = sample::whole(each.collect::<Result<_>>()?);
            let report = run.reports.first().context("the first guest ran it")?;
            let seen = emulator.map(|seen| &seen[number]);
            let sample = Sample {
                round: boot.round,
                repeat: run.repeat,
                pcpus: run.pcpus.as_ref().map_or(Vec::new(), |pcpus| pcpus.cpus.clone()),
                ..sample::sample(report, &whole, seen, self.host.exit_cost_ns())
            };
            Ok((run.done(), sample))
        };
        runs.iter().enumerate().map(sample_of).collect()
    }
}

/// Each run has exactly one window in its guest.  Runs that failed may have left others.
fn place_of(windows: &[WindowCounts], number: u32, pid: u32) -> Result<usize> {
    let of_run = |found: &WindowCounts| found.window == number && found.vm() == Some(pid);
    let mut places = (0..windows.len()).filter(|place| of_run(&windows[*place]));
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        _ => {
            let found: Vec<_> = windows.iter().map(|found| (found.window, found.vm())).collect();
            bail!(
                "the host counted the windows {found:?} (number, QEMU), where number {number} of \
                QEMU {pid} was marked once"
            )
        }
    }
}
