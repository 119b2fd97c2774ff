// SPDX-License-Identifier: GPL-2.0-only
//! A rule at work on one vCPU: the limit before a halt, and what the halt teaches.

use super::{
    recording::{Halt, Traced},
    rule::{Floor, GuestRule, HostRule, LearnedRule, Rule},
    window::{known, Window},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `kvm_vcpu_halt()`.
    Host(HostRule, u32),
    /// The governor `haltpoll`.
    Guest(GuestRule, u32),
    Learned(LearnedRule, Window),
    Fixed(u32),
}

/// What a rule gets to see of a halt that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    pub ns: u64,
    pub blocked_ns: u64,
    pub waited: bool,
    pub valid: bool,
    pub allowed: bool,
    pub deadline_ns: Option<u64>,
}

impl Policy {
    /// As it is before the first halt.
    pub fn new(rule: Rule) -> Policy {
        match rule {
            Rule::Host(rule) => Policy::Host(rule, 0),
            Rule::Guest(rule) => Policy::Guest(rule, 0),
            Rule::Learned(rule) => Policy::Learned(rule, Window::default()),
            Rule::Fixed(ns) => Policy::Fixed(ns),
        }
    }

    /// With this limit in force; none for the learned window, whose past a limit does not tell.
    pub fn at(rule: Rule, limit: u32) -> Option<Policy> {
        match rule {
            Rule::Host(rule) => Some(Policy::Host(rule, limit)),
            Rule::Guest(rule) => Some(Policy::Guest(rule, limit)),
            Rule::Fixed(_) => Some(Policy::new(rule)),
            Rule::Learned(_) => None,
        }
    }

    /// For how long a halt that begins now is polled for.
    pub fn limit(&mut self, halt: &Halt) -> u32 {
        match self {
            Policy::Host(rule, limit) => {
                if let Floor::At(least) = rule.floor {
                    *limit = (*limit).max(least);
                }
                *limit = (*limit).min(rule.max);
                *limit
            }
            Policy::Guest(_, limit) => *limit,
            Policy::Learned(rule, window) => {
                window.limit(halt.deadline_ns.unwrap_or(u64::MAX), rule.max, rule.cost)
            }
            Policy::Fixed(ns) => *ns,
        }
    }

    /// For how long it is polled for beyond the limit, and even if that is 0: a timer that is worth
    /// waiting for may be late by what it costs to block.
    pub fn patience(&self, halt: &Halt) -> Option<u32> {
        match self {
            Policy::Learned(rule, _) => {
                let reached = reached(rule, halt.deadline_ns)?;
                Some(rule.cost.min(rule.max - reached as u32))
            }
            _ => None,
        }
    }

    /// What the halt changes, as it is traced.
    pub fn learn(&mut self, met: &Met) -> Option<Traced> {
        if !met.allowed {
            return None;
        }
        match self {
            Policy::Host(rule, limit) => host(rule, limit, met),
            Policy::Guest(rule, limit) => {
                // The governor is told of the halting state only.
                met.waited.then(|| guest(rule, limit, met.blocked_ns)).flatten()
            }
            Policy::Learned(rule, window) => {
                // It was known how long that would take: the window is for what is not.
                if reached(rule, met.deadline_ns).is_some() {
                    return None;
                }
                // To poll would have been shorter by what it takes to wake up.
                let ns = met.ns - met.blocked_ns.min(u64::from(rule.cost / 2));
                let now = usize::from(window.after);
                let old = window.past[now].ns;
                let chosen = window.note(ns, rule.max, rule.cost);
                chosen.then(|| Traced { old, new: window.past[now].ns })
            }
            Policy::Fixed(_) => None,
        }
    }
}

/// A deadline that is polled for instead of the window.
fn reached(rule: &LearnedRule, deadline: Option<u64>) -> Option<u64> {
    deadline.filter(|deadline| known(*deadline, rule.max, rule.cost))
}

fn host(rule: &HostRule, limit: &mut u32, met: &Met) -> Option<Traced> {
    let (old, max) = (*limit, u64::from(rule.max));
    let new = if !met.valid {
        host_shrunk(rule, old)
    } else if rule.max == 0 {
        *limit = 0;
        return None;
    } else if met.ns <= u64::from(old) {
        return None;
    } else if old > 0 && met.ns > max {
        host_shrunk(rule, old)
    } else if old < rule.max && met.ns < max {
        match rule.grow {
            0 => old,
            grow => old.wrapping_mul(grow).max(rule.grow_start),
        }
    } else {
        return None;
    };
    *limit = new;
    Some(Traced { old, new })
}

fn host_shrunk(rule: &HostRule, old: u32) -> u32 {
    let new = old.checked_div(rule.shrink).unwrap_or(0);
    match rule.floor {
        Floor::None => new,
        Floor::ToZero if new < rule.grow_start => 0,
        Floor::ToZero => new,
        Floor::At(least) => new.max(least),
    }
}

fn guest(rule: &GuestRule, limit: &mut u32, blocked_ns: u64) -> Option<Traced> {
    let (old, max) = (*limit, u64::from(rule.max));
    let new = if blocked_ns > u64::from(old) && blocked_ns <= max {
        old.wrapping_mul(rule.grow).max(rule.grow_start).min(rule.max)
    } else if blocked_ns > max && rule.allow_shrink {
        match old.checked_div(rule.shrink) {
            Some(new) if new >= rule.grow_start => new,
            _ => 0,
        }
    } else {
        return None;
    };
    *limit = new;
    Some(Traced { old, new })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
