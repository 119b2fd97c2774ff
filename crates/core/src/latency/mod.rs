// SPDX-License-Identifier: GPL-2.0-only
//! Latency: what is between the deadline of a guest's timer and the thread that waits for it, as
//! the guest and its host saw it (docs/noise.md).

mod recording;
mod split;
mod summary;

pub use recording::{Activation, GuestLatency, HostSteps, Sampler, Step, Via, What};
pub use split::{splits, Absent, Parts, Split};
pub use summary::{exits_by_cause, summary, ByCause, Spread, Summary};
