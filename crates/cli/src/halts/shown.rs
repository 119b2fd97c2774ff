// SPDX-License-Identifier: GPL-2.0-only
//! How halts that were recorded are shown, and which rule is set.

use super::{
    apply::{apply, Wanted},
    judge::{judge, Judged},
};
use crate::{
    options::{number, refuse, Format, Save},
    print::{json, out},
};
use anyhow::Result;
use clap::Args;
use paratick_bench::tune::Interrupted;
use paratick_core::halts::{Floor, Halts, HostRule};
use paratick_machine::host::Host;
use std::process::ExitCode;

#[derive(Args)]
pub struct Shown {
    /// What it costs to block and to wake up [default: as the recording says, else 10000]
    #[arg(long, value_name = "NS", value_parser = number(1..=10_000_000))]
    cost: Option<u32>,
    #[command(flatten)]
    save: Save,
    /// Set the host to this rule, or to the best that its kernel has, record again, and set it back
    /// if the prediction does not come true: none, 2021, paper, default, or NS,GROW,START,SHRINK
    #[arg(long, value_name = "RULE", require_equals = true, value_parser = stock)]
    apply: Option<Option<HostRule>>,
    #[command(flatten)]
    format: Format,
}

/// A rule that stock parameters can express.
fn stock(text: &str) -> Result<HostRule, String> {
    let rule: HostRule = text.parse().map_err(|error| format!("{error}"))?;
    match rule.floor {
        Floor::ToZero => Ok(rule),
        _ => Err("only a kernel of the lab has another floor than Linux".into()),
    }
}

impl Shown {
    pub fn check(&self) -> Result<()> {
        if self.apply.is_none() {
            refuse(&["all"], "without --apply")?;
        }
        self.save.check()
    }

    pub fn applies(&self) -> bool {
        self.apply.is_some()
    }

    pub fn show(&self, halts: &Halts) -> Result<()> {
        let judged = self.judged(halts);
        self.format.print(&judged.report(None::<&()>), || judged.text(halts))
    }

    /// Shows and saves what was recorded, until it failed if it did; and sets the rule.
    pub fn conclude(
        &self,
        host: &Host,
        record: &dyn Fn() -> Result<Halts>,
        halts: Result<Halts>,
        all: bool,
    ) -> Result<ExitCode> {
        if let Some(Interrupted(halts)) = halts.as_ref().err().and_then(|it| it.downcast_ref()) {
            self.keep(halts)?;
        }
        let halts = halts?;
        let Some(rule) = self.apply else {
            self.keep(&halts)?;
            return Ok(ExitCode::SUCCESS);
        };
        self.save.keep(&halts)?;
        let judged = self.judged(&halts);
        // One document says what was recorded, and what came of the rule.
        let whole = self.format.is_json();
        if !whole {
            out!("{}", judged.text(&halts))?;
        }
        let applied = apply(host, record, &judged, &Wanted { rule, all });
        if whole {
            json(&judged.report(applied.as_ref().ok()))?;
        }
        Ok(applied?.code())
    }

    pub fn keep(&self, halts: &Halts) -> Result<()> {
        self.save.keep(halts)?;
        self.show(halts)
    }

    fn judged(&self, halts: &Halts) -> Judged {
        judge(halts, self.cost, self.apply.flatten())
    }
}
