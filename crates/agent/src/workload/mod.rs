// SPDX-License-Identifier: GPL-2.0-only
//! The project's own workloads: `paratick-agent workload NAME …`, run in a guest.

use anyhow::{bail, Result};

/// Runs the workload that `args` name (without `paratick-agent workload`); returns the exit code.
pub fn main(args: &[String]) -> Result<i32> {
    bail!("no workload {args:?}")
}
