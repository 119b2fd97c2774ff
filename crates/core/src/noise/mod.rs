// SPDX-License-Identifier: GPL-2.0-only
//! Noise: where the time of a vCPU went while its guest did not run on, as the guest and its host
//! saw it (docs/noise.md).

mod audit;
mod budget;
mod clock;
mod join;
mod knob;
mod ledger;
mod pair;
mod parts;
mod rank;
mod recording;
mod sample;
mod stalls;
mod tick;

pub use audit::InGuests;
pub use budget::{budget, Budget, Level, Trial};
pub use clock::{Clock, Instant};
pub use join::{absences, Away};
pub use knob::{guest_parameters, host_parameters, Knob};
pub use ledger::{ledger, Edges, Entry, Event, Ledger};
pub use pair::{pair, Unpaired};
pub use parts::{Exits, Parts, Told};
pub use rank::{by_source, host_sources, Place, Rank, Source};
pub(crate) use recording::is_time;
pub use recording::{
    Absence, Audit, Class, Disturbance, Gap, GuestNoise, HostNoise, Kind, Sampler, SamplingProgram,
    TscOffset, OSNOISE_THRESHOLD, TICK_DEFER_IRQ_EXIT, TICK_NOHZ_IRQ_EXIT, WAKE_UP,
};
pub use sample::{moments, unbalanced, Audited, Moment, NoiseSample, Unbalanced, MOMENTS};
pub use stalls::{BadStalls, Found, Stalls};
pub use tick::mark as mark_ticks;
