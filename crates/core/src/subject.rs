// SPDX-License-Identifier: GPL-2.0-only
//! What is measured: a guest's mode, on a host with certain settings.

use crate::mode::{Mode, UnknownMode};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// One row of the table of host settings.
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
}

/// Every host setting.  A new row is all that another one needs.
pub const HOST_SETTINGS: [HostSetting; 1] = [HostSetting {
    name: "halt-poll",
    about: "how long KVM polls before a halted vCPU's thread sleeps",
    unit: "ns",
    // The papers turn it off: it hides exits.
    default: 0,
    most: 1_000_000_000,
    parameter: "kvm.halt_poll_ns",
    file: "/sys/module/kvm/parameters/halt_poll_ns",
}];

/// A value for each row of [`HOST_SETTINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostSettings([u64; HOST_SETTINGS.len()]);

/// The key of everything that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    pub mode: Mode,
    #[serde(default)]
    pub host: HostSettings,
}

/// A setting that does not exist, or a value that it cannot have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSetting {
    #[error("no host setting '{0}'\nhint: the host settings are {names}", names = names())]
    Unknown(String),
    #[error("{name} cannot be '{value}'\nhint: give a whole number from 0 to {most} ({unit})")]
    Value { name: &'static str, value: String, most: u64, unit: &'static str },
    #[error("'{0}' is no host setting\n\
        hint: write NAME=VALUE; the host settings are {names}", names = names())]
    Shape(String),
}

/// A text that names no subject.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSubject {
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    #[error(transparent)]
    Setting(#[from] BadSetting),
}

fn names() -> String {
    HOST_SETTINGS.map(|setting| setting.name).join(", ")
}

impl HostSetting {
    pub fn parse(&self, text: &str) -> Result<u64, BadSetting> {
        let value = text.trim().parse().ok().filter(|value| *value <= self.most);
        value.ok_or_else(|| BadSetting::Value {
            name: self.name,
            value: text.to_string(),
            most: self.most,
            unit: self.unit,
        })
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
        let place = HOST_SETTINGS.iter().position(|row| row.name == name);
        let place = place.ok_or_else(|| BadSetting::Unknown(name.to_string()))?;
        self.0[place] = HOST_SETTINGS[place].parse(value)?;
        Ok(())
    }

    /// Sets what `NAME=VALUE` says.
    pub fn apply(&mut self, text: &str) -> Result<(), BadSetting> {
        let shape = || BadSetting::Shape(text.to_string());
        let (name, value) = text.split_once('=').ok_or_else(shape)?;
        self.read(name, value)
    }

    /// The host's kernel parameters that bring it about.
    pub fn kernel_parameters(self) -> Vec<String> {
        self.each().map(|(row, value)| format!("{}={value}", row.parameter)).collect()
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
    use crate::mode::TickMode;
    use proptest::prelude::*;

    fn subjects() -> impl Strategy<Value = Subject> {
        let tick = prop::sample::select(TickMode::ALL.to_vec());
        (tick, any::<bool>(), 0..=HOST_SETTINGS[0].most).prop_map(|(tick, poll, value)| {
            let mut subject = Subject::from(Mode { tick, poll });
            subject.host.set(HOST_SETTINGS[0].name, value).unwrap();
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
        assert_eq!(plain.host.kernel_parameters(), ["kvm.halt_poll_ns=0"]);
    }

    #[test]
    fn what_cannot_be_set_is_named_with_what_can() {
        let error = |text: &str| HostSettings::default().apply(text).unwrap_err().to_string();
        for bad in
            ["halt-pol=1", "halt-poll", "halt-poll=-1", "halt-poll=1s", "halt-poll=2000000000"]
        {
            assert!(error(bad).contains("\nhint: "), "{bad}");
        }
        assert!(error("x=1").contains("halt-poll"));
        assert!("fast".parse::<Subject>().is_err());
    }
}
