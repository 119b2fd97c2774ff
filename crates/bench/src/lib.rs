// SPDX-License-Identifier: GPL-2.0-only
//! Measuring workloads in guests of every tick mode, interleaved, into one results file.

mod bed;
mod drive;
mod environment;
mod in_effect;
mod join;
mod run;
mod runs;
mod settings;
mod stock;
mod store;
pub mod stress;
pub mod timeline;

pub use environment::now;
pub use run::{run, Outcome};
pub use settings::{Kernel, Settings};
pub use store::{check as check_output, default_path, finish_writing, latest, write, BadOutput};
