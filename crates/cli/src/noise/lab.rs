// SPDX-License-Identifier: GPL-2.0-only
//! `paratick lab noise`.

use super::{differs, report::Report, shown::Shown};
use crate::{
    errors::usage,
    options::{named, LabOptions, Recording},
    progress,
};
use anyhow::Result;
use clap::Args as Arguments;
use paratick_bench::noise::{quiet, record, sample_on, Interrupted, Recorded, Sides};
use paratick_core::{
    event::Events,
    isolation::{pcpus, sampled},
    noise::{guest_parameters, host_parameters, Knob, Sampler, Stalls, Trial},
};
use paratick_machine::{accel::Accel, guest::Guest, host::Host, spec::Clock};
use std::process::ExitCode;

#[derive(Arguments)]
#[command(mut_arg("vcpus", |vcpus| vcpus.default_value("1")))]
pub struct Args {
    #[command(flatten)]
    lab: LabOptions,
    #[command(flatten)]
    recording: Recording,
    /// Who samples in the guest: its kernel's osnoise, or a program that reads the TSC
    /// [default: osnoise where the kernel has it]
    #[arg(long, value_name = "SAMPLER", value_parser = named::<Sampler>())]
    sampler: Option<Sampler>,
    /// Boot again with the knobs of --budget turned, and measure again
    ///
    /// The guest's CPU 0 keeps the housekeeping, so there is no sampling on it.
    #[arg(long, requires = "budget", conflicts_with = "stall")]
    confirm: bool,
    /// Take time from the pCPU of the guest's CPU 0, as an SMI would, and look whether it is found
    ///
    /// LENGTH@PERIOD, such as 30us@10ms; only the lab's emulator can.
    #[arg(long, value_name = "STALLS")]
    stall: Option<Stalls>,
    #[command(flatten)]
    shown: Shown,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    args.lab.check_recorded("noise")?;
    let sides = Sides { sampler: args.sampler, ..args.recording.sides() };
    args.check_stall(sides)?;
    args.shown.check(sides.guest, sides.guest && sides.host)?;
    args.check_confirm(sides)?;
    args.recording.save.check()?;
    let recorded = progress::during(|events| args.record(sides, &[], events));
    let recorded = recorded.or_else(|error| args.keep(error))?;
    args.recording.save.keep(&recorded)?;
    let mut report = Report::of(&recorded, args.shown.budget);
    if args.confirm {
        report.trial = args.confirm(sides, &report)?;
    }
    args.shown.show(&recorded, &report)?;
    let missed = report.trial.is_some_and(|trial| trial.measured.over > 0);
    Ok(if differs(&recorded) || missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Args {
    /// What was recorded until it failed is saved and shown all the same.
    fn keep(&self, error: anyhow::Error) -> Result<Recorded> {
        if let Some(Interrupted(recorded)) = error.downcast_ref() {
            self.recording.save.keep(recorded)?;
            self.shown.show(recorded, &Report::of(recorded, None))?;
        }
        Err(error)
    }

    fn check_stall(&self, sides: Sides) -> Result<()> {
        let emulated = self.lab.host.emulation.accel.resolve() == Accel::Tcg;
        if self.stall.is_some() && !(emulated && sides.host && sides.guest) {
            return Err(usage(
                "only the lab's emulator can stall a CPU, and both sides have to look\n\
                 hint: leave --stall, or --accel kvm and --side, out",
            ));
        }
        Ok(())
    }

    fn check_confirm(&self, sides: Sides) -> Result<()> {
        if !self.confirm {
            return Ok(());
        }
        if !(sides.host && sides.guest) {
            return Err(usage(
                "--confirm boots host and guest again, and both sides have to look\n\
                 hint: leave --side out",
            ));
        }
        if self.lab.size.vcpus == 1 {
            return Err(usage(
                "--vcpus 1 is too few for --confirm: one vCPU is for the guest's housekeeping\n\
                 hint: give at least 2",
            ));
        }
        Ok(())
    }

    /// None where no knob is needed, or known.
    fn confirm(&self, sides: Sides, report: &Report) -> Result<Option<Trial>> {
        let Some((budget, book)) = report.budget.as_ref().zip(report.ledger.as_ref()) else {
            return Ok(None);
        };
        if budget.knobs.is_empty() {
            return Ok(None);
        }
        let again = progress::during(|events| self.record(sides, &budget.knobs, events))?;
        let measured = Report::of(&again, self.shown.budget).ledger;
        Ok(measured.map(|measured| Trial::of(budget, book, &measured)))
    }

    fn record(&self, sides: Sides, knobs: &[Knob], events: Events) -> Result<Recorded> {
        let (host, guest) = self.boot(knobs, events)?;
        let mut recorded =
            record(&host, &guest, sides, self.recording.time, self.recording.timeout)?;
        recorded.stalls = self.stall;
        if let (Some(host), false) = (&mut recorded.host, sides.guest) {
            self.shown.keep_above(host)?;
        }
        guest.shutdown()?;
        host.shutdown()?;
        Ok(recorded)
    }

    /// A pair of the lab's with these knobs turned.
    fn boot(&self, knobs: &[Knob], events: Events) -> Result<(Host, Guest)> {
        let mut plan = self.lab.plan(Clock::Leaping, events)?;
        quiet(&mut plan.host, &mut plan.guest, self.stall);
        let vcpus = plan.guest.vcpus;
        plan.host.boot.append.extend(host_parameters(knobs, &pcpus(vcpus)));
        plan.guest.append.extend(guest_parameters(knobs, &sampled(vcpus)));
        let (host, guest) = plan.boot(events)?;
        if self.confirm {
            sample_on(&guest, &sampled(vcpus))?;
        }
        Ok((host, guest))
    }
}
