// SPDX-License-Identifier: GPL-2.0-only
//! What is measured: a guest's mode, on a host with certain settings.

use crate::{
    halts::{Floor, HostRule, LearnedRule, Rule},
    mode::{Mode, UnknownMode},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// As options, results and tables name it.
    pub name: &'static str,
    pub about: &'static str,
    pub unit: &'static str,
    /// What a host of the lab has where nobody says otherwise.
    pub default: u64,
    pub most: u64,
    /// The host's kernel parameter that sets it.
    pub parameter: &'static str,
    /// Where a running host says what is in effect.
    pub file: &'static str,
    /// The series of patches that the host's kernel must have for any value but the default.
    pub needs: Option<&'static str>,
    /// Names for values that belong together.
    pub presets: &'static [Preset],
}

/// A name that stands for values of several rows; a row that it does not set keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub about: &'static str,
    pub sets: &'static [(&'static str, u64)],
}

/// What is given for one row: values of it and of those that its presets set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<(&'static str, u64)>);

/// Linux's own, of 2021 and today.
const GROW: (&str, u64) = ("halt-poll-grow", 2);
const START: (&str, u64) = ("halt-poll-grow-start", 10_000);
const SHRINK: (&str, u64) = ("halt-poll-shrink", 2);

/// Every host setting.  A new row is all that another one needs.
pub const HOST_SETTINGS: [HostSetting; 7] = [
    HostSetting {
        name: "halt-poll",
        about: "how long KVM polls before a halted vCPU's thread sleeps",
        unit: "ns",
        // The papers turn it off: it hides exits.
        default: 0,
        most: 1_000_000_000,
        parameter: "kvm.halt_poll_ns",
        file: "/sys/module/kvm/parameters/halt_poll_ns",
        needs: None,
        presets: &[
            Preset { name: "none", about: "KVM never polls", sets: &[("halt-poll", 0)] },
            Preset {
                name: "default",
                about: "as Linux 6.12 has it",
                sets: &[("halt-poll", 200_000), GROW, START, SHRINK],
            },
            Preset {
                name: "2021",
                about: "as Linux had it in 2021: one long halt ends polling",
                sets: &[("halt-poll", 200_000), GROW, START, ("halt-poll-shrink", 0)],
            },
            Preset {
                name: "paper",
                about: "as the article on polling time sets it, with what went upstream: 0 below \
                        10000 ns",
                sets: &[("halt-poll", 160_000), GROW, START, SHRINK],
            },
            Preset {
                name: "paper-floor",
                about: "the same to the letter: never below 10000 ns",
                sets: &[("halt-poll", 160_000), GROW, START, SHRINK, ("halt-poll-floor", 2)],
            },
            Preset {
                name: "learned",
                about: "what each vCPU's last halts would have wanted",
                sets: &[("halt-poll", 200_000), ("halt-poll-learn", 1)],
            },
        ],
    },
    HostSetting {
        name: "halt-poll-grow",
        about: "what that grows by after a short halt",
        unit: "times",
        default: 2,
        most: 1_000,
        parameter: "kvm.halt_poll_ns_grow",
        file: "/sys/module/kvm/parameters/halt_poll_ns_grow",
        needs: None,
        presets: &[],
    },
    HostSetting {
        name: "halt-poll-grow-start",
        about: "what it grows from",
        unit: "ns",
        default: 10_000,
        most: 1_000_000_000,
        parameter: "kvm.halt_poll_ns_grow_start",
        file: "/sys/module/kvm/parameters/halt_poll_ns_grow_start",
        needs: None,
        presets: &[],
    },
    HostSetting {
        name: "halt-poll-shrink",
        about: "by what it is divided after a long one",
        unit: "times",
        default: 2,
        most: 1_000,
        parameter: "kvm.halt_poll_ns_shrink",
        file: "/sys/module/kvm/parameters/halt_poll_ns_shrink",
        needs: None,
        presets: &[],
    },
    HostSetting {
        name: "halt-poll-floor",
        about: "below its start: 0 ends, 1 stays, 2 goes back",
        unit: "rule",
        default: 0,
        most: 2,
        parameter: "kvm.halt_poll_floor",
        file: "/sys/module/kvm/parameters/halt_poll_floor",
        needs: Some("lab"),
        presets: &[],
    },
    HostSetting {
        name: "halt-poll-learn",
        about: "1: learned from halts, not grown and shrunk",
        unit: "rule",
        default: 0,
        most: 1,
        parameter: "kvm.halt_poll_learn",
        file: "/sys/module/kvm/parameters/halt_poll_learn",
        needs: Some("halt-polling"),
        presets: &[],
    },
    HostSetting {
        name: "halt-poll-cost",
        about: "with it: what it costs to block",
        unit: "ns",
        default: 10_000,
        most: 10_000_000,
        parameter: "kvm.halt_poll_cost_ns",
        file: "/sys/module/kvm/parameters/halt_poll_cost_ns",
        needs: Some("halt-polling"),
        presets: &[],
    },
];

