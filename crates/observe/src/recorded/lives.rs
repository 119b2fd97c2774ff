// SPDX-License-Identifier: GPL-2.0-only
//! When processes were there, while perf recorded.  Pure.

use std::collections::HashMap;

/// By process.
#[derive(Default)]
pub struct Lives(HashMap<u32, Life>);

#[derive(Default)]
struct Life {
    /// None: it was there before.
    since_ns: Option<u64>,
    /// None: it is there still.
    until_ns: Option<u64>,
    /// Of earlier ones of this number.
    earlier_ns: u64,
}

impl Life {
    /// Of the time that was recorded.
    fn since(&self, began_ns: u64) -> u64 {
        self.since_ns.unwrap_or(began_ns).max(began_ns)
    }
}

impl Lives {
    pub fn begin(&mut self, process: u32, at_ns: u64, began_ns: u64) {
        let Some(life) = self.0.get_mut(&process) else {
            self.0.insert(process, Life { since_ns: Some(at_ns), ..Life::default() });
            return;
        };
        // Where the end of the last one was lost, its time goes on.
        if let Some(until_ns) = life.until_ns.take() {
            let last_ns = until_ns.saturating_sub(life.since(began_ns));
            life.earlier_ns = life.earlier_ns.saturating_add(last_ns);
            life.since_ns = Some(at_ns);
        }
    }

    pub fn end(&mut self, process: u32, at_ns: u64) {
        self.0.entry(process).or_default().until_ns = Some(at_ns);
    }

    /// Its last threads may end after its first one.
    pub fn acts(&mut self, process: u32, at_ns: u64) {
        if let Some(until_ns) = self.0.get_mut(&process).and_then(|life| life.until_ns.as_mut()) {
            *until_ns = at_ns.max(*until_ns);
        }
    }

    /// For how long it was there of this time, in ns, and whether it ended.
    pub fn of(&self, process: u32, began_ns: u64, ended_ns: u64) -> (u64, bool) {
        let Some(life) = self.0.get(&process) else {
            return (ended_ns.saturating_sub(began_ns), false);
        };
        let until_ns = life.until_ns.unwrap_or(ended_ns);
        let last_ns = until_ns.saturating_sub(life.since(began_ns));
        (life.earlier_ns.saturating_add(last_ns), life.until_ns.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whose_end_was_lost_was_there_on() {
        let mut lives = Lives::default();
        lives.begin(7, 20, 10);
        lives.begin(7, 50, 10);
        assert_eq!(lives.of(7, 10, 90), (70, false));
        lives.end(7, 60);
        lives.acts(7, 65);
        lives.begin(7, 70, 10);
        assert_eq!((lives.of(7, 10, 90), lives.of(8, 10, 90)), ((65, false), (80, false)));
    }
}
