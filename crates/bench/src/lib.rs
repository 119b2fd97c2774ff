// SPDX-License-Identifier: GPL-2.0-only
//! Measuring workloads in guests of every tick mode, interleaved, into one results file.

mod background;
mod environment;
mod here;
mod isolated;
pub mod latency;
mod lateness;
pub mod noise;
pub mod prepared;
mod runner;
mod sample;
mod schedule;
mod settings;
mod store;
pub mod stress;
pub mod timeline;
pub mod tune;
pub mod verify;
pub mod wakeups;
mod worker;
mod workloads;

pub use environment::{available_memory, now};
pub use runner::{run, Outcome};
pub use settings::{Kernel, Settings};
pub use store::{
    check as check_output, check_writable, default_path, finish_writing, latest, BadOutput,
};
pub use store::{folder, replace, write};
