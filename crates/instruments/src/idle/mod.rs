// SPDX-License-Identifier: GPL-2.0-only
//! Counts what the kernel decides when CPUs go idle, by probes in its idle code.
//!
//! Each probe takes some hundred instructions, but no VM exit.

use crate::{
    tracefs::{Histogram, Tracefs},
    Instrument,
};
use anyhow::{Context, Result};
use paratick_core::idle::IdleEntries;

/// Each probe, and what its histogram counts.
const PROBES: [(&str, &str); 4] = [
    ("r:paratick/decided tick_nohz_next_event", "hist:keys=common_pid"),
    ("r:paratick/kept tick_nohz_next_event next=$retval:u64", "hist:keys=common_pid if next == 0"),
    ("r:paratick/rcu rcu_needs_cpu waiting=$retval:u8", "hist:keys=common_pid if waiting == 1"),
    ("p:paratick/callback call_rcu function=$arg2:u64", "hist:keys=function.sym"),
];

pub struct IdleCounter(Vec<Histogram>);

impl Instrument for IdleCounter {
    const NAME: &'static str = "idle";
    type Reading = IdleEntries;

    fn start() -> Result<IdleCounter> {
        let tracefs = Tracefs::open().context("idle entries cannot be counted")?;
        let count = |(definition, histogram)| {
            tracefs.count(definition, histogram).with_context(|| {
                format!(
                    "idle entries cannot be counted: {definition}\n\
                     hint: the guest's kernel needs CONFIG_KPROBE_EVENTS and CONFIG_HIST_TRIGGERS"
                )
            })
        };
        PROBES.into_iter().map(count).collect::<Result<_>>().map(IdleCounter)
    }

    fn read(&mut self) -> Result<IdleEntries> {
        let sum = |nth: usize| Ok::<u64, anyhow::Error>(self.0[nth].counts()?.values().sum());
        Ok(IdleEntries {
            decisions: sum(0)?,
            kept: sum(1)?,
            rcu_waiting: sum(2)?,
            rcu_callbacks: self.0[3].counts()?,
        })
    }
}