/// The rows of KVM's own halt polling, the first ones of the table.
const HALT_POLL_ROWS: usize = 4;

/// A value for each row of [`HOST_SETTINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostSettings([u64; HOST_SETTINGS.len()]);

/// The key of everything that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Subject {
    /// Of the guest: the tick mode, with `+poll` where it polls.
    pub mode: Mode,
    /// The host's settings, by name.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, u64>"))]
    pub host: HostSettings,
}

/// A setting that does not exist, or a value that it cannot have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSetting {
    #[error("no host setting '{0}'\nhint: the host settings are {names}", names = names())]
    Unknown(String),
    #[error(
        "{name} cannot be '{value}'\nhint: give a whole number from 0 to {most} ({unit}){}",
        or_presets(presets)
    )]
    Value {
        name: &'static str,
        value: String,
        most: u64,
        unit: &'static str,
        presets: &'static [Preset],
    },
    #[error("'{0}' is no host setting\n\
        hint: write NAME=VALUE; the host settings are {names}", names = names())]
    Shape(String),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSubject {
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    #[error(transparent)]
    Setting(#[from] BadSetting),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.0.iter().map(|(_, value)| value.to_string()).collect();
        f.write_str(&values.join(":"))
    }
}

fn names() -> String {
    HOST_SETTINGS.map(|setting| setting.name).join(", ")
}

fn or_presets(presets: &[Preset]) -> String {
    let names: Vec<_> = presets.iter().map(|preset| preset.name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        ", or one of {}, or four numbers as 200000:2:10000:2: it, and what it grows by, grows \
         from, and shrinks by",
        names.join(", ")
    )
}

impl HostSetting {
    /// A value, a preset, or values of this row and those after it, with colons between them.
    pub fn choose(&'static self, text: &str) -> Result<Choice, BadSetting> {
        let text = text.trim();
        if let Some(preset) = self.presets.iter().find(|preset| preset.name == text) {
            return Ok(Choice(preset.sets.to_vec()));
        }
        let place = HOST_SETTINGS.iter().position(|row| row.name == self.name).unwrap_or(0);
        // Only a row that has presets speaks for others.
        let most = if self.presets.is_empty() { 1 } else { HALT_POLL_ROWS };
        let values: Vec<&str> = text.split(':').collect();
        if values.len() != 1 && values.len() != most {
            return Err(self.bad(text));
        }
        let rows = HOST_SETTINGS[place..].iter().zip(values);
        let choice = rows.map(|(row, value)| Ok((row.name, row.parse(value)?)));
        choice.collect::<Result<_, _>>().map(Choice)
    }

    fn bad(&self, value: &str) -> BadSetting {
        BadSetting::Value {
            name: self.name,
            value: value.to_string(),
            most: self.most,
            unit: self.unit,
            presets: self.presets,
        }
    }

    pub fn parse(&self, text: &str) -> Result<u64, BadSetting> {
        let value = text.trim().parse().ok().filter(|value| *value <= self.most);
        value.ok_or_else(|| self.bad(text))
    }

    /// What the kernel says in [`HostSetting::file`]: a number, or `Y` or `N` of one that is
    /// either.
    pub fn told(&self, text: &str) -> Result<u64, BadSetting> {
        match text.trim() {
            "N" if self.most == 1 => Ok(0),
            "Y" if self.most == 1 => Ok(1),
            number => self.parse(number),
        }
    }
}

impl HostSettings {
    /// Each with its row of the table.
    pub fn each(self) -> impl Iterator<Item = (&'static HostSetting, u64)> {
        HOST_SETTINGS.iter().zip(self.0)
    }

    pub fn get(self, name: &str) -> Option<u64> {
        self.each().find(|(row, _)| row.name == name).map(|(_, value)| value)
    }

    pub fn set(&mut self, name: &str, value: u64) -> Result<(), BadSetting> {
        self.read(name, &value.to_string())
    }

