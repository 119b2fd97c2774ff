// SPDX-License-Identifier: GPL-2.0-only
//! Whether the rule that was in force, replayed, says what was traced: every limit, and every
//! change of it.

use super::{
    policy::{Met, Policy},
    recording::{Halt, Traced, VcpuHalts},
    rule::{Floor, GuestRule, HostRule, Rule},
};
use serde::Serialize;

/// How far a recording and its rule agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Halts before which the rule's state was known, and after which everything was compared.
    pub compared: u64,
    pub changes: u64,
    /// Halts at the beginning that could not be compared: nothing had told the limit yet.
    pub unknown: u64,
    /// The first difference; nothing is compared after it.
    pub difference: Option<Difference>,
}

/// Where the rule and the recording part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("halt {index}, of {ns} ns: replayed {replayed}, recorded {recorded}")]
pub struct Difference {
    pub index: usize,
    pub ns: u64,
    pub replayed: Known,
    pub recorded: Known,
}

/// The limit at the beginning of a halt and what was traced at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    pub limit_ns: Option<u32>,
    pub traced: Option<Traced>,
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.limit_ns {
            Some(limit) => write!(f, "limit {limit}, ")?,
            None => f.write_str("limit unknown, ")?,
        }
        match self.traced {
            Some(Traced { old, new }) => write!(f, "then {old} -> {new}"),
            None => f.write_str("then no change"),
        }
    }
}

/// Why nothing can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotVerified {
    #[error(
        "cannot replay halts by a rule that is not known\n\
         hint: record where the parameters can be read"
    )]
    NoRule,
    #[error(
        "cannot replay exactly: {0} records were lost\n\
         hint: record for a shorter time, or fewer vCPUs"
    )]
    Lost(u64),
    #[error(
        "cannot replay a learned window from its middle\n\
         hint: record from the start of the VM"
    )]
    NoStart,
}

/// Replays the rule that was in force.  Where the limit at the beginning is not known, the rule is
/// followed from every limit that it can have; those that say something else than the recording
/// drop out until one is left, or the limit is told.
pub fn verify(vcpu: &VcpuHalts) -> Result<Verified, NotVerified> {
    let rule = vcpu.in_force().ok_or(NotVerified::NoRule)?;
    if vcpu.lost > 0 {
        return Err(NotVerified::Lost(vcpu.lost));
    }
    let mut possible = match (vcpu.from_start, rule) {
        (true, _) | (false, Rule::Fixed(_)) => vec![Policy::new(rule)],
        (false, Rule::Learned(_)) => return Err(NotVerified::NoStart),
        (false, _) => reachable(rule),
    };
    let mut verified = Verified::default();
    for (index, halt) in vcpu.halts.iter().enumerate() {
        let told = halt.limit_ns.or(halt.traced.map(|traced| traced.old));
        if let (true, Some(limit)) = (possible.len() != 1, told) {
            possible = Policy::at(rule, limit).into_iter().collect();
        }
        let recorded = Known { limit_ns: halt.limit_ns, traced: halt.traced };
        let known = possible.len() == 1;
        let before = possible.first().copied();
        possible.retain_mut(|policy| agrees(&follow(policy, halt), &recorded, rule));
        if !known {
            verified.unknown += 1;
            dedup(&mut possible);
            continue;
        }
        verified.compared += 1;
        verified.changes += u64::from(halt.traced.is_some());
        if let (true, Some(mut policy)) = (possible.is_empty(), before) {
            let replayed = follow(&mut policy, halt);
            verified.difference = Some(Difference { index, ns: halt.ns, replayed, recorded });
            break;
        }
    }
    Ok(verified)
}

fn follow(policy: &mut Policy, halt: &Halt) -> Known {
    let limit_ns = Some(policy.limit(halt));
    let traced = policy.learn(&Met {
        ns: halt.ns,
        blocked_ns: halt.blocked_ns(),
        waited: halt.waited,
        valid: halt.valid,
        allowed: halt.allowed,
        deadline_ns: halt.deadline_ns,
    });
    Known { limit_ns, traced }
}

fn agrees(replayed: &Known, recorded: &Known, rule: Rule) -> bool {
    // No tracepoint of stock kernels tells of the learned window.
    let untold = matches!(rule, Rule::Learned(_)) && recorded.traced.is_none();
    (recorded.limit_ns.is_none() || recorded.limit_ns == replayed.limit_ns)
        && (untold || recorded.traced == replayed.traced)
}

fn dedup(policies: &mut Vec<Policy>) {
    let mut kept: Vec<Policy> = Vec::new();
    policies.retain(|policy| {
        let new = !kept.contains(policy);
        if new {
            kept.push(*policy);
        }
        new
    });
}

/// Beyond what any ladder has that is meant.
const MOST: usize = 1000;

/// A ladder at each limit that it comes to from 0.
fn reachable(rule: Rule) -> Vec<Policy> {
    let max = match rule {
        Rule::Host(rule) => rule.max,
        Rule::Guest(rule) => rule.max,
        Rule::Learned(_) | Rule::Fixed(_) => 0,
    };
    let mut found = vec![Policy::new(rule)];
    let mut next = 0;
    while next < found.len() && found.len() < MOST {
        let at = found[next];
        next += 1;
        for (beyond, valid) in [(false, true), (true, true), (false, false)] {
            let mut policy = at;
            let halt = Halt::blocked(0, 0);
            let limit = policy.limit(&halt);
            let ns = u64::from(if beyond { max } else { limit }) + 1;
            let (waited, allowed, deadline_ns) = (true, true, None);
            let met = Met { ns, blocked_ns: ns, waited, valid, allowed, deadline_ns };
            policy.learn(&met);
            policy.limit(&halt);
            if !found.contains(&policy) {
                found.push(policy);
            }
        }
    }
    found
}

/// Fills in the limits that the traces tell: a limit changes where that is traced and nowhere else.
/// Only for the ladders; the rules play no part in it.
pub fn fill_limits(vcpu: &mut VcpuHalts) {
    let (least, max) = match vcpu.in_force() {
        Some(Rule::Host(HostRule { floor: Floor::At(least), max, .. })) => (least.min(max), max),
        Some(Rule::Host(HostRule { max, .. }) | Rule::Guest(GuestRule { max, .. })) => (0, max),
        _ => return,
    };
    let first = vcpu.halts.iter().find_map(|halt| Some(halt.traced?.old));
    // Nothing is ever polled for where the most is 0.
    let mut limit = if vcpu.from_start || max == 0 { Some(0) } else { first };
    for halt in &mut vcpu.halts {
        limit = limit.map(|limit: u32| limit.clamp(least, max));
        halt.limit_ns = halt.limit_ns.or(limit);
        limit = halt.traced.map(|traced| traced.new).or(halt.limit_ns);
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
