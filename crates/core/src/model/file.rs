// SPDX-License-Identifier: GPL-2.0-only
//! Guests and their load as a user writes them down; docs/model.md describes the file.

use super::{BadLoad, Load, Vm, WokenBy};
use crate::units::{Hz, Nanos};
use serde::{de::Error, Deserialize, Deserializer};
use std::ops::RangeInclusive;

/// A file of guests: `time` and one `[[vm]]` for each kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    #[serde(deserialize_with = "time", default = "ten_seconds")]
    pub time: Nanos,
    #[serde(rename = "vm")]
    pub vms: Vec<Guests>,
}

/// Guests that are all alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Guests {
    pub name: Option<String>,
    #[serde(default = "one")]
    pub count: u32,
    pub vcpus: u32,
    #[serde(default = "Guests::default_hz")]
    pub hz: u32,
    /// The host's rate; the guests' if it is not given.
    pub host_hz: Option<u32>,
    pub load: f64,
    #[serde(default, deserialize_with = "some_time")]
    pub idle_period: Option<Nanos>,
    #[serde(default)]
    pub woken_by: WokenBy,
    /// vCPUs that share a pCPU.
    #[serde(default = "one")]
    pub sharing: u32,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadGuests {
    #[error("no guests\nhint: describe at least one guest in a [[vm]]")]
    None,
    #[error("{name}: {problem}")]
    Load { name: String, problem: BadLoad },
    #[error("{name}: {key} = {value}\nhint: {key} is a whole number from {least} to {most}")]
    Number { name: String, key: &'static str, value: u32, least: u32, most: u32 },
    #[error("time = 0\nhint: exits are counted over a time, such as 10s")]
    NoTime,
}

/// The least and the most of what may be asked for.  1000 Hz is the fastest tick that Linux has.
pub const HZ: RangeInclusive<u32> = 1..=10_000;
pub const COUNT: RangeInclusive<u32> = 1..=1_000_000;

impl Workload {
    /// The guests of the file in its order, checked.
    pub fn vms(&self) -> Result<Vec<Vm>, BadGuests> {
        match (self.time, self.vms.is_empty()) {
            (Nanos(0), _) => Err(BadGuests::NoTime),
            (_, true) => Err(BadGuests::None),
            _ => (1..).zip(&self.vms).map(|(number, guests)| guests.vm(number)).collect(),
        }
    }
}

impl Guests {
    fn default_hz() -> u32 {
        250
    }

    /// What to call the guests of the `number`th table.
    pub fn title(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("[[vm]] {number}"))
    }

    fn vm(&self, number: usize) -> Result<Vm, BadGuests> {
        let host_hz = self.host_hz.unwrap_or(self.hz);
        let check = [
            ("count", self.count, COUNT),
            ("vcpus", self.vcpus, COUNT),
            ("hz", self.hz, HZ),
            ("host-hz", host_hz, HZ),
            ("sharing", self.sharing, COUNT),
        ];
        for (key, value, range) in check {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                let name = self.title(number);
                return Err(BadGuests::Number { name, key, value, least, most });
            }
        }
        let load = Load::new(self.load, self.idle_period, self.woken_by);
        Ok(Vm {
            count: self.count,
            vcpus: self.vcpus,
            hz: Hz(self.hz),
            host_hz: Hz(host_hz),
            in_turns: 1,
            load: load.map_err(|problem| BadGuests::Load { name: self.title(number), problem })?,
        })
    }
}

fn one() -> u32 {
    1
}

fn ten_seconds() -> Nanos {
    Nanos(10 * Nanos::SECOND.0)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    time(deserializer).map(Some)
}
