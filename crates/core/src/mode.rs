// SPDX-License-Identifier: GPL-2.0-only
//! Tick modes and idle modes of a guest, and the kernel parameters that select them.

use std::{fmt, str::FromStr};

/// How a guest's kernel keeps its scheduler tick; [`TICK_MODES`] says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickMode {
    Periodic,
    Tickless,
    TicklessStop,
    ParatickTicks,
    Paratick,
}

/// Whether a guest polls for work before it halts (cpuidle-haltpoll); [`POLLINGS`] says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Polling {
    Off,
    /// For how long, grows and shrinks by the governor's rule.
    Stock,
    /// For how long, is learned.
    Learned,
}

/// A tick mode, with or without guest halt polling; written `paratick+poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    pub tick: TickMode,
    pub poll: Polling,
}

/// One row of the table of ways to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollingRow {
    pub polling: Polling,
    /// What follows the tick mode's name.
    pub suffix: &'static str,
    pub about: &'static str,
    pub parameters: &'static [&'static str],
    /// As [`TickModeRow::needs`].
    pub needs: Option<&'static str>,
}

/// In the order of [`Polling`].
pub const POLLINGS: [PollingRow; 3] = [
    PollingRow {
        polling: Polling::Off,
        suffix: "",
        about: "the guest halts at once",
        parameters: &[],
        needs: None,
    },
    PollingRow {
        polling: Polling::Stock,
        suffix: "+poll",
        about: "the guest polls for work before it halts",
        parameters: &["cpuidle_haltpoll.force=1"],
        needs: None,
    },
    PollingRow {
        polling: Polling::Learned,
        suffix: "+learn",
        about: "the same, for as long as would have cost least of late, or not at all",
        parameters: &["cpuidle_haltpoll.force=1", "haltpoll.guest_halt_poll_learn=1"],
        needs: Some("halt-polling"),
    },
];

/// One row of the table of tick modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickModeRow {
    pub tick: TickMode,
    pub name: &'static str,
    pub about: &'static str,
    /// The guest's kernel parameters that select it.
    ///
    /// The lab's kernels restart the tick as the base kernel does, with two writes to the clock
    /// event device, when told so: the first series changes that for every guest, and a baseline
    /// must not profit from it.
    pub parameters: &'static [&'static str],
    /// The series of patches that the guest's kernel must have; without it the guest would
    /// silently be in another mode.
    pub needs: Option<&'static str>,
    /// Proof that it is in effect: every vCPU has virtual ticks, or none has.
    pub virtual_ticks: bool,
    /// The same of handing its deadline over with the halt.
    pub halt_until: bool,
}

/// In the order of [`TickMode`].
pub const TICK_MODES: [TickModeRow; 5] = [
    TickModeRow {
        tick: TickMode::Periodic,
        name: "periodic",
        about: "the tick is always on",
        parameters: &["nohz=off", "no-paratick"],
        needs: None,
        virtual_ticks: false,
        halt_until: false,
    },
    TickModeRow {
        tick: TickMode::Tickless,
        name: "tickless",
        about: "the tick is kept over short idle periods and stopped in long ones, as today's \
                kernels do",
        parameters: &["no-paratick", "tick_restart_twice"],
        needs: None,
        virtual_ticks: false,
        halt_until: false,
    },
    TickModeRow {
        tick: TickMode::TicklessStop,
        name: "tickless-stop",
        about: "the tick is stopped at every idle entry and restarted after it, as kernels did \
                until early 2026; the papers call this tickless",
        parameters: &["no-paratick", "tick_restart_twice", "tickless_stop"],
        needs: Some("lab"),
        virtual_ticks: false,
        halt_until: false,
    },
    TickModeRow {
        tick: TickMode::ParatickTicks,
        name: "paratick-ticks",
        about: "the host delivers the tick on VM entries that it makes anyway, and nothing else \
                is changed: the paper's paratick",
        parameters: &["no-halt-until"],
        needs: Some("virtual-ticks"),
        virtual_ticks: true,
        halt_until: false,
    },
    TickModeRow {
        tick: TickMode::Paratick,
        name: "paratick",
        about: "the same, and a vCPU that halts hands the deadline of its next timer over with \
                the halt",
        parameters: &[],
        needs: Some("halt-until"),
        virtual_ticks: true,
        halt_until: true,
    },
];

impl TickMode {
    pub const ALL: [TickMode; 5] = [
        TickMode::Periodic,
        TickMode::Tickless,
        TickMode::TicklessStop,
        TickMode::ParatickTicks,
        TickMode::Paratick,
    ];

    pub fn row(self) -> &'static TickModeRow {
        &TICK_MODES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }
}

impl Polling {
    pub const ALL: [Polling; 3] = [Polling::Off, Polling::Stock, Polling::Learned];

    pub fn row(self) -> &'static PollingRow {
        &POLLINGS[self as usize]
    }
}

impl Mode {
    /// Does the guest poll for work before it halts?
    pub fn polls(self) -> bool {
        self.poll != Polling::Off
    }

    /// The guest kernel parameters that select this mode.
    pub fn kernel_parameters(self) -> Vec<&'static str> {
        [self.tick.row().parameters, self.poll.row().parameters].concat()
    }

    /// The series of patches that the guest's kernel must have.
    pub fn needs(self) -> Option<&'static str> {
        // It lies on top of those that tick modes need.
        self.poll.row().needs.or(self.tick.row().needs)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.tick.name(), self.poll.row().suffix)
    }
}

/// A mode that does not exist.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no tick mode '{0}'\nhint: the modes are {names}, each also with +poll or +learn",
    names = names())]
pub struct UnknownMode(pub String);

fn names() -> String {
    TICK_MODES.map(|row| row.name).join(", ")
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let suffixed = [Polling::Stock, Polling::Learned]
            .into_iter()
            .find_map(|poll| text.strip_suffix(poll.row().suffix).map(|name| (name, poll)));
        let (name, poll) = suffixed.unwrap_or((text, Polling::Off));
        TickMode::ALL
            .into_iter()
            .find(|tick| tick.name() == name)
            .map(|tick| Mode { tick, poll })
            .ok_or_else(|| UnknownMode(text.to_string()))
    }
}

crate::serde_as_text!(Mode);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_as_it_is_written() {
        for tick in TickMode::ALL {
            for poll in Polling::ALL {
                let mode = Mode { tick, poll };
                assert_eq!(mode.to_string().parse(), Ok(mode));
            }
        }
    }

    #[test]
    fn every_mode_has_its_own_row() {
        assert!(TickMode::ALL.iter().all(|tick| tick.row().tick == *tick));
        assert!(Polling::ALL.iter().all(|polling| polling.row().polling == *polling));
    }

    #[test]
    fn an_unknown_mode_is_named_in_its_error() {
        assert_eq!("fast".parse::<Mode>(), Err(UnknownMode("fast".into())));
        assert!("+poll".parse::<Mode>().is_err());
    }
}
