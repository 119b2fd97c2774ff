// SPDX-License-Identifier: GPL-2.0-only
//! What happens to a vCPU in one idle cycle, from a trace of its host.
//!
//! [`trace`] reads the host's trace, [`story`] tells from it what one vCPU went through, and
//! [`choose`] chooses one cycle that stands for all.

pub mod choose;
pub mod story;
pub mod trace;

#[cfg(test)]
mod tests;
