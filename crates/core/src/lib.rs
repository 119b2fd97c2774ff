// SPDX-License-Identifier: GPL-2.0-only
//! What paratick computes without touching a file, a process or a clock.

pub mod balancing;
pub mod calibration;
pub mod catalogue;
pub mod cause;
pub mod clock_device;
pub mod compare;
pub mod cycle;
pub mod disk_device;
pub mod event;
pub mod exit_cost;
pub mod exits;
pub mod halts;
pub mod idle;
pub mod interrupts;
pub mod isolation;
pub mod latency;
pub mod latency_program;
pub mod mode;
pub mod model;
pub mod network;
pub mod noise;
pub mod observed;
pub mod pcpu;
pub mod reason;
pub mod results;
pub mod shell;
pub mod size;
pub mod stats;
pub mod subject;
pub mod throughput;
pub mod units;
pub mod vms;
pub mod wakeups;
pub mod wire;
pub mod workload;

/// Serializes a type as the text that it is displayed as and parsed from.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}
use serde_as_text;
