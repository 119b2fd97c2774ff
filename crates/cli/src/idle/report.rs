// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick idle` prints of a recording.

use paratick_bench::wakeups::Recorded;
use paratick_core::{
    noise::{Absence, HostNoise},
    wakeups::{
        advice, lateness, offenders, rounds, summary, with_slack, Advice, Class, Knob, Lateness,
        Offender, Round, Saving, Summary, Trial,
    },
};
use paratick_view::tables::wakeups as tables;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `--format json` prints.
#[derive(Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    summary: Option<Summary>,
    pub offenders: Vec<Offender>,
    /// By what timers allow.
    lateness: BTreeMap<Class, Lateness>,
    rounds: Vec<Round>,
    /// Where no guest was asked: all exits of all VMs.
    absences: &'a [Absence],
    /// What their processes are called.
    names: Option<&'a BTreeMap<u32, String>>,
    pub window_ns: u64,
    /// What --slack would save.
    pub saving: Option<Saving>,
    /// … and what there was with it.
    pub counted: Option<Saving>,
    /// What is known to end some of it.
    advice: Vec<Advice>,
    /// What --try would save.
    pub trial: Option<Trial>,
    #[serde(skip)]
    with_host: bool,
}

impl Report<'_> {
    pub fn of<'a>(recorded: &'a Recorded, slack: Option<u64>, knobs: &[Knob]) -> Report<'a> {
        let host = recorded.host.as_ref();
        let Some(guest) = &recorded.guest else {
            return Report {
                schema: SCHEMA,
                summary: None,
                offenders: Vec::new(),
                lateness: BTreeMap::new(),
                rounds: Vec::new(),
                absences: host.map_or(&[], |host| &host.absences),
                names: host.map(|host| &host.names),
                window_ns: host.map_or(0, HostNoise::window_ns),
                saving: None,
                counted: None,
                advice: Vec::new(),
                trial: None,
                with_host: true,
            };
        };
        let rounds = rounds(guest, host.zip(recorded.process));
        let summary = summary(guest, &rounds);
        Report {
            schema: SCHEMA,
            offenders: offenders(&rounds),
            lateness: lateness([guest]),
            saving: slack.map(|slack| with_slack(guest, &rounds, slack)),
            counted: None,
            advice: advice(guest, &rounds),
            trial: (!knobs.is_empty()).then(|| Trial::predict(guest, &rounds, knobs)),
            rounds,
            absences: &[],
            names: None,
            window_ns: summary.window_ns,
            with_host: host.is_some(),
            summary: Some(summary),
        }
    }

    pub fn text(&self) -> String {
        let Some(summary) = &self.summary else {
            return tables::vms(self.absences, self.names, self.window_ns).text();
        };
        let in_all = tables::summary(summary, self.with_host).text();
        let who = tables::offenders(&self.offenders, self.window_ns, self.with_host).text();
        let late = match self.lateness.is_empty() {
            true => String::new(),
            false => format!("\n{}", tables::lateness(&self.lateness).text()),
        };
        let saving = self.saving.as_ref().map_or(String::new(), |saving| {
            let counted = self.counted.as_ref();
            format!("\n{}", tables::saving(saving, counted, self.with_host).text())
        });
        let advice = match self.advice.is_empty() {
            true => String::new(),
            false => format!("\n{}", tables::advice(&self.advice, self.window_ns).text()),
        };
        let trial = self.trial.as_ref().map_or(String::new(), |trial| {
            format!("\n{}", tables::trial(trial, self.window_ns).text())
        });
        format!("{in_all}\n{who}{late}{advice}{saving}{trial}")
    }
}

const SCHEMA: &str = "paratick-idle/1";
