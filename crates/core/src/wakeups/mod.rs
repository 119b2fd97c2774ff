// SPDX-License-Identifier: GPL-2.0-only
//! What wakes an idle guest, and what each wake-up costs in exits (docs/idle.md).

mod knobs;
mod lateness;
mod moved;
mod offenders;
mod others;
mod recording;
mod replay;
mod rounds;
mod woken;

pub use knobs::{advice, Advice, Knob, NoKnob, Trial};
pub use lateness::{lateness, Lateness};
pub use moved::Move;
pub use offenders::{offenders, summary, Offender, Summary};
pub use recording::{Class, Event, GuestWakeups, Irq, Jiffies, Late, Process, Timer, What, Wheel};
pub use replay::{with_slack, Saving};
pub use rounds::{rounds, Round, Source};
pub use woken::{Sampled, Waker, Woken};

#[cfg(test)]
mod tests;
