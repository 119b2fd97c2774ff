// SPDX-License-Identifier: GPL-2.0-only
//! Tick modes and idle modes of a guest, and the kernel parameters that select them.

use crate::halts::GuestRule;
use std::{fmt, str::FromStr};

/// How a guest's kernel keeps its scheduler tick; [`TICK_MODES`] says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickMode {
    Periodic,
    Tickless,
    TicklessStop,
    ParatickPaper,
    ParatickTicks,
    Paratick,
    ParatickCoalesce,
}

/// Whether a guest polls for work before it halts (cpuidle-haltpoll), and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Polling {
    Off,
    /// For how long, grows and shrinks by the governor's rule.
    Stock,
    /// For how long, is learned.
    Learned,
    /// By the governor's rule with these parameters.
    By(GuestRule),
}

/// A tick mode, with or without guest halt polling; written `tickless+poll`, and without the
/// suffix where the polling is what [`TickModeRow::poll`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    pub tick: TickMode,
    pub poll: Polling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollingRow {
    pub polling: Polling,
    /// What follows the tick mode's name.
    pub suffix: &'static str,
    pub about: &'static str,
}

pub const POLLINGS: [PollingRow; 5] = [
    PollingRow { polling: Polling::Off, suffix: "+nopoll", about: "the guest halts at once" },
    PollingRow {
        polling: Polling::Stock,
        suffix: "+poll",
        about: "the guest polls for work before it halts",
    },
    PollingRow {
        polling: Polling::Learned,
        suffix: "+learn",
        about: "the same, for as long as would have cost least of late, or not at all",
    },
    PollingRow {
        polling: Polling::By(GuestRule { max: 50_000, grow_start: 10_000, ..GuestRule::DEFAULT }),
        suffix: "+poll-50k",
        about: "the same as `+poll`, for at most 50 us and from 10 us on",
    },
    PollingRow {
        polling: Polling::By(GuestRule { max: 0, ..GuestRule::DEFAULT }),
        suffix: "+poll-0",
        about: "the driver is there and never polls; its governor stops the tick before each halt",
    },
];

/// The driver polls on hosts that do not ask for it, too.
const FORCED: &str = "cpuidle_haltpoll.force=1";
const LEARN: &str = "haltpoll.guest_halt_poll_learn=1";
/// Guests with virtual ticks learn unasked.
const LEARN_NOT: &str = "haltpoll.guest_halt_poll_learn=0";
/// Undoes what the series changes for all guests; only the lab's patches know it.
pub const RESTART_TWICE: &str = "tick_restart_twice";
/// Begins the suffix of [`Polling::By`] where it has no name; its numbers follow.
const BY: &str = "+poll:";
/// What follows it.
pub const BY_FORM: &str = "+poll:NS:GROW:START:SHRINK:y";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickModeRow {
    pub tick: TickMode,
    pub name: &'static str,
    pub about: &'static str,
    /// What the name stands for where nothing follows it.
    pub poll: Polling,
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
    /// And of saying how late that may be.
    pub halt_window: bool,
}

/// In the order of [`TickMode`].
pub const TICK_MODES: [TickModeRow; 7] = [
    TickModeRow {
        tick: TickMode::Periodic,
        name: "periodic",
        about: "the tick is always on",
        poll: Polling::Off,
        parameters: &["nohz=off", "no-paratick"],
        needs: None,
        virtual_ticks: false,
        halt_until: false,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::Tickless,
        name: "tickless",
        about: "the tick is kept over short idle periods and stopped in long ones, as today's \
                kernels do",
        poll: Polling::Off,
        parameters: &["no-paratick", RESTART_TWICE],
        needs: None,
        virtual_ticks: false,
        halt_until: false,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::TicklessStop,
        name: "tickless-stop",
        about: "the tick is stopped at every idle entry and restarted after it, as kernels did \
                until early 2026; the papers call this tickless",
        poll: Polling::Off,
        parameters: &["no-paratick", RESTART_TWICE, "tickless_stop"],
        needs: Some("lab"),
        virtual_ticks: false,
        halt_until: false,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::ParatickPaper,
        name: "paratick-paper",
        about: "the paper's own algorithm: the host injects a tick on any VM entry once a period \
                has passed since the last, and takes a pending timer interrupt for one",
        poll: Polling::Off,
        parameters: &["no-halt-until", "paper-ticks"],
        needs: Some("lab"),
        virtual_ticks: true,
        halt_until: false,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::ParatickTicks,
        name: "paratick-ticks",
        about: "the host delivers its own tick to the guest on the VM entry that follows, and \
                nothing else is changed: the paper's idea, by a rule of ours",
        poll: Polling::Off,
        parameters: &["no-halt-until"],
        needs: Some("virtual-ticks"),
        virtual_ticks: true,
        halt_until: false,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::Paratick,
        name: "paratick",
        about: "the same, a vCPU that halts hands the deadline of its next timer over with the \
                halt, and before it polls for as long as would have cost least of late, or not \
                at all",
        poll: Polling::Learned,
        parameters: &[],
        needs: Some("halt-until"),
        virtual_ticks: true,
        halt_until: true,
        halt_window: false,
    },
    TickModeRow {
        tick: TickMode::ParatickCoalesce,
        name: "paratick+coalesce",
        about: "the same, and with the deadline it says how late that may be, so that one wake-up \
                of a pCPU serves several vCPUs",
        poll: Polling::Learned,
        parameters: &["halt-window"],
        needs: Some("coalesce"),
        virtual_ticks: true,
        halt_until: true,
        halt_window: true,
    },
];

