// SPDX-License-Identifier: GPL-2.0-only
//! Halts of vCPUs: what was recorded of them, the rules by which host and guest poll before they
//! block, and what each rule would have cost (docs/halt-polling.md).

mod bounds;
mod calibrate;
mod coupled;
mod maximum;
mod policy;
mod recording;
mod regret;
mod replay;
mod rule;
mod run;
mod tally;
mod verdict;
mod verify;
mod vms;
mod window;

pub use bounds::traced_maximum;
pub use calibrate::calibrate;
pub use coupled::coupled;
pub use maximum::Maximum;
pub use policy::{Met, Policy};
pub use recording::{Halt, Halts, Side, Traced, VcpuHalts, Waker};
pub use regret::{regret, stock_rules, Advice, Candidate, Cost, Regret, Row};
pub use replay::{replay, Replayed};
pub use rule::{BadRule, Floor, GuestRule, HostRule, LearnedRule, Rule};
pub use run::RunHalts;
pub use tally::Tally;
pub use verdict::{Claim, Compared, Verdict};
pub use verify::{fill_limits, verify, Difference, Known, NotVerified, Verified};
pub use vms::{vms, Outcome, Under, Vm};
pub use window::{known, Past, Window};

#[cfg(test)]
mod goals;
#[cfg(test)]
mod streams;
