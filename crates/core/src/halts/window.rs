// SPDX-License-Identifier: GPL-2.0-only
//! The learned window: include/linux/poll_window.h of the series halt-polling, bit by bit.  A test
//! holds both together.

const CLASSES: usize = 14;
/// What blocking costs in the units of classes.
const COST: u32 = 32;
const MAX_COST: u32 = 1 << 24;
const HALTS: u8 = 128;
const PERIOD: u8 = 8;

/// The halts that followed a short one, or a long one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub ns: u32,
    pub halts: u8,
    pub fresh: u8,
    pub count: [u8; CLASSES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    pub past: [Past; 2],
    pub after: u8,
}

fn edge(class: usize) -> u32 {
    (if class & 1 == 1 { 3 } else { 2 }) << (class / 2)
}

fn class(ns: u64, cost: u32) -> usize {
    if ns >= 4 * u64::from(cost) {
        return CLASSES - 1;
    }
    let units = ns as u32 * COST / cost;
    if units < 2 {
        return 0;
    }
    let octave = units.ilog2();
    (2 * octave - 1 + (units >> (octave - 1) & 1)) as usize
}

impl Past {
    fn best(&self, max: u32, cost: u32) -> u32 {
        let (mut before, mut best, mut polled) = (0, 0, 0);
        let mut longer = u32::from(self.halts);
        let mut least = 2 * longer * COST;
        for class in 0..CLASSES - 1 {
            let edge = edge(class);
            let ns = edge * cost / COST;
            if ns > max {
                break;
            }
            polled += u32::from(self.count[class]) * (before + edge);
            longer -= u32::from(self.count[class]);
            let total = polled + 2 * longer * (edge + COST);
            if total < least || (total == least && edge <= COST) {
                (least, best) = (total, ns);
            }
            before = edge;
        }
        best
    }

    fn fade(&mut self) {
        self.count = self.count.map(|count| count >> 1);
        self.halts = self.count.iter().sum();
    }
}

/// A timer ends the halt at `deadline`, and that is cheaper than to block: there is nothing to
/// guess, and nothing to note afterwards.
pub fn known(deadline: u64, max: u32, cost: u32) -> bool {
    deadline <= u64::from(max.min(cost).min(MAX_COST))
}

impl Window {
    /// Returns whether the window was chosen anew.
    pub fn note(&mut self, ns: u64, max: u32, cost: u32) -> bool {
        let cost = cost.min(MAX_COST);
        let past = &mut self.past[usize::from(self.after)];
        let wrong = match past.ns {
            0 => ns <= u64::from(max.min(cost)),
            limit => ns > u64::from(limit),
        };
        self.after = u8::from(ns > u64::from(cost));
        if past.halts >= HALTS {
            past.fade();
        }
        past.count[class(ns, cost)] += 1;
        past.halts += 1;
        past.fresh += 1;
        if past.fresh < PERIOD && !wrong {
            return false;
        }
        past.fresh = 0;
        past.ns = past.best(max, cost);
        true
    }

    /// How long to poll, if a timer ends the halt at `deadline`; `u64::MAX` for none.
    pub fn limit(&self, deadline: u64, max: u32, cost: u32) -> u32 {
        if known(deadline, max, cost) {
            return deadline as u32;
        }
        self.past[usize::from(self.after)].ns.min(max)
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
