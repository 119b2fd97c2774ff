// SPDX-License-Identifier: GPL-2.0-only
//! What long work says while it runs.

pub use paratick_core::event::{Event, Events, Step, Warning};
