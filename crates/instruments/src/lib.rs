// SPDX-License-Identifier: GPL-2.0-only
//! What is measured of a running guest: one folder for each question.
//!
//! A folder has its BPF programs or probes, the code that reads them, and the pure decision what
//! they mean.  It implements [`Instrument`], whose reading is a type of `paratick_core`, and has a
//! row in [`table`]: by its name any agent starts and reads it for the machine.

mod away;
mod bpf;
mod btf;
mod clock;
pub mod cycle;
mod entries;
pub mod exits;
pub mod facts;
pub mod gaps;
pub mod halts;
pub mod idle;
pub mod kept;
pub mod latency;
pub mod marker;
pub mod noise;
pub mod osnoise;
pub mod pcpus;
mod perf;
pub mod pinned;
pub mod polls;
mod probes;
pub mod sampler;
pub mod spent;
pub mod steps;
mod symbols;
mod table;
pub mod timerlat;
pub mod timers;
mod told;
mod tracefs;
mod tsc_offsets;
mod unsampled;
pub mod untold;
pub mod vcpus;

pub use bpf::perf_is_for_admins;
pub use table::Instruments;
pub use tracefs::{end_traces, Format};
pub use untold::exits as exits_by_kvm;

use anyhow::Result;
use serde::{de::DeserializeOwned, Serialize};

/// Reads something from its start until it is dropped, which leaves the kernel as it was.
///
/// An error of its start names what of the kernel is missing, with a hint.
pub trait Instrument: Send + Sized + 'static {
    /// As the machine asks for it.
    const NAME: &'static str;
    type Reading: Serialize + DeserializeOwned;

    fn start() -> Result<Self>;

    /// Begins anew: what was read before is forgotten.
    fn restart(self) -> Result<Self> {
        drop(self);
        Self::start()
    }

    /// Takes what was recorded, so that a long recording does not fill its ring.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// What there was since the start.
    fn read(&mut self) -> Result<Self::Reading>;
}
