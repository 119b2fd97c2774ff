// SPDX-License-Identifier: GPL-2.0-only
//! How wake-ups that were recorded are shown, and what is predicted of them.

use super::report::Report;
use crate::{
    errors::usage,
    input,
    options::{refuse, Format},
    print::errln,
};
use anyhow::Result;
use clap::Args;
use paratick_bench::wakeups::Recorded;
use paratick_core::{units::Nanos, wakeups::Knob};
use paratick_view::figure;
use std::path::PathBuf;

#[derive(Args)]
pub struct Shown {
    /// Predict what this much timer slack would save for processes that sleep
    #[arg(long, value_name = "TIME")]
    pub slack: Option<Nanos>,
    /// Predict what a setting would save: sysctl:KEY=VALUE, boot:PARAMETER, sched:FEATURE,
    /// mode:MODE, defer:FUNCTION or round:FUNCTION
    ///
    /// It is the guest's.  Several make one prediction.  The last two are about a kernel whose
    /// timers of this function are deferrable, or rounded to full seconds, and stand alone.
    #[arg(long = "try", value_name = "SETTING", conflicts_with = "slack")]
    pub knobs: Vec<Knob>,
    /// Draw what keeps it busy, as SVG
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

impl Shown {
    /// Before anything is recorded.
    pub fn check_figure(&self) -> Result<()> {
        self.figure.as_ref().map_or(Ok(()), |file| input::check_figure(file))
    }

    /// What each side alone cannot tell.
    pub fn check(&self, host: bool, guest: bool, hint: &str) -> Result<()> {
        if !guest {
            const WHY: &str = "of a host alone, which does not know what wakes a guest";
            refuse(&["slack", "figure"], WHY)?;
        }
        let alone = |knob: &&Knob| matches!(knob, Knob::Moved { .. });
        if let (Some(knob), 2..) = (self.knobs.iter().find(alone), self.knobs.len()) {
            return Err(usage(format!(
                "--try {knob} stands alone: what it saves with other settings is not known\n\
                 hint: give one --try"
            )));
        }
        if !(self.knobs.is_empty() || host && guest) {
            return Err(usage(format!(
                "--try predicts exits by what woke a guest, and both sides have to tell\n\
                 hint: {hint}"
            )));
        }
        Ok(())
    }

    pub fn report<'a>(&self, recorded: &'a Recorded) -> Report<'a> {
        Report::of(recorded, self.slack.map(|slack| slack.0), &self.knobs)
    }

    pub fn show(&self, report: &Report) -> Result<()> {
        if let Some(file) = &self.figure {
            let drawn = figure::wakers(&report.offenders, report.window_ns);
            input::put(file, drawn.as_bytes())?;
            errln!("figure: {}", file.display());
        }
        self.format.print(report, || report.text())
    }
}
