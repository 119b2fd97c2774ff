// SPDX-License-Identifier: GPL-2.0-only
//! Options that several verbs take: each is defined once, in a group that they flatten.

mod guest;
mod host;
mod kernel;
mod output;

pub use guest::{Disk, Memory, Vcpus};
pub use host::{Emulation, HostChoice};
pub use kernel::{KernelName, Kernels};
pub use output::{Format, Scale};

use crate::errors::usage;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, RangedI64ValueParser, TypedValueParser};
use std::{fmt::Display, ops::RangeInclusive, str::FromStr};
use strum::VariantNames;

/// The values of an option, by their names; help and errors list them.
pub fn named<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantNames + FromStr<Err = strum::ParseError> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|name| name.parse())
}

/// Whole numbers in a range.
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
