// SPDX-License-Identifier: GPL-2.0-only
//! Halts of vCPUs: what was recorded of them, the rules by which host and guest poll before they
//! block, and what each rule would have cost (docs/halt-polling.md).

mod recording;
mod rule;

pub use recording::{Halt, Halts, Side, Traced, VcpuHalts, Waker};
pub use rule::{Floor, GuestRule, HostRule, LearnedRule, Rule};
