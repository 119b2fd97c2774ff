// SPDX-License-Identifier: GPL-2.0-only
//! Settings of a guest that end wake-ups, and what they would save.

use super::{
    moved::{left_if_moved, Move},
    recording::{Class, GuestWakeups, Timer},
    rounds::{exits, Round, Source},
    woken::SAMPLER,
};
use crate::{
    cause::Cause,
    mode::{Mode, TickMode},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// A setting of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Knob {
    /// Of `sysctl -w`.
    Sysctl {
        key: String,
        value: String,
    },
    /// A parameter of the kernel's command line.
    Boot(String),
    /// A word for `sched/features` of debugfs.
    Sched(String),
    Mode(Mode),
    /// Timers of the wheel with this function become something else.
    Moved {
        how: Move,
        function: String,
    },
}

impl Knob {
    pub fn mode(&self) -> Option<&Mode> {
        match self {
            Knob::Mode(mode) => Some(mode),
            _ => None,
        }
    }

    /// The kernel parameters that make it so; none where there are none.
    pub fn parameters(&self) -> Option<Vec<String>> {
        match self {
            Knob::Sysctl { .. } | Knob::Sched(_) | Knob::Mode(_) => Some(Vec::new()),
            Knob::Boot(parameter) => Some(vec![parameter.clone()]),
            Knob::Moved { how, function } if function == SAMPLER => {
                let name = match how {
                    Move::Defer => "deferrable",
                    Move::Round => "rounded",
                };
                Some(vec![format!("lab_sampler.{name}=Y")])
            }
            Knob::Moved { .. } => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Knob::Sysctl { key, value } => write!(f, "sysctl:{key}={value}"),
            Knob::Boot(parameter) => write!(f, "boot:{parameter}"),
            Knob::Sched(feature) => write!(f, "sched:{feature}"),
            Knob::Mode(mode) => write!(f, "mode:{mode}"),
            Knob::Moved { how: Move::Defer, function } => write!(f, "defer:{function}"),
            Knob::Moved { how: Move::Round, function } => write!(f, "round:{function}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct NoKnob(String);

impl fmt::Display for NoKnob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "no setting {:?}\n\
             hint: give sysctl:KEY=VALUE, boot:PARAMETER, sched:FEATURE, mode:MODE, \
             defer:FUNCTION or round:FUNCTION",
            self.0
        )
    }
}

impl std::error::Error for NoKnob {}

impl FromStr for Knob {
    type Err = NoKnob;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once(':') {
            Some(("sysctl", rest)) => rest.split_once('=').and_then(|(key, value)| {
                let (key, value) = (key.to_string(), value.to_string());
                (is_key(&key) && is_word(&value)).then_some(Knob::Sysctl { key, value })
            }),
            Some(("boot", parameter)) => {
                is_word(parameter).then(|| Knob::Boot(parameter.to_string()))
            }
            Some(("sched", feature)) => {
                is_feature(feature).then(|| Knob::Sched(feature.to_string()))
            }
            Some(("mode", mode)) => mode.parse().ok().map(Knob::Mode),
            Some(("defer", function)) => moved(Move::Defer, function),
            Some(("round", function)) => moved(Move::Round, function),
            _ => None,
        };
        parsed.ok_or_else(|| NoKnob(text.to_string()))
    }
}

crate::serde_as_text!(Knob);

fn moved(how: Move, function: &str) -> Option<Knob> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_function = !function.is_empty() && function.chars().all(is_name);
    is_function.then(|| Knob::Moved { how, function: function.into() })
}

/// As `vm.swappiness`.
fn is_key(key: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    key.contains('.') && key.split('.').all(part)
}

/// As `NO_HRTICK`.
fn is_feature(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic())
}

/// What ends which timers, and what is lost with them.
struct Known {
    knob: &'static str,
    function: Option<&'static str>,
    /// What its name begins with.
    process: Option<&'static str>,
    price: &'static str,
}

