// SPDX-License-Identifier: GPL-2.0-only
//! The tables of results: the terminal and the report show the same ones.

pub mod averages;
pub mod balance;
pub mod bench;
pub mod calibration;
pub mod crowd;
pub mod cycle;
pub mod exits;
pub mod halts;
pub mod idle;
pub mod isolated;
pub mod latency;
pub mod mileage;
pub mod noise;
pub mod observed;
pub mod polling;
pub mod printed;
pub mod table1;
pub mod wakeups;
