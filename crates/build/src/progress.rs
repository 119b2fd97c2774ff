// SPDX-License-Identifier: GPL-2.0-only
//! What long work says while it runs.  The machinery emits these; only the command renders them.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A new piece of work begins.
    Step(String),
    /// How far the current step is.  `total` is an estimate, absent where there is nothing to go by;
    /// `left` is absent until it can be guessed.
    Progress {
        done: u64,
        total: Option<u64>,
        left: Option<Duration>,
    },
    /// Something the user should know although the work goes on.
    Warning(String),
}

/// Where events go.
pub type Events<'a> = &'a mut dyn FnMut(Event);
