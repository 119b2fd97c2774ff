// SPDX-License-Identifier: GPL-2.0-only
//! Nothing to do: what a guest costs its host while it idles.

use super::{measure::measure, options::Options};
use anyhow::Result;
use paratick_core::workload::Report;
use std::{thread, time::Duration};

pub fn run(options: &Options) -> Result<Report> {
    measure(options, || {
        thread::sleep(Duration::from_millis(options.work));
        Ok(options.work)
    })
}
