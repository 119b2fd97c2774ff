// SPDX-License-Identifier: GPL-2.0-only
//! Which options the user has named: one that has no effect, whatever its value, is refused; a
//! default that is named where other values have one is not.

use crate::errors::usage;
use anyhow::Result;
use clap::{parser::ValueSource, ArgMatches};
use std::sync::OnceLock;

static GIVEN: OnceLock<Vec<String>> = OnceLock::new();

/// Called once, before the command runs.
pub fn remember_given(matches: &ArgMatches) {
    let mut matches = matches;
    while let Some((_, sub)) = matches.subcommand() {
        matches = sub;
    }
    let named = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids = matches.ids().map(|id| id.as_str());
    let _ = GIVEN.set(ids.filter(named).map(String::from).collect());
}

/// An error for the first of these options (by their field's names) that was named; `why` says
/// where it has no effect, as in `with --in host`.
pub fn refuse(options: &[&str], why: &str) -> Result<()> {
    let given = GIVEN.get().map_or(&[][..], Vec::as_slice);
    match options.iter().find(|option| given.iter().any(|name| name == *option)) {
        Some(option) => {
            let option = option.replace('_', "-");
            Err(usage(format!("--{option} has no effect {why}\nhint: omit --{option}")))
        }
        None => Ok(()),
    }
}