    fn read(&mut self, name: &str, value: &str) -> Result<(), BadSetting> {
        let row = HOST_SETTINGS.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| BadSetting::Unknown(name.to_string()))?;
        *self = self.with(&row.choose(value)?);
        Ok(())
    }

    /// These, but for what the choice says.
    pub fn with(mut self, choice: &Choice) -> HostSettings {
        for (row, value) in HOST_SETTINGS.iter().zip(&mut self.0) {
            let chosen = choice.0.iter().find(|(name, _)| *name == row.name);
            *value = chosen.map_or(*value, |(_, chosen)| *chosen);
        }
        self
    }

    /// Sets what `NAME=VALUE` says.
    pub fn apply(&mut self, text: &str) -> Result<(), BadSetting> {
        let shape = || BadSetting::Shape(text.to_string());
        let (name, value) = text.split_once('=').ok_or_else(shape)?;
        self.read(name, value)
    }

    /// The host's kernel parameters that bring it about.  A kernel need not know those of a series
    /// that it is not asked for anything of.
    pub fn kernel_parameters(self) -> Vec<String> {
        let needed =
            self.each().filter(|(row, value)| row.needs.is_none() || *value != row.default);
        needed.map(|(row, value)| format!("{}={value}", row.parameter)).collect()
    }

    /// Why KVM does not look at this row; none where it does.
    pub fn unused(self, name: &str) -> Option<&'static str> {
        match (self.rule(), name) {
            (_, "halt-poll") => None,
            (Rule::Host(HostRule { max: 0, .. }), _)
            | (Rule::Learned(LearnedRule { max: 0, .. }), _) => Some("the host never polls"),
            (Rule::Host(_), "halt-poll-cost") => Some("the host does not learn when to poll"),
            (
                Rule::Host(HostRule { grow: 0, floor: Floor::ToZero | Floor::None, .. }),
                "halt-poll-grow-start" | "halt-poll-shrink" | "halt-poll-floor",
            ) => Some("--halt-poll-grow 0 never polls"),
            (Rule::Learned(_), name) if !["halt-poll-learn", "halt-poll-cost"].contains(&name) => {
                Some("the host learns when to poll")
            }
            _ => None,
        }
    }

    /// By which KVM polls.
    pub fn rule(self) -> Rule {
        let value = |name| self.get(name).expect("a row of the table") as u32;
        let max = value("halt-poll");
        if value("halt-poll-learn") == 1 {
            return Rule::Learned(LearnedRule { max, cost: value("halt-poll-cost") });
        }
        let grow_start = value("halt-poll-grow-start");
        Rule::Host(HostRule {
            max,
            grow: value("halt-poll-grow"),
            grow_start,
            shrink: value("halt-poll-shrink"),
            floor: match value("halt-poll-floor") {
                0 => Floor::ToZero,
                1 => Floor::None,
                _ => Floor::At(grow_start),
            },
        })
    }
}

impl Default for HostSettings {
    fn default() -> HostSettings {
        HostSettings(HOST_SETTINGS.map(|setting| setting.default))
    }
}

impl From<Mode> for Subject {
    /// On a host with default settings.
    fn from(mode: Mode) -> Subject {
        Subject { mode, host: HostSettings::default() }
    }
}

impl Subject {
    /// Every mode on a host with each of the settings.
    pub fn each(modes: &[Mode], settings: &[HostSettings]) -> Vec<Subject> {
        let on = |host| modes.iter().map(move |&mode| Subject { mode, host });
        settings.iter().copied().flat_map(on).collect()
    }

    /// Another mode on a host with the same settings.
    pub fn with(self, mode: Mode) -> Subject {
        Subject { mode, ..self }
    }
}

impl fmt::Display for HostSettings {
    /// Only what differs from the default, each as ` NAME=VALUE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.each().filter(|(row, value)| *value != row.default);
        changed.into_iter().try_for_each(|(row, value)| write!(f, " {}={value}", row.name))
    }
}

/// `paratick+poll`, or `tickless halt-poll=200000`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.mode, self.host))
    }
}

impl FromStr for Subject {
    type Err = BadSubject;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let mut subject = Subject::from(words.next().unwrap_or("").parse::<Mode>()?);
        words.try_for_each(|word| subject.host.apply(word))?;
        Ok(subject)
    }
}

impl Serialize for HostSettings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each().map(|(row, value)| (row.name, value)))
    }
}

impl<'de> Deserialize<'de> for HostSettings {
    /// A setting that is not named has its default.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut settings = HostSettings::default();
        let mut set = |(name, value): (&String, &u64)| settings.set(name, *value);
        named.iter().try_for_each(&mut set).map_err(serde::de::Error::custom)?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::tests::modes;
    use proptest::prelude::*;

    fn subjects() -> impl Strategy<Value = Subject> {
        (modes(), 0..=HOST_SETTINGS[0].most, 0..=2u64).prop_map(|(mode, halt_poll, floor)| {
            let mut subject = Subject::from(mode);
            subject.host.set("halt-poll", halt_poll).unwrap();
            subject.host.set("halt-poll-floor", floor).unwrap();
            subject
        })
    }

    proptest! {
        #[test]
        fn a_subject_reads_back_as_it_is_written(subject in subjects()) {
            prop_assert_eq!(subject.to_string().parse(), Ok(subject));
            let json = serde_json::to_value(subject).unwrap();
            prop_assert_eq!(serde_json::from_value::<Subject>(json).unwrap(), subject);
        }
    }

