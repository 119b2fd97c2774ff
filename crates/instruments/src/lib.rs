// SPDX-License-Identifier: GPL-2.0-only
//! What is measured of a running guest: one folder for each question.
//!
//! A folder has its BPF programs or probes, the code that reads them, and the pure decision what
//! they mean.  It implements [`Instrument`], whose reading is a type of `paratick_core`, and has a
//! row in [`table`]: by its name any agent starts and reads it for the machine.

mod bpf;
mod clock;
pub mod cycle;
pub mod exits;
mod facts;
pub mod halts;
pub mod idle;
mod instrument;
pub mod marker;
pub mod noise;
pub mod osnoise;
pub mod polls;
mod symbols;
mod table;
mod tracefs;
mod tsc_offsets;

pub use instrument::Instrument;
pub use table::Instruments;
pub use tracefs::end_traces;
