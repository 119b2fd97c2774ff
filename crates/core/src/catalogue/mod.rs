// SPDX-License-Identifier: GPL-2.0-only
//! What there is to measure: benches, their guests, workloads and programs.

pub mod idle_tables;
pub mod mileage;
pub mod noise;
pub mod polling;
pub mod programs;
pub mod sets;
pub mod workloads;