    #[test]
    fn only_what_is_not_the_default_is_written() {
        let plain: Subject = "paratick".parse().unwrap();
        assert_eq!(plain, "paratick halt-poll=0".parse().unwrap());
        assert_eq!(plain.to_string(), "paratick");
        let parameters = plain.host.kernel_parameters();
        assert_eq!(parameters[..2], ["kvm.halt_poll_ns=0", "kvm.halt_poll_ns_grow=2"]);
    }

    #[test]
    fn what_cannot_be_set_is_named_with_what_can() {
        let error = |text: &str| HostSettings::default().apply(text).unwrap_err().to_string();
        for bad in [
            "halt-pol=1",
            "halt-poll",
            "halt-poll=-1",
            "halt-poll=1s",
            "halt-poll=2000000000",
            "halt-poll=1:2",
            "halt-poll=1:2:3:4:5",
            "halt-poll-grow=default",
            "halt-poll-grow=2:10000",
        ] {
            assert!(error(bad).contains("\nhint: "), "{bad}");
        }
        assert!(error("x=1").contains("halt-poll"));
        assert!("fast".parse::<Subject>().is_err());
    }

    #[test]
    fn what_the_kernel_says_is_a_number_or_yes_or_no() {
        let row = |name| HOST_SETTINGS.iter().find(|row| row.name == name).unwrap();
        let (most, learns) = (row("halt-poll"), row("halt-poll-learn"));
        assert_eq!((most.told("200000\n"), learns.told("N\n")), (Ok(200_000), Ok(0)));
        assert_eq!((learns.told("Y\n"), learns.told("1")), (Ok(1), Ok(1)));
        assert!(most.told("N\n").is_err() && learns.told("maybe\n").is_err());
        // A person writes a number.
        assert!(learns.parse("Y").is_err());
    }

    #[test]
    fn a_name_or_four_numbers_stand_for_all_of_halt_polling() {
        let chosen = |text: &str| format!("tickless halt-poll={text}").parse::<Subject>().unwrap();
        assert_eq!(chosen("none"), "tickless".parse().unwrap());
        assert_eq!(chosen("default"), chosen("200000"));
        assert_eq!(chosen("2021"), chosen("200000:2:10000:0"));
        assert_eq!(chosen("2021").to_string(), "tickless halt-poll=200000 halt-poll-shrink=0");
        assert_eq!(chosen("paper").to_string(), "tickless halt-poll=160000");
        for preset in HOST_SETTINGS.iter().flat_map(|row| row.presets) {
            for (name, value) in preset.sets {
                let row = HOST_SETTINGS.iter().find(|row| row.name == *name).unwrap();
                assert!(*value <= row.most, "{}", preset.name);
            }
        }
    }

    #[test]
    fn names_stand_for_the_rules_that_are_replayed() {
        for Preset { name, .. } in HOST_SETTINGS[0].presets {
            let chosen = HostSettings::default().with(&HOST_SETTINGS[0].choose(name).unwrap());
            match chosen.rule() {
                Rule::Host(rule) => assert_eq!(name.parse(), Ok(rule), "{name}"),
                rule => assert_eq!(*name, rule.to_string()),
            }
        }
    }

    #[test]
    fn a_host_looks_at_what_its_rule_of_polling_has() {
        let used = |text: &str| {
            let subject: Subject = format!("tickless halt-poll={text}").parse().unwrap();
            let used =
                subject.host.each().filter(|(row, _)| subject.host.unused(row.name).is_none());
            used.map(|(row, _)| row.name.trim_start_matches("halt-poll")).collect::<Vec<_>>()
        };
        assert_eq!(used("none"), [""]);
        assert_eq!(used("0 halt-poll-learn=1"), [""]);
        assert_eq!(used("default"), ["", "-grow", "-grow-start", "-shrink", "-floor", "-learn"]);
        assert_eq!(used("default halt-poll-grow=0"), ["", "-grow", "-learn"]);
        assert_eq!(used("learned"), ["", "-learn", "-cost"]);
    }

    #[test]
    fn only_a_host_that_is_asked_for_a_floor_must_know_it() {
        let parameters = |text: &str| {
            let subject: Subject = format!("tickless halt-poll={text}").parse().unwrap();
            subject.host.kernel_parameters().join(" ")
        };
        assert!(!parameters("paper").contains("floor"));
        assert!(parameters("paper-floor").ends_with(" kvm.halt_poll_floor=2"));
        assert!(!parameters("paper").contains("learn"));
        assert!(parameters("learned").ends_with(" kvm.halt_poll_learn=1"));
    }
}
