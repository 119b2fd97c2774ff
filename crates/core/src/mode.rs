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

/// A tick mode, with or without guest halt polling; written `paratick+poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    pub tick: TickMode,
    /// The guest polls for work before it halts (cpuidle-haltpoll).
    pub poll: bool,
}

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

impl Mode {
    /// The guest kernel parameters that select this mode.
    pub fn kernel_parameters(self) -> Vec<&'static str> {
        let mut parameters = self.tick.row().parameters.to_vec();
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
#[error("no tick mode '{0}'\nhint: the modes are {names}, each also with +poll", names = names())]
pub struct UnknownMode(pub String);

fn names() -> String {
    TICK_MODES.map(|row| row.name).join(", ")
}

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

crate::serde_as_text!(Mode);

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
    fn every_mode_has_its_own_row() {
        assert!(TickMode::ALL.iter().all(|tick| tick.row().tick == *tick));
    }

    #[test]
    fn an_unknown_mode_is_named_in_its_error() {
        assert_eq!("fast".parse::<Mode>(), Err(UnknownMode("fast".into())));
        assert!("+poll".parse::<Mode>().is_err());
    }
}
