// SPDX-License-Identifier: GPL-2.0-only
//! Watches a kernel's console for what must not happen.

use crate::failure::Trouble;
use std::collections::VecDeque;

/// What ends a run, and what it is called.  One table for every console.
const MARKERS: [(&str, &str); 19] = [
    ("Kernel panic", "a kernel panic"),
    ("Unable to mount root", "no root file system"),
    ("soft lockup", "a soft lockup"),
    ("hard LOCKUP", "a hard lockup"),
    ("detected stalls", "an RCU stall"),
    ("self-detected stall", "an RCU stall"),
    ("detected expedited stalls", "an RCU stall"),
    ("blocked for more than", "a hung task"),
    ("Oops:", "a kernel oops"),
    ("kernel BUG at", "a kernel bug"),
    ("BUG: ", "a kernel bug"),
    ("general protection fault", "a general protection fault"),
    ("possible circular locking", "a locking problem (lockdep)"),
    ("suspicious RCU usage", "a locking problem (lockdep)"),
    ("inconsistent lock state", "a locking problem (lockdep)"),
    ("WARNING: ", "a kernel warning"),
    ("non-static key", "a locking problem (lockdep)"),
    ("ODEBUG: ", "a misused object (debugobjects)"),
    ("paratick-agent: ", "a failure of the agent"),
];

const BEFORE: usize = 20;
const AFTER: usize = 60;

#[derive(Debug, Default)]
pub struct Watcher {
    partial: String,
    recent: VecDeque<String>,
    found: Option<(&'static str, Vec<String>)>,
}

impl Watcher {
    /// Takes what was printed; returns the lines that it completed.
    pub fn feed(&mut self, text: &str) -> Vec<String> {
        self.partial.push_str(text);
        let mut lines = Vec::new();
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            let line = clean(&line);
            self.look_at(&line);
            lines.push(line);
        }
        lines
    }

    /// The end of the console completes its last line.
    pub fn end(&mut self) {
        if !self.partial.is_empty() {
            self.feed("\n");
        }
    }

    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    pub fn trouble(&self, place: &str) -> Option<Trouble> {
        self.found.as_ref().map(|(what, lines)| Trouble {
            place: place.to_string(),
            what,
            lines: lines.clone(),
        })
    }

    /// The last lines, for a failure that no marker explains.
    pub fn recent(&self) -> Vec<String> {
        self.recent.iter().cloned().collect()
    }

    fn look_at(&mut self, line: &str) {
        if self.recent.len() == BEFORE {
            self.recent.pop_front();
        }
        self.recent.push_back(line.to_string());
        match &mut self.found {
            Some((_, lines)) if lines.len() < BEFORE + AFTER => lines.push(line.to_string()),
            Some(_) => {}
            None => {
                let marker = MARKERS.iter().find(|(marker, _)| line.contains(marker));
                self.found = marker.map(|(_, what)| (*what, self.recent.iter().cloned().collect()));
            }
        }
    }
}

fn clean(line: &str) -> String {
    line.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_shown_with_the_lines_around_it() {
        let mut watcher = Watcher::default();
        watcher.feed("[ 1.0] all is well\r\n[ 1.1] Kernel pa");
        assert!(!watcher.has_found());
        watcher.feed("nic - not syncing: sysrq\n[ 1.2] Call Trace:\n");
        let trouble = watcher.trouble("guest 1").unwrap();
        assert_eq!(trouble.what, "a kernel panic");
        assert_eq!(trouble.lines.len(), 3);
        assert_eq!(trouble.lines[0], "[ 1.0] all is well");
    }

    #[test]
    fn an_ordinary_boot_finds_nothing() {
        let mut watcher = Watcher::default();
        watcher.feed("[ 0.1] Unknown kernel command line parameters \"no-paratick\"\n");
        watcher.end();
        assert_eq!(watcher.trouble("host"), None);
    }

    #[test]
    fn an_unfinished_last_line_counts() {
        let mut watcher = Watcher::default();
        watcher.feed("watchdog: BUG: soft lockup");
        watcher.end();
        assert_eq!(watcher.trouble("host").unwrap().what, "a soft lockup");
    }
}
