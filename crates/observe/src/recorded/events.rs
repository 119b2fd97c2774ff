// SPDX-License-Identifier: GPL-2.0-only
//! What perf was told to record (`perf_event_attr`), and which records are of it.

use super::formats::{Formats, ENTRY, EXIT};
use anyhow::{bail, Result};
use linux_perf_data::{
    linux_perf_event_reader::{PerfEventAttr, PerfEventType, SamplingPolicy},
    AttributeDescription,
};
use std::collections::{BTreeSet, HashSet};

/// The attributes whose samples are of KVM's tracepoints.
pub struct Events {
    /// By the attribute's place: which tracepoint of KVM's; none: another event.
    numbers: Vec<Option<u64>>,
    ids: HashSet<u64>,
    /// Several are of one tracepoint: a pass comes once for each whose filter lets it through.
    pub are_repeated: bool,
}

/// Whose a sample is.
#[derive(Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of the tracepoint of this number.
    Kvm(u64),
    Another,
    Unknown,
}

impl Events {
    /// Takes those tracepoints of which each pass was recorded: of samples, what is between two is
    /// not known.  Leaves only their formats.  An error says that exits or entries were sampled, or
    /// that records have no attribute.
    pub fn of(attributes: &[AttributeDescription], formats: &mut Formats) -> Result<Events> {
        let mut each = BTreeSet::new();
        let mut sampled = BTreeSet::new();
        let mut are_repeated = false;
        let mut number = |attr: &PerfEventAttr| {
            let PerfEventType::Tracepoint(number) = attr.type_ else { return None };
            formats.name(number)?;
            let is_each =
                matches!(attr.sampling_policy, SamplingPolicy::Period(one) if one.get() == 1);
            if !is_each {
                sampled.insert(number);
                return None;
            }
            are_repeated |= !each.insert(number);
            Some(number)
        };
        let numbers = attributes.iter().map(|one| number(&one.attr)).collect();
        for number in sampled.difference(&each) {
            if let Some(name @ (EXIT | ENTRY)) = formats.name(*number) {
                bail!(
                    "perf recorded samples of {name}, not each\n\
                     hint: record without -F, and with `-c 1` or without -c"
                );
            }
        }
        formats.keep(&each);
        let ids: HashSet<_> = attributes.iter().flat_map(|one| one.event_ids.clone()).collect();
        if attributes.len() > 1 && ids.is_empty() {
            bail!("it does not tell which of its events a record is of");
        }
        Ok(Events { numbers, ids, are_repeated })
    }

    /// Of a sample of the attribute at this place, or of a number that no attribute has: such
    /// samples come with the first place.
    pub fn whose(&self, place: usize, id: Option<u64>) -> Whose {
        if self.numbers.len() > 1 && !id.is_some_and(|id| self.ids.contains(&id)) {
            return Whose::Unknown;
        }
        match self.numbers.get(place) {
            Some(Some(number)) => Whose::Kvm(*number),
            _ => Whose::Another,
        }
    }
}
