// SPDX-License-Identifier: GPL-2.0-only
//! For how long a VM is polled for at most: as long as the module `kvm` says, or as long as the
//! VM's own `KVM_CAP_HALT_POLL` does.

use super::rule::{HostRule, LearnedRule, Rule};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maximum {
    /// It could not be read, and what was traced does not tell.
    #[default]
    Unknown,
    /// The module's `halt_poll_ns`; read from the kernel.
    Module,
    /// The VM's own; read from the kernel.
    Own(u32),
    /// The VM's own, because what was traced cannot be with the module's; within these limits.
    Traced { least: u32, most: Option<u32> },
}

impl Maximum {
    /// The VM has a maximum of its own: the module's has no effect on it.
    pub fn is_own(self) -> bool {
        matches!(self, Maximum::Own(_) | Maximum::Traced { .. })
    }

    /// Not: the VM has one of its own, and it is not known how much that is.
    pub fn is_exact(self) -> bool {
        !matches!(self, Maximum::Traced { least, most } if most != Some(least))
    }

    /// What a rule of the module's is for this VM; none where its own maximum is not known.
    pub fn of(self, rule: Rule) -> Option<Rule> {
        let max = match self {
            Maximum::Unknown | Maximum::Module => return Some(rule),
            Maximum::Own(max) => max,
            Maximum::Traced { least, most: Some(most) } if least == most => least,
            Maximum::Traced { .. } => return None,
        };
        Some(match rule {
            Rule::Host(rule) => Rule::Host(HostRule { max, ..rule }),
            Rule::Learned(rule) => Rule::Learned(LearnedRule { max, ..rule }),
            // KVM's maximum is none of theirs.
            Rule::Guest(_) | Rule::Fixed(_) => rule,
        })
    }
}

impl fmt::Display for Maximum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: u32| Nanos(ns.into());
        match *self {
            Maximum::Unknown => f.write_str("not known"),
            Maximum::Module => f.write_str("the module's"),
            Maximum::Own(ns) => write!(f, "its own, {}", time(ns)),
            Maximum::Traced { least, most: Some(most) } if least == most => {
                write!(f, "its own, {}", time(least))
            }
            Maximum::Traced { least: 0, most: Some(most) } => {
                write!(f, "its own, at most {}", time(most))
            }
            Maximum::Traced { least, most: Some(most) } => {
                write!(f, "its own, {} to {}", time(least), time(most))
            }
            Maximum::Traced { least, most: None } => {
                write!(f, "its own, at least {}", time(least))
            }
        }
    }
}
