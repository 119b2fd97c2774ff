// SPDX-License-Identifier: GPL-2.0-only
//! How noise that was recorded is shown.

use super::report::Report;
use crate::{
    errors::usage,
    input,
    options::refuse,
    print::{errln, json, out},
    report::check,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_bench::noise::Recorded;
use paratick_core::{noise::HostNoise, units::Nanos};
use paratick_view::{figure, noise_html, rtla};
use std::path::{Path, PathBuf};

/// So many gaps are explained where nobody says from which length on.
const LONGEST: usize = 5;

#[derive(Args)]
pub struct Shown {
    /// Explain all gaps of this length or more [default: the longest five]; on a host, keep only
    /// absences that keep a vCPU from running for so long, and explain them
    #[arg(long, value_name = "TIME")]
    above: Option<Nanos>,
    /// Find the fewest knobs after which no gap should be longer than this
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Nanos>,
    /// Also draw steal and the hypervisor's noise over time: a page, or an SVG alone
    #[arg(long, value_name = "FILE.html|FILE.svg")]
    figure: Option<PathBuf>,
    /// What to print: text for people, one JSON document for programs, or what `rtla osnoise`
    /// prints, with the host's columns at the end of its `top`
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    RtlaTop,
    RtlaHist,
}

impl Format {
    fn is_rtla(self) -> bool {
        matches!(self, Format::RtlaTop | Format::RtlaHist)
    }
}

impl Shown {
    /// There are gaps only where a guest was asked; `both` says whether its host was, too.
    pub fn check(&self, guest: bool, both: bool) -> Result<()> {
        if !guest {
            let why = "where no guest is asked: only who samples there finds gaps";
            refuse(&["sampler"], why)?;
        }
        if self.format == Format::Json && guest {
            refuse(&["above"], "with --format json, which has all gaps")?;
        }
        if self.format.is_rtla() {
            refuse(&["above", "budget"], "with rtla's tables, which have all gaps")?;
        }
        let wanted = [("--budget", self.budget.is_some()), ("rtla's table", self.format.is_rtla())];
        if let Some((option, _)) = wanted.into_iter().find(|(_, wanted)| *wanted && !guest) {
            return Err(usage(format!(
                "{option} is about gaps, which only who samples in a guest finds\n\
                 hint: record in the VM, with --side guest, or both sides with \
                 `paratick lab noise`"
            )));
        }
        let Some(file) = &self.figure else { return Ok(()) };
        if !both {
            return Err(usage(
                "--figure shows what the host did in the gaps of a guest\n\
                 hint: give the recordings of both sides, or use `paratick lab noise` without \
                 --side",
            ));
        }
        if is_svg(file) {
            return input::check_figure(file);
        }
        if file.extension().is_none_or(|extension| extension != "html") {
            return Err(usage(format!(
                "cannot draw to {}: a figure is a page or an SVG\n\
                 hint: name a file such as figure.html or figure.svg",
                file.display()
            )));
        }
        check(file, "--figure", &[])
    }

    pub fn above_ns(&self) -> u64 {
        self.above.map_or(0, |above| above.0)
    }

    /// Of what was recorded before.
    pub fn keep_above(&self, host: &mut HostNoise) -> Result<()> {
        if (1..host.least_ns).contains(&self.above_ns()) {
            let least = Nanos(host.least_ns);
            return Err(usage(format!(
                "shorter absences were not recorded\nhint: give --above {least}, or more"
            )));
        }
        host.above(self.above_ns());
        Ok(())
    }

    pub fn show(&self, recorded: &Recorded, report: &Report) -> Result<()> {
        match (self.format, &report.ledger) {
            (Format::Json, _) => json(report)?,
            (Format::RtlaTop, Some(book)) => {
                out!("{}", rtla::top(book, recorded.joined().is_some()))?
            }
            (Format::RtlaHist, Some(book)) => out!("{}", rtla::hist(book))?,
            _ => {
                let most = if self.above.is_some() { usize::MAX } else { LONGEST };
                out!("{}", report.text(recorded, most, self.above_ns()))?
            }
        }
        let drawn = self.figure.as_ref().zip(report.ledger.as_ref()).zip(recorded.guest.as_ref());
        let Some(((file, book), guest)) = drawn else { return Ok(()) };
        if is_svg(file) {
            input::put(file, figure::noise(book, guest.begin_ns).as_bytes())?;
        } else {
            let page = noise_html(book, guest.begin_ns, recorded.joined().is_some())?;
            input::put(file, page.as_bytes())?;
        }
        errln!("figure: {}", file.display());
        Ok(())
    }
}

fn is_svg(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "svg")
}
