// SPDX-License-Identifier: GPL-2.0-only
//! Nothing to do: what a guest costs its host while it idles.

use super::{
    measure::{measure, Measured},
    options::Options,
};
use anyhow::Result;
use std::{thread, time::Duration};

pub fn run(options: &Options) -> Result<Measured> {
    measure(options, || {
        thread::sleep(Duration::from_millis(options.work));
        Ok(options.work)
    })
}