impl TickMode {
    pub const ALL: [TickMode; 7] = [
        Self::Periodic,
        Self::Tickless,
        Self::TicklessStop,
        Self::ParatickPaper,
        Self::ParatickTicks,
        Self::Paratick,
        Self::ParatickCoalesce,
    ];
    /// Those in which no timer is later than without the series, and no tick is lost.
    pub const ON_TIME: [TickMode; 5] =
        [Self::Periodic, Self::Tickless, Self::TicklessStop, Self::ParatickTicks, Self::Paratick];

    pub fn row(self) -> &'static TickModeRow {
        &TICK_MODES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// With nothing that would follow its name.
    pub const fn plain(self) -> Mode {
        Mode { tick: self, poll: TICK_MODES[self as usize].poll }
    }
}

impl Polling {
    pub fn named(self) -> Option<&'static PollingRow> {
        POLLINGS.iter().find(|row| row.polling == self)
    }

    /// The guest's kernel parameters that select it, with virtual ticks or without.
    pub fn parameters(self, virtual_ticks: bool) -> Vec<String> {
        match self {
            Polling::Off if virtual_ticks => vec![LEARN_NOT.into()],
            Polling::Learned if virtual_ticks => Vec::new(),
            Polling::Off => Vec::new(),
            Polling::Stock => vec![FORCED.into()],
            Polling::Learned => vec![FORCED.into(), LEARN.into()],
            Polling::By(rule) => {
                let values = rule.parameters().into_iter();
                let values = values.map(|(name, value)| format!("haltpoll.{name}={value}"));
                [FORCED.into()].into_iter().chain(values).collect()
            }
        }
    }

    fn of_suffix(suffix: &str) -> Option<Polling> {
        let named = POLLINGS.iter().find(|row| row.suffix == suffix).map(|row| row.polling);
        named.or_else(|| rule(suffix.strip_prefix(BY)?).map(Polling::By))
    }
}

/// `50000:2:10000:2:y`: the limit, what it grows by, grows from and shrinks by, and whether it may
/// shrink at all.
fn rule(text: &str) -> Option<GuestRule> {
    let (numbers, shrinks) = text.rsplit_once(':')?;
    let allow_shrink = match shrinks {
        "y" => true,
        "n" => false,
        _ => return None,
    };
    // A rule's own text has commas, which part one mode from the next.
    if numbers.split(':').count() != 4 || numbers.contains(',') {
        return None;
    }
    let rule: GuestRule = numbers.replace(':', ",").parse().ok()?;
    Some(GuestRule { allow_shrink, ..rule })
}

impl fmt::Display for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.named(), self) {
            (Some(row), _) => f.write_str(row.suffix),
            (None, Polling::By(rule)) => {
                let GuestRule { max, grow, grow_start, shrink, allow_shrink } = rule;
                let shrinks = if *allow_shrink { 'y' } else { 'n' };
                write!(f, "{BY}{max}:{grow}:{grow_start}:{shrink}:{shrinks}")
            }
            (None, _) => Err(fmt::Error),
        }
    }
}

impl Mode {
    /// Does the guest poll for work before it halts, or at least have the driver that could?
    pub fn polls(self) -> bool {
        self.poll != Polling::Off
    }

    /// The guest kernel parameters that select this mode.
    pub fn kernel_parameters(self) -> Vec<String> {
        let tick = self.tick.row();
        let own = tick.parameters.iter().map(|parameter| parameter.to_string());
        own.chain(self.poll.parameters(tick.virtual_ticks)).collect()
    }

    /// Whether a kernel that has the series has to have the lab's patches, too.
    pub fn undoes_series(self) -> bool {
        self.tick.row().parameters.contains(&RESTART_TWICE)
    }

