// SPDX-License-Identifier: GPL-2.0-only
//! By which rule it is decided for how long to poll, with its parameters.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What becomes of a limit that the host's rule shrank below `grow_start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// It stays, as before ae232ea46088 (5.15).
    None,
    /// It becomes 0, as in 6.12.
    #[default]
    ToZero,
    /// A limit is never below this many nanoseconds, from the first halt on, unless `max` is: the
    /// article, read to the letter.
    At(u32),
}

/// The host's rule: module parameters of `kvm`, and `max` of the VM where it has its own
/// (`KVM_CAP_HALT_POLL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostRule {
    /// `halt_poll_ns`.
    pub max: u32,
    pub grow: u32,
    pub grow_start: u32,
    pub shrink: u32,
    #[serde(default)]
    pub floor: Floor,
}

/// The guest's rule: module parameters of `haltpoll`, without their `guest_halt_poll_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GuestRule {
    /// `guest_halt_poll_ns`.
    pub max: u32,
    pub grow: u32,
    pub grow_start: u32,
    pub shrink: u32,
    pub allow_shrink: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LearnedRule {
    pub max: u32,
    /// What it costs to block and to wake up, in nanoseconds.
    pub cost: u32,
}

/// A rule with its parameters: what was in force, or what is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Host(HostRule),
    Guest(GuestRule),
    Learned(LearnedRule),
    /// Always as long; 0 is never.
    Fixed(u32),
}

impl HostRule {
    /// 6.12's, on x86.
    pub const DEFAULT: HostRule =
        HostRule { max: 200_000, grow: 2, grow_start: 10_000, shrink: 2, floor: Floor::ToZero };

    /// By name: `paper` is the article's with what went upstream at its time, `paper-floor` the
    /// article to the letter.
    pub const PRESETS: [(&'static str, HostRule); 5] = [
        ("none", HostRule { max: 0, ..HostRule::DEFAULT }),
        ("2021", HostRule { shrink: 0, ..HostRule::DEFAULT }),
        ("paper", HostRule { max: 160_000, ..HostRule::DEFAULT }),
        ("paper-floor", HostRule { max: 160_000, floor: Floor::At(10_000), ..HostRule::DEFAULT }),
        ("default", HostRule::DEFAULT),
    ];
}

impl LearnedRule {
    /// KVM's parameters in the series halt-polling.
    pub const DEFAULT: LearnedRule = LearnedRule { max: 200_000, cost: 10_000 };
}

impl Rule {
    /// Nothing is ever polled longer for.
    pub fn max(self) -> u32 {
        match self {
            Rule::Host(rule) => rule.max,
            Rule::Guest(rule) => rule.max,
            Rule::Learned(rule) => rule.max,
            Rule::Fixed(ns) => ns,
        }
    }
}

impl GuestRule {
    /// 6.12's.
    pub const DEFAULT: GuestRule =
        GuestRule { max: 200_000, grow: 2, grow_start: 50_000, shrink: 2, allow_shrink: true };

    pub const PRESETS: [(&'static str, GuestRule); 2] = [
        ("default", GuestRule::DEFAULT),
        ("50K_10K", GuestRule { max: 50_000, grow_start: 10_000, ..GuestRule::DEFAULT }),
    ];

    /// The parameters of the module `haltpoll`, as it prints their values.
    pub fn parameters(self) -> [(&'static str, String); 5] {
        [
            ("guest_halt_poll_ns", self.max.to_string()),
            ("guest_halt_poll_grow", self.grow.to_string()),
            ("guest_halt_poll_grow_start", self.grow_start.to_string()),
            ("guest_halt_poll_shrink", self.shrink.to_string()),
            ("guest_halt_poll_allow_shrink", if self.allow_shrink { "Y" } else { "N" }.into()),
        ]
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is no rule of halt polling: {why}\nhint: write {hint}")]
pub struct BadRule {
    text: String,
    why: String,
    hint: &'static str,
}

const HOST_HINT: &str = "none, 2021, paper, paper-floor, default, or NS,grow,start,shrink such as \
                         200000,2,10000,2 (and ,none ,zero or ,NS for the floor)";
const GUEST_HINT: &str = "default, 50K_10K, or NS,grow,start,shrink such as 200000,2,50000,2 (and \
                          ,keep for never to shrink)";
/// Who polls for longer has made a mistake with the unit.
const LONGEST: u32 = 1_000_000_000;

/// `max`, `grow`, `grow_start`, `shrink`, and what follows.
fn numbers(text: &str) -> Result<([u32; 4], Option<&str>), String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let (numbers, rest) = match fields[..] {
        [a, b, c, d] => ([a, b, c, d], None),
        [a, b, c, d, rest] => ([a, b, c, d], Some(rest)),
        [_] => return Err("there is none of that name".into()),
        _ => return Err(format!("it has {} numbers, not 4", fields.len())),
    };
    let mut read = [0; 4];
    for (name, (field, number)) in
        ["NS", "grow", "start", "shrink"].iter().zip(numbers.iter().zip(&mut read))
    {
        *number = field.parse().map_err(|_| format!("{name} is '{field}', not a number"))?;
    }
    let [max, grow, grow_start, _] = read;
    for (name, ns) in [("NS", max), ("start", grow_start)] {
        if ns > LONGEST {
            return Err(format!("{name} is {ns} ns, more than a second"));
        }
    }
    // KVM multiplies in 32 bits.
    if max.checked_mul(grow).is_none() {
        return Err(format!("{max} ns times {grow} does not fit into 32 bits"));
    }
    Ok((read, rest))
}

impl FromStr for HostRule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((_, rule)) = HostRule::PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(*rule);
        }
        let bad = |why| BadRule { text: text.into(), why, hint: HOST_HINT };
        let ([max, grow, grow_start, shrink], floor) = numbers(text).map_err(bad)?;
        let floor = match floor {
            None | Some("zero") => Floor::ToZero,
            Some("none") => Floor::None,
            Some(ns) => match ns.parse() {
                Ok(ns) if ns <= max => Floor::At(ns),
                Ok(ns) => return Err(bad(format!("the floor of {ns} ns is above {max} ns"))),
                Err(_) => return Err(bad(format!("the floor is '{ns}'"))),
            },
        };
        Ok(HostRule { max, grow, grow_start, shrink, floor })
    }
}

impl FromStr for GuestRule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((_, rule)) = GuestRule::PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(*rule);
        }
        let bad = |why| BadRule { text: text.into(), why, hint: GUEST_HINT };
        let ([max, grow, grow_start, shrink], keep) = numbers(text).map_err(bad)?;
        let allow_shrink = match keep {
            None => true,
            Some("keep") => false,
            Some(other) => return Err(bad(format!("'{other}' follows the numbers"))),
        };
        Ok(GuestRule { max, grow, grow_start, shrink, allow_shrink })
    }
}

