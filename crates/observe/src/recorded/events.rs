// SPDX-License-Identifier: GPL-2.0-only
//! What perf was told to record (`perf_event_attr`).

use super::formats::{Formats, ENTRY, EXIT};
use anyhow::{bail, Result};
use linux_perf_data::{
    linux_perf_event_reader::{PerfEventType, SamplingPolicy},
    AttributeDescription,
};
use std::collections::BTreeSet;

/// Leaves the formats of those tracepoints of which each pass was recorded: of samples, what is
/// between two is not known.  An error says that exits or entries were sampled.
pub fn check(attributes: &[AttributeDescription], formats: &mut Formats) -> Result<()> {
    let mut each = BTreeSet::new();
    let mut sampled = BTreeSet::new();
    for AttributeDescription { attr, .. } in attributes {
        let PerfEventType::Tracepoint(number) = attr.type_ else { continue };
        match attr.sampling_policy {
            SamplingPolicy::Period(period) if period.get() == 1 => each.insert(number),
            _ => sampled.insert(number),
        };
    }
    for number in sampled.difference(&each) {
        if let Some(name @ (EXIT | ENTRY)) = formats.name(*number) {
            bail!(
                "perf recorded samples of {name}, not each\n\
                 hint: record without -F, and with `-c 1` or without -c"
            );
        }
    }
    formats.keep(&each);
    Ok(())
}