const KNOWN: [Known; 5] = [
    Known {
        knob: DAMON_STAT,
        function: None,
        process: Some("kdamond"),
        price: "how warm the memory is, is not told",
    },
    Known {
        knob: "boot:tsc=nowatchdog",
        function: Some("clocksource_watchdog"),
        process: None,
        price: "a TSC that goes wrong is not noticed",
    },
    Known {
        knob: "sysctl:vm.compaction_proactiveness=0",
        function: None,
        process: Some("kcompactd"),
        price: "memory is compacted only when it is needed",
    },
    Known {
        knob: "sysctl:kernel.watchdog=0",
        function: Some("watchdog_timer_fn"),
        process: None,
        price: "lockups are not reported",
    },
    Known {
        knob: "sched:NO_HRTICK",
        function: Some(SLICE),
        process: None,
        price: "slices end at ticks",
    },
];

/// Ends the slice of a task that others wait for; on by default in Linux 7.3.  It does not wake
/// anybody: each time, a busy CPU arms, and has an interrupt.
const SLICE: &str = "hrtick";
const EXITS_OF_SLICE: u64 = 2;

/// Since Linux 6.17, and on by default in some distributions.
const DAMON_STAT: &str = "boot:damon_stat.enabled=N";

impl Known {
    fn ends(&self, timer: &Timer) -> bool {
        let process = timer.process.as_ref().map_or("", |process| &process.name);
        self.function.is_none_or(|function| timer.function == function)
            && self.process.is_none_or(|name| process.starts_with(name))
    }
}

/// A setting that would save exits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    pub knob: Knob,
    /// In the window.
    pub saves_exits: u64,
    pub price: &'static str,
}

/// Whether DAMON_STAT is on, and nothing else of DAMON's: whose `kdamond` it is, none of them says.
fn is_only_damon(guest: &GuestWakeups, rounds: &[Round]) -> bool {
    let timers = rounds.iter().flat_map(|round| &round.timers);
    let names = timers.filter_map(|timer| Some(timer.process.as_ref()?.name.as_str()));
    let kdamonds: BTreeSet<&str> = names.filter(|name| name.starts_with("kdamond")).collect();
    guest.damon_stat && kdamonds.len() == 1
}

/// The settings that are known to end something that was recorded, the best first.
pub fn advice(guest: &GuestWakeups, rounds: &[Round]) -> Vec<Advice> {
    let now = exits(rounds);
    let mode = Knob::Mode(TickMode::Paratick.plain());
    let is_only_damon = is_only_damon(guest, rounds);
    let known = KNOWN.iter().filter(|known| known.knob != DAMON_STAT || is_only_damon);
    let known = known.map(|known| (known.knob.parse().expect("a setting"), known.price));
    let mut advice: Vec<Advice> = known
        .chain([(mode, "guest and host need the series")])
        .filter_map(|(knob, price)| {
            let left = left_by(rounds, std::slice::from_ref(&knob))?;
            Some(Advice { knob, saves_exits: now - left, price })
        })
        .filter(|advice| advice.saves_exits > 0)
        .collect();
    advice.sort_by_key(|advice| std::cmp::Reverse(advice.saves_exits));
    advice
}

/// Exits of the whole guest, in the window, with other settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub knobs: Vec<Knob>,
    pub exits: u64,
    /// None where it is not known what one of the settings ends.
    pub predicted_exits: Option<u64>,
    /// None where it was not tried.
    pub counted_exits: Option<u64>,
}

impl Trial {
    pub fn predict(guest: &GuestWakeups, rounds: &[Round], knobs: &[Knob]) -> Trial {
        let predicted_exits = match knobs {
            [Knob::Moved { how, function }] => {
                let left = left_if_moved(guest, rounds, function, *how);
                left.map(|left| left.round().max(0.0) as u64)
            }
            _ => left_by(rounds, knobs),
        };
        Trial { knobs: knobs.to_vec(), exits: exits(rounds), predicted_exits, counted_exits: None }
    }
}

/// Of the guest's own timer.
fn is_timer_s(cause: Cause) -> bool {
    matches!(cause, Cause::Arm | Cause::Stop | Cause::Expiry)
}

/// Its halts take their deadlines with them.
fn is_paratick(rounds: &[Round]) -> bool {
    let of = |wanted: fn(Cause) -> bool| -> u64 {
        let exits = rounds.iter().flat_map(|round| &round.exits);
        exits.filter(|(cause, _)| wanted(**cause)).map(|(_, count)| count).sum()
    };
    of(is_timer_s) * 10 < of(|cause| cause == Cause::Halt)
}

