// SPDX-License-Identifier: GPL-2.0-only
//! How latency that was recorded is shown.

use crate::options::{number, refuse, Format};
use anyhow::{bail, Result};
use clap::Args;
use paratick_bench::latency::Recorded;
use paratick_core::latency::{exits_by_cause, splits, summary, ByCause, Sampler, Split, Summary};
use paratick_view::{number::plural, table::wrap, tables::latency as tables};
use serde::Serialize;

#[derive(Args)]
pub struct Shown {
    /// Explain so many activations, those with the longest latency
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100_000))]
    worst: u32,
    #[command(flatten)]
    format: Format,
}

impl Shown {
    pub fn check(&self) -> Result<()> {
        match self.format.is_json() {
            true => refuse(&["worst"], "with --format json, which has all activations"),
            false => Ok(()),
        }
    }

    pub fn show(&self, recorded: &Recorded) -> Result<()> {
        let report = Report::of(recorded);
        self.format.print(&report, || self.text(&report))
    }

    fn text(&self, report: &Report) -> String {
        let sums = &report.summary;
        let parts = tables::parts(sums, report.sampler, report.window_ns, report.with_host);
        let mut pieces = vec![parts.text()];
        if report.unseen > 0 {
            pieces.push(wrap(&format!(
                "Besides, {} had a timer that was not seen to expire on the CPU of its thread, and \
                 are left out.",
                plural(report.unseen, "wake-up")
            )));
        }
        if !report.exits.is_empty() {
            pieces.push(tables::exits(&report.exits).text());
        }
        let mut worst: Vec<&Split> = report.activations.iter().collect();
        worst.sort_by_key(|one| (std::cmp::Reverse(one.thread_ns), one.deadline_ns));
        worst.truncate(self.worst as usize);
        if !worst.is_empty() {
            let lines = worst.into_iter().map(|one| wrap(&tables::chain(one)));
            pieces.push(format!("The longest latencies\n{}", lines.collect::<String>()));
        }
        pieces.join("\n")
    }
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// Who waited for the timer.
    sampler: Sampler,
    /// Wake-ups that are not among the activations.
    unseen: usize,
    window_ns: u64,
    with_host: bool,
    summary: Summary,
    exits: Vec<ByCause>,
    activations: Vec<Split>,
}

impl Report {
    fn of(recorded: &Recorded) -> Report {
        let guest = &recorded.guest;
        let activations = splits(guest, recorded.host.as_ref().zip(recorded.process));
        Report {
            schema: "paratick-timerlat/1",
            sampler: guest.sampler,
            unseen: guest.unseen.len(),
            window_ns: guest.end_ns.saturating_sub(guest.begin_ns),
            with_host: recorded.host.is_some(),
            summary: summary(&activations),
            exits: exits_by_cause(&activations),
            activations,
        }
    }
}

/// Fails where nobody woke up.
pub fn check_any(recorded: &Recorded) -> Result<()> {
    if recorded.guest.activations.is_empty() {
        bail!(
            "there was no activation in that time\n\
             hint: record for longer than the period, with --for: 1 ms, or what \
             osnoise/timerlat_period_us in tracefs says"
        );
    }
    Ok(())
}
