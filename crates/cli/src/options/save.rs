// SPDX-License-Identifier: GPL-2.0-only
//! Where a recording goes.

use crate::input;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
pub struct Save {
    /// Keep what was recorded, for `paratick VERB --recording FILE`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Save {
    /// Before anything is recorded: can the file be written?
    pub fn check(&self) -> Result<()> {
        self.save.as_ref().map_or(Ok(()), |file| input::check_writable(file))
    }

    pub fn keep(&self, recorded: &impl Serialize) -> Result<()> {
        self.save.as_ref().map_or(Ok(()), |file| input::keep(file, recorded))
    }
}
