// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick model` answers: values for programs, and texts for people.

pub mod guests;
pub mod recorded;
pub mod table1;
