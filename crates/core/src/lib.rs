// SPDX-License-Identifier: GPL-2.0-only
//! What paratick computes without touching a file, a process or a clock.

pub mod catalogue;
pub mod cause;
pub mod compare;
pub mod cycle;
pub mod event;
pub mod exit_cost;
pub mod exits;
pub mod idle;
pub mod mode;
pub mod model;
pub mod reason;
pub mod results;
pub mod shell;
pub mod size;
pub mod stats;
pub mod subject;
pub mod throughput;
pub mod units;
pub mod wire;
pub mod workload;
