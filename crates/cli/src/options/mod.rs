// SPDX-License-Identifier: GPL-2.0-only
//! Options that several verbs take: each is defined once, in a group that they flatten.

mod given;
mod guest;
mod host;
mod kernel;
mod lab;
mod output;
mod save;
mod settings;
mod side;
mod vms;

pub use given::{refuse, remember_given};
pub use guest::{Disk, Memory, Sockets, Vcpus};
pub use host::{Emulation, HostChoice};
pub use kernel::{KernelName, Kernels};
pub use lab::{check_agent, LabOptions, LabPlan};
pub use output::{Format, Scale};
pub use save::Save;
pub use settings::SettingOptions;
pub use side::{Recording, Role};
pub use vms::{Chosen, Vms};

use crate::errors::usage;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, RangedI64ValueParser, TypedValueParser};
use paratick_core::units::{BadTime, Nanos};
use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};
use strum::VariantNames;

/// The values of an option, by their names; help and errors list them.
pub fn named<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantNames + FromStr<Err = strum::ParseError> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|name| name.parse())
}

pub fn number(range: RangeInclusive<u32>) -> RangedI64ValueParser<u32> {
    let (least, most) = range.into_inner();
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(most))
}

/// Fails where something stands in a list twice.
pub fn once<T: PartialEq + Display>(items: &[T], what: &str, option: &str) -> Result<()> {
    let twice = (1..items.len()).find(|place| items[..*place].contains(&items[*place]));
    match twice {
        Some(place) => Err(usage(format!(
            "{what} {} is named twice\n\
             hint: name each once in {option}; --repeat measures more often",
            items[place]
        ))),
        None => Ok(()),
    }
}

/// Some wall-clock time, as [`Nanos`] reads times.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse::<Nanos>().map_err(|error| error.to_string())? {
        Nanos(0) => Err(BadTime(text.into()).to_string()),
        Nanos(ns) => Ok(Duration::from_nanos(ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        for text in ["", "s", "0", "-1", "soon", "1d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
