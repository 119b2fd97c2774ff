// SPDX-License-Identifier: GPL-2.0-only
//! How much is measured, and what is printed.

use crate::print::{json, out};
use anyhow::Result;
use clap::{Args, ValueEnum};
use paratick_core::catalogue::sets;
use serde::Serialize;

#[derive(Args, Clone, Copy)]
pub struct Format {
    /// What to print: text for people, or one JSON document for programs
    #[arg(long, value_enum, default_value_t = Kind::Text)]
    format: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Text,
    Json,
}

impl Format {
    pub fn is_json(self) -> bool {
        self.format == Kind::Json
    }

    pub fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        match self.format {
            Kind::Json => json(value),
            Kind::Text => out!("{}", text()),
        }
    }
}

#[derive(Args, Clone, Copy)]
pub struct Scale {
    /// Measure less: the paper's whole evaluation then takes half an hour on 2 cores
    #[arg(long)]
    quick: bool,
}

impl Scale {
    pub fn get(self) -> sets::Scale {
        match self.quick {
            true => sets::Scale::Quick,
            false => sets::Scale::Full,
        }
    }
}
