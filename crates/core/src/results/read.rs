// SPDX-License-Identifier: GPL-2.0-only
//! Reading a results file, and saying plainly why it cannot be read.

use super::{upgrade, Figure, Results, SCHEMA};
use serde::{Deserialize, Deserializer};
use serde_json::{error::Category, Value};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    #[error(
        "it is empty\nhint: paratick replaces results files as a whole; an empty one is not its own"
    )]
    Empty,
    #[error(
        "it ends in the middle, at line {line}\nhint: it was cut short when it was copied or \
         downloaded: copy it again from where it was made"
    )]
    Truncated { line: usize },
    #[error("it is not JSON: {0}\nhint: give a file that `paratick bench` wrote")]
    NotJson(String),
    #[error(
        "it is JSON, but not a results file of paratick: it has no `schema` that begins with \
         \"paratick-results/\"\nhint: give a file that `paratick bench` wrote"
    )]
    Foreign,
    #[error(
        "its format is {found}, and this program reads {SCHEMA} and the one before\nhint: read \
         it with the version of paratick that wrote it, or measure again"
    )]
    OtherVersion { found: String },
    #[error(
        "it says it is {schema}, but does not fit it: {why}\nhint: docs/results.md describes the \
         format; was the file edited?"
    )]
    Shape { schema: String, why: String },
}

pub fn read(text: &str) -> Result<Results, ReadError> {
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => ReadError::Truncated { line: error.line() },
        _ => ReadError::NotJson(error.to_string()),
    })?;
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or("").to_string();
    let upgraded = match schema.as_str() {
        SCHEMA => Some(value),
        "paratick-results/3" => upgrade::schema_3(value),
        other
            if ["paratick-results/", "paratick-timeline/"].iter().any(|s| other.starts_with(s)) =>
        {
            return Err(ReadError::OtherVersion { found: schema })
        }
        _ => return Err(ReadError::Foreign),
    };
    let shape = |why: String| ReadError::Shape { schema: schema.clone(), why };
    let upgraded = upgraded.ok_or_else(|| shape("a field is missing or of another type".into()))?;
    serde_json::from_value(upgraded).map_err(|error| {
        // The hint of a value's own, such as a mode's, is for those who typed the value.
        let why = error.to_string();
        shape(why.split("\nhint: ").take(1).collect())
    })
}

/// Figures that a newer program may have added are left out.
pub(super) fn known<'de, D, T>(from: D) -> Result<BTreeMap<Figure, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    BTreeMap::deserialize(from).map(keep_known)
}

/// The same within each entry.
pub(super) fn known_of_each<'de, D, T>(
    from: D,
) -> Result<BTreeMap<String, BTreeMap<Figure, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let all: BTreeMap<String, BTreeMap<String, T>> = BTreeMap::deserialize(from)?;
    Ok(all.into_iter().map(|(name, figures)| (name, keep_known(figures))).collect())
}

fn keep_known<T>(figures: BTreeMap<String, T>) -> BTreeMap<Figure, T> {
    let known = |(name, value): (String, T)| Some((name.parse().ok()?, value));
    figures.into_iter().filter_map(known).collect()
}
