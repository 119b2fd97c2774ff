// SPDX-License-Identifier: GPL-2.0-only
//! Whether one can observe here, by trying.

use crate::{check, Wanted, Watch};
use anyhow::Result;
use std::fs;

/// Where the kernel lists its tracers: since 4.1, and before.
const TRACERS: [&str; 2] =
    ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"];

/// Loads and attaches the sensor, and takes it away again.  `exit` makes a vCPU exit meanwhile, and
/// returns whether it did; false: KVM told nothing of that.
///
/// # Errors
///
/// What is in the way, with a hint.
pub fn trial(exit: impl FnOnce() -> bool) -> Result<bool> {
    check()?;
    let mut watch = Watch::start(Wanted::default(), Vec::new(), &[])?;
    if !exit() {
        return Ok(true);
    }
    watch.look()?;
    Ok(watch.was_told())
}

/// Whether the kernel has a tracer; an error says why it is not seen.
pub fn has_tracer(name: &str) -> Result<String, String> {
    let mut refused = None;
    for file in TRACERS {
        match fs::read_to_string(file) {
            Ok(list) if list.split_whitespace().any(|word| word == name) => {
                return Ok(format!("this kernel has the tracer {name}"));
            }
            Ok(_) => return Err(format!("this kernel has no tracer {name}")),
            Err(error) => {
                refused.get_or_insert(format!("unknown: {file}: {error}"));
            }
        }
    }
    Err(refused.unwrap_or_default())
}
