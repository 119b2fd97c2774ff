// SPDX-License-Identifier: GPL-2.0-only
//! Who balances load for CPUs of a guest that are idle with their ticks stopped.

use std::{fmt, str::FromStr};

/// A policy of the lab's kernel (kernel/series/lab).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Balancing {
    None,
    Backoff,
    Watchdog,
    Owner,
    Push,
    Tick,
}

impl Balancing {
    pub const ALL: [Balancing; 6] = {
        use Balancing::*;
        [None, Backoff, Watchdog, Owner, Push, Tick]
    };

    /// The file that says which is in effect.
    pub const PROOF: &'static str = "/sys/module/lab_ilb/parameters/policy";

    pub fn name(self) -> &'static str {
        match self {
            Balancing::None => "none",
            Balancing::Backoff => "backoff",
            Balancing::Watchdog => "watchdog",
            Balancing::Owner => "owner",
            Balancing::Push => "push",
            Balancing::Tick => "tick",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Balancing::None => "nobody, as in the first tickless kernels",
            Balancing::Backoff => "each for itself, by a timer with intervals from 40 to 320 ms",
            Balancing::Watchdog => {
                "a CPU that is due to balance while busy kicks an idle one, which balances for \
                 itself"
            }
            Balancing::Owner => {
                "one idle CPU keeps its tick, and balances for all until none works"
            }
            Balancing::Push => "a busy CPU kicks an idle one, which balances for all, as today",
            Balancing::Tick => "a busy CPU in its virtual tick, with the series idle-balance",
        }
    }

    /// What the lab's kernel calls it.
    pub fn policy(self) -> &'static str {
        match self {
            // The series does what else would be a kick.
            Balancing::Tick => Balancing::Push.name(),
            other => other.name(),
        }
    }

    /// The guest's kernel parameter.
    pub fn parameter(self) -> String {
        format!("lab_ilb.policy={}", self.policy())
    }
}

impl fmt::Display for Balancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Balancing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Balancing::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let names = Balancing::ALL.map(Balancing::name).join(", ");
            format!("nobody balances load by '{text}'\nhint: the policies are {names}")
        })
    }
}

crate::serde_as_text!(Balancing);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for one in Balancing::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("pull".parse::<Balancing>().unwrap_err().contains("hint: "));
    }
}