impl fmt::Display for HostRule {
    /// Its name, or its numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = HostRule::PRESETS.iter().find(|(_, rule)| rule == self) {
            return f.write_str(name);
        }
        write!(f, "{},{},{},{}", self.max, self.grow, self.grow_start, self.shrink)?;
        match self.floor {
            Floor::None => f.write_str(",none"),
            Floor::ToZero => Ok(()),
            Floor::At(ns) => write!(f, ",{ns}"),
        }
    }
}

impl fmt::Display for GuestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = GuestRule::PRESETS.iter().find(|(_, rule)| rule == self) {
            return f.write_str(name);
        }
        write!(f, "{},{},{},{}", self.max, self.grow, self.grow_start, self.shrink)?;
        f.write_str(if self.allow_shrink { "" } else { ",keep" })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Host(rule) => write!(f, "{rule}"),
            Rule::Guest(rule) => write!(f, "guest {rule}"),
            Rule::Learned(LearnedRule::DEFAULT) => f.write_str("learned"),
            Rule::Learned(LearnedRule { max, cost }) => {
                write!(f, "learned, up to {max} ns, cost {cost} ns")
            }
            Rule::Fixed(0) => f.write_str("never"),
            Rule::Fixed(ns) => write!(f, "always {ns} ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_preset_reads_back_as_it_is_written() {
        for (name, rule) in HostRule::PRESETS {
            assert_eq!((name.parse(), rule.to_string().as_str()), (Ok(rule), name));
        }
        for (name, rule) in GuestRule::PRESETS {
            assert_eq!((name.parse(), rule.to_string().as_str()), (Ok(rule), name));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_reason_and_a_hint() {
        for (text, why) in [
            ("fast", "there is none of that name"),
            ("", "there is none of that name"),
            ("200000,2", "it has 2 numbers, not 4"),
            ("200000,2,x,2", "start is 'x', not a number"),
            ("-1,2,10000,2", "NS is '-1', not a number"),
            ("99999999999,2,10000,2", "NS is '99999999999', not a number"),
            ("2000000000,2,10000,2", "NS is 2000000000 ns, more than a second"),
            ("200000,2,1000000001,2", "start is 1000000001 ns, more than a second"),
            ("200000,99999,10000,2", "200000 ns times 99999 does not fit into 32 bits"),
            ("200000,2,10000,2,low", "the floor is 'low'"),
            ("200000,2,10000,2,200001", "the floor of 200001 ns is above 200000 ns"),
        ] {
            let error = text.parse::<HostRule>().unwrap_err().to_string();
            let wanted = format!("'{text}' is no rule of halt polling: {why}\nhint: write none, ");
            assert!(error.starts_with(&wanted), "{error}");
        }
        let error = "200000,2,50000,2,Y".parse::<GuestRule>().unwrap_err().to_string();
        assert!(error.contains("'Y' follows the numbers\nhint: write default, 50K_10K"), "{error}");
    }

    proptest! {
        #[test]
        fn every_rule_reads_back_as_it_is_written(
            max in 0..=LONGEST, grow in 0..4u32, grow_start in 0..=LONGEST, shrink: u32,
            floor in prop_oneof![
                Just(Floor::None), Just(Floor::ToZero), (0..=LONGEST).prop_map(Floor::At)],
            allow_shrink: bool,
        ) {
            let floor = if let Floor::At(ns) = floor { Floor::At(ns.min(max)) } else { floor };
            let host = HostRule { max, grow, grow_start, shrink, floor };
            prop_assert_eq!(host.to_string().parse(), Ok(host));
            let guest = GuestRule { max, grow, grow_start, shrink, allow_shrink };
            prop_assert_eq!(guest.to_string().parse(), Ok(guest));
        }
    }
}