/// The exits that would be left.
fn left_by(rounds: &[Round], knobs: &[Knob]) -> Option<u64> {
    let mut ended: Vec<&Known> = Vec::new();
    let mut halts_with_deadline = false;
    for knob in knobs {
        match knob {
            Knob::Mode(Mode { tick: TickMode::Paratick, .. }) => {
                halts_with_deadline = !is_paratick(rounds);
            }
            Knob::Mode(_) | Knob::Moved { .. } => return None,
            other => {
                let text = other.to_string();
                ended.push(KNOWN.iter().find(|known| known.knob == text)?);
            }
        }
    }
    let is_ended = |timer: &Timer| ended.iter().any(|known| known.ends(timer));
    let stays = |round: &&Round| {
        let begun = matches!(&round.source, Source::Timer { timer } if is_ended(timer));
        let goes = begun || (halts_with_deadline && round.goes_on);
        // A deferrable timer waits for another wake-up.
        let waits = |timer: &Timer| timer.class == Class::Deferrable || is_ended(timer);
        !(goes && round.timers.iter().all(waits))
    };
    let costs = |cause: &Cause| !(halts_with_deadline && is_timer_s(*cause));
    let left = rounds.iter().filter(stays).map(|round| {
        let exits = round.exits.iter().filter(|(cause, _)| costs(cause));
        let exits: u64 = exits.map(|(_, count)| count).sum();
        let slices = round.timers.iter().filter(|timer| timer.function == SLICE);
        let ended = slices.filter(|timer| is_ended(timer)).count() as u64;
        exits.saturating_sub(EXITS_OF_SLICE * ended)
    });
    Some(left.sum())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{recording::Process, tests::guest},
        *,
    };
    use proptest::prelude::*;

    fn timer(function: &str, process: Option<&str>, class: Class) -> Timer {
        let process = process.map(|name| Process { pid: Some(1), name: name.into(), unit: None });
        Timer { function: function.into(), class, process, start: None }
    }

    fn round(timers: &[&Timer], exits: &[(Cause, u64)]) -> Round {
        Round {
            cpu: 0,
            begin_ns: 0,
            woke_ns: 0,
            end_ns: 1,
            source: Source::Timer { timer: timers[0].clone() },
            passed_on: false,
            goes_on: false,
            timers: timers.iter().copied().cloned().collect(),
            exits: exits.iter().copied().collect(),
            slept: true,
        }
    }

    fn left(rounds: &[Round], knobs: &[&str]) -> Option<u64> {
        let knobs: Vec<Knob> = knobs.iter().map(|knob| knob.parse().unwrap()).collect();
        left_by(rounds, &knobs)
    }

    /// A clock watchdog's: alone, with what waits, passed on, and with what does not wait.
    fn watched() -> Vec<Round> {
        let watchdog = timer("clocksource_watchdog", None, Class::Hard);
        let waits = timer("vmstat_update", None, Class::Deferrable);
        let mine = timer("mine", Some("me"), Class::Hard);
        let costs = [(Cause::Arm, 2), (Cause::Halt, 1)];
        let mut passed = round(&[&watchdog], &costs);
        passed.timers.clear();
        passed.passed_on = true;
        let mut goes_on = round(&[&mine], &costs);
        goes_on.timers.clear();
        (goes_on.passed_on, goes_on.goes_on) = (true, true);
        vec![
            round(&[&watchdog], &costs),
            round(&[&watchdog, &waits], &costs),
            round(&[&watchdog, &mine], &costs),
            round(&[&mine], &costs),
            passed,
            goes_on,
        ]
    }

    #[test]
    fn a_slice_that_ends_costs_a_busy_cpu_two_exits() {
        let (slice, mine) =
            (timer("hrtick", Some("me"), Class::Hard), timer("x", None, Class::Hard));
        let mut busy = round(&[&mine, &slice, &slice], &[(Cause::Arm, 4), (Cause::Expiry, 3)]);
        busy.source = Source::Awake;
        let others = round(&[&mine], &[(Cause::Arm, 1), (Cause::Halt, 1)]);
        let rounds = [busy, others];
        assert_eq!(left(&rounds, &["sched:NO_HRTICK"]), Some(5));
        assert_eq!(left(&rounds, &["sched:HRTICK"]), None);
        let found = advice(&guest([]), &rounds);
        let found = found.iter().find(|one| one.knob.to_string() == "sched:NO_HRTICK").unwrap();
        assert_eq!(found.saves_exits, 4);
    }

    #[test]
    fn a_setting_ends_the_rounds_that_nothing_else_needs() {
        let watched = watched();
        assert_eq!(left(&watched, &["boot:tsc=nowatchdog"]), Some(9));
        assert_eq!(left(&watched, &["sysctl:vm.compaction_proactiveness=0"]), Some(18));
        // What another value ends, nobody knows.
        assert_eq!(left(&watched, &["sysctl:vm.compaction_proactiveness=20"]), None);
        assert_eq!(left(&watched, &["boot:tsc=nowatchdog", "boot:quiet"]), None);
    }

    #[test]
    fn a_process_is_known_by_how_its_name_begins() {
        let of = |name| timer("process_timeout", Some(name), Class::Hard);
        let rounds = [of("kcompactd0"), of("kcompact")].map(|t| round(&[&t], &[(Cause::Halt, 4)]));
        assert_eq!(left(&rounds, &["sysctl:vm.compaction_proactiveness=0"]), Some(4));
    }

    #[test]
    fn halts_with_a_deadline_end_arms_and_ticks_that_go_on() {
        let watched = watched();
        assert_eq!(left(&watched, &["mode:paratick"]), Some(5));
        assert_eq!(left(&watched, &["mode:paratick", "boot:tsc=nowatchdog"]), Some(2));
        assert_eq!(left(&watched, &["mode:periodic"]), None);
        // It has them already.
        let mine = timer("mine", None, Class::Hard);
        let already = [round(&[&mine], &[(Cause::Halt, 20), (Cause::Arm, 1)])];
        assert_eq!(left(&already, &["mode:paratick"]), Some(21));
    }

    #[test]
    fn the_best_advice_comes_first_and_none_that_saves_nothing() {
        let advice = advice(&guest([]), &watched());
        let told: Vec<(String, u64)> =
            advice.iter().map(|one| (one.knob.to_string(), one.saves_exits)).collect();
        let wanted = [("mode:paratick", 13), ("boot:tsc=nowatchdog", 9)];
        assert_eq!(told, wanted.map(|(knob, saves)| (knob.to_string(), saves)));
    }

    /// A thread says nothing of who began it.
    #[test]
    fn damon_s_statistics_are_advised_against_only_where_nothing_else_of_damon_s_is_on() {
        let of = |name: &str| timer("process_timeout", Some(name), Class::Hard);
        let rounds = |names: &[&str]| -> Vec<Round> {
            names.iter().map(|name| round(&[&of(name)], &[(Cause::Halt, 4)])).collect()
        };
        let told = |damon_stat, names: &[&str]| {
            let guest = GuestWakeups { damon_stat, ..guest([]) };
            advice(&guest, &rounds(names)).iter().any(|one| one.knob.to_string() == DAMON_STAT)
        };
        assert!(told(true, &["kdamond.0"]));
        assert!(!told(false, &["kdamond.0"]));
        assert!(!told(true, &["kdamond.0", "kdamond.1"]));
        assert!(!told(true, &["kcompactd0"]));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        let wrong = [
            "",
            "vm.x=1",
            "sched:",
            "sched:no_hrtick",
            "sysctl:",
            "sysctl:vm.x",
            "sysctl:vm.x=",
            "sysctl:=1",
            "sysctl:x=1",
            "sysctl:../x=1",
            "sysctl:vm./x=1",
            "sysctl:vm..x=1",
            "sysctl:vm.x=a b",
            "boot:",
            "boot:a b",
            "boot:a\n",
            "mode:",
            "mode:none",
            "defer:",
            "round:a b",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Knob>(), Err(NoKnob(text.into())), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_setting_is_read_as_it_is_printed(
            text in "sched:[A-Z_]{1,12}|boot:[!-~]{1,20}|\
                sysctl:[a-z_]{1,9}\\.[a-z0-9_-]{1,9}=[!-~]{1,9}|\
                (defer|round):[a-z_.]{1,9}"
        ) {
            prop_assert_eq!(text.parse::<Knob>().unwrap().to_string(), text);
        }
    }
}
