// SPDX-License-Identifier: GPL-2.0-only
//! What is measured of a running guest: one folder for each question.

pub mod cycle;
pub mod exits;
pub mod idle;
pub mod marker;