    pub fn needs(self) -> Option<&'static str> {
        // It lies on top of those that tick modes need.
        let learns = (self.poll == Polling::Learned).then_some("halt-polling");
        let needs = self.tick.row().needs;
        needs.filter(|_| self.tick == TickMode::ParatickCoalesce).or(learns).or(needs)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tick.name())?;
        match self.poll == self.tick.row().poll {
            true => Ok(()),
            false => write!(f, "{}", self.poll),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "no tick mode '{0}'\nhint: the modes are {names}, each also with {suffixes} or {BY_FORM} (n: \
     it never shrinks)",
    names = names(),
    suffixes = suffixes()
)]
pub struct UnknownMode(pub String);

fn names() -> String {
    TICK_MODES.map(|row| row.name).join(", ")
}

fn suffixes() -> String {
    POLLINGS.map(|row| row.suffix).join(", ")
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The name of one tick mode may begin another's.
        let of = |tick: TickMode| match text.strip_prefix(tick.name())? {
            "" => Some(tick.plain()),
            suffix => Some(Mode { tick, poll: Polling::of_suffix(suffix)? }),
        };
        let mode = TickMode::ALL.into_iter().find_map(of);
        mode.ok_or_else(|| UnknownMode(text.to_string()))
    }
}

crate::serde_as_text!(Mode);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn modes() -> impl Strategy<Value = Mode> {
        let numbers = (0..1_000_000_000u32, 0..4u32, 0..1_000_000_000u32, any::<u32>());
        let rules =
            (numbers, any::<bool>()).prop_map(|((max, grow, grow_start, shrink), allow_shrink)| {
                Polling::By(GuestRule { max, grow, grow_start, shrink, allow_shrink })
            });
        let named = prop::sample::select(POLLINGS.map(|row| row.polling).to_vec());
        let tick = prop::sample::select(TickMode::ALL.to_vec());
        (tick, prop_oneof![named, rules]).prop_map(|(tick, poll)| Mode { tick, poll })
    }

    proptest! {
        #[test]
        fn every_mode_reads_back_as_it_is_written(mode in modes()) {
            prop_assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn every_mode_has_its_own_row() {
        assert!(TickMode::ALL.iter().all(|tick| tick.row().tick == *tick));
        assert!(POLLINGS.iter().all(|row| row.polling.named() == Some(row)));
    }

    #[test]
    fn a_name_stands_for_its_parameters() {
        let parameters = |mode: &str| mode.parse::<Mode>().unwrap().kernel_parameters().join(" ");
        assert_eq!(parameters("paratick"), "");
        assert_eq!(parameters("paratick+learn"), "");
        assert_eq!(parameters("paratick+nopoll"), LEARN_NOT);
        assert_eq!(parameters("paratick-ticks"), format!("no-halt-until {LEARN_NOT}"));
        assert_eq!(parameters("tickless+nopoll"), parameters("tickless"));
        assert_eq!(parameters("paratick+coalesce"), "halt-window");
        assert_eq!(parameters("paratick-paper"), format!("no-halt-until paper-ticks {LEARN_NOT}"));
        assert_eq!(parameters("paratick+poll"), FORCED);
        assert_eq!(parameters("tickless+poll-50k"), parameters("tickless+poll:50000:2:10000:2:y"));
        let never = "cpuidle_haltpoll.force=1 haltpoll.guest_halt_poll_ns=0 \
            haltpoll.guest_halt_poll_grow=2 haltpoll.guest_halt_poll_grow_start=50000 \
            haltpoll.guest_halt_poll_shrink=2 haltpoll.guest_halt_poll_allow_shrink=Y";
        assert_eq!(parameters("paratick+poll-0"), never);
    }

    #[test]
    fn a_suffix_that_says_nothing_is_left_out() {
        let written = |mode: &str| mode.parse::<Mode>().unwrap().to_string();
        assert_eq!(written("paratick+learn"), "paratick");
        assert_eq!(written("tickless+nopoll"), "tickless");
        for mode in ["paratick", "paratick+nopoll", "paratick-ticks+learn", "tickless+learn"] {
            assert_eq!(written(mode), mode);
        }
    }

    #[test]
    fn an_unknown_mode_is_named_in_its_error() {
        assert_eq!("fast".parse::<Mode>(), Err(UnknownMode("fast".into())));
        for bad in [
            "+poll",
            "tickless+",
            "tickless+poll:",
            "tickless+poll:default:y",
            "tickless+poll:50000:2:10000:2",
            "tickless+poll:50000:2:10000:2:keep",
            "tickless+poll:50000:2:10000:2:keep:y",
            "tickless+poll:50000,2,10000,2:y",
            "tickless+poll:9999999999:2:10000:2:y",
        ] {
            let error = bad.parse::<Mode>().unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("hint: "), "{error}");
        }
    }
}
