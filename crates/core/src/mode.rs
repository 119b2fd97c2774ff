// SPDX-License-Identifier: GPL-2.0-only
//! Tick modes and idle modes of a guest, and the kernel parameters that select them.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How a guest's kernel keeps its scheduler tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickMode {
    /// The classic tick at a fixed rate (`nohz=off`).
    Periodic,
    /// What the base kernel does: the tick is kept over short idle periods.
    Tickless,
    /// The tick is stopped at every idle entry: what the papers call tickless.
    TicklessStop,
    /// Virtual scheduler ticks delivered by the host (paper section 4).
    Paratick,
}

/// A tick mode, with or without guest halt polling; written `paratick+poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    pub tick: TickMode,
    /// The guest polls for work before it halts (cpuidle-haltpoll).
    pub poll: bool,
}

impl TickMode {
    pub const ALL: [TickMode; 4] = [
        TickMode::Periodic,
        TickMode::Tickless,
        TickMode::TicklessStop,
        TickMode::Paratick,
    ];

    pub fn name(self) -> &'static str {
        match self {
            TickMode::Periodic => "periodic",
            TickMode::Tickless => "tickless",
            TickMode::TicklessStop => "tickless-stop",
            TickMode::Paratick => "paratick",
        }
    }

    /// How the guest gets its tick; the docs' table of modes is made of it.
    pub fn about(self) -> &'static str {
        match self {
            TickMode::Periodic => "the tick is always on",
            TickMode::Tickless => {
                "the tick is kept over short idle periods and stopped in long ones, as today's \
                 kernels do"
            }
            TickMode::TicklessStop => {
                "the tick is stopped at every idle entry and restarted after it, as kernels did \
                 until early 2026; the papers call this tickless"
            }
            TickMode::Paratick => "the host delivers the tick on VM entries that it makes anyway",
        }
    }

    /// The lab's kernels restart the tick as the base kernel does, with two
    /// writes to the clock event device, when told so: `tick-restart`
    /// changes that for every guest, and a baseline must not profit from it.
    fn kernel_parameters(self) -> &'static [&'static str] {
        match self {
            TickMode::Periodic => &["nohz=off", "no-paratick"],
            TickMode::Tickless => &["no-paratick", "tick_restart_twice"],
            TickMode::TicklessStop => &["no-paratick", "tick_restart_twice", "tickless_stop"],
            TickMode::Paratick => &[],
        }
    }
}

impl Mode {
    /// The guest kernel parameters that select this mode.
    pub fn kernel_parameters(self) -> Vec<&'static str> {
        let mut parameters = self.tick.kernel_parameters().to_vec();
        if self.poll {
            parameters.push("cpuidle_haltpoll.force=1");
        }
        parameters
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tick.name())?;
        if self.poll {
            f.write_str("+poll")?;
        }
        Ok(())
    }
}

/// A mode that does not exist.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no tick mode '{0}'\nhint: the modes are periodic, tickless, tickless-stop and paratick, each also with +poll")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, poll) = match text.strip_suffix("+poll") {
            Some(name) => (name, true),
            None => (text, false),
        };
        TickMode::ALL
            .into_iter()
            .find(|tick| tick.name() == name)
            .map(|tick| Mode { tick, poll })
            .ok_or_else(|| UnknownMode(text.to_string()))
    }
}

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_as_it_is_written() {
        for tick in TickMode::ALL {
            for poll in [false, true] {
                let mode = Mode { tick, poll };
                assert_eq!(mode.to_string().parse(), Ok(mode));
            }
        }
    }

    #[test]
    fn an_unknown_mode_is_named_in_its_error() {
        assert_eq!("fast".parse::<Mode>(), Err(UnknownMode("fast".into())));
        assert!("+poll".parse::<Mode>().is_err());
    }
}
