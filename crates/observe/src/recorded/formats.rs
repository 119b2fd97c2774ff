// SPDX-License-Identifier: GPL-2.0-only
//! Tracepoints as the recorded kernel described them, in the section that perf and trace-cmd share
//! (trace-cmd.dat(5), version 6).

use paratick_instruments::Format;
use std::collections::{BTreeMap, BTreeSet};

pub const EXIT: &str = "kvm_exit";
pub const ENTRY: &str = "kvm_entry";
const SYSTEM: &str = "kvm";
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// KVM's, by the number that each record begins with.
pub struct Formats(BTreeMap<u64, (String, Format)>);

impl Formats {
    /// None where the section is not understood.
    pub fn parse(section: &[u8]) -> Option<Formats> {
        let mut rest = Bytes(section);
        (rest.take(MAGIC.len() as u64)? == MAGIC).then_some(())?;
        // Its version.
        rest.text()?;
        // 0 is little-endian; then the size of a long, and of a page.
        (rest.take(1)? == [0]).then_some(())?;
        rest.take(1 + 4)?;
        for name in ["header_page", "header_event"] {
            (rest.text()? == name).then_some(())?;
            rest.sized()?;
        }
        for _ in 0..rest.u32()? {
            rest.sized()?;
        }
        let mut formats = BTreeMap::new();
        for _ in 0..rest.u32()? {
            let system = rest.text()?;
            for _ in 0..rest.u32()? {
                let text = String::from_utf8_lossy(rest.sized()?);
                let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
                let (Some(name), Some(number)) = (line("name: "), line("ID: ")) else { continue };
                if let (SYSTEM, Ok(number)) = (system.as_str(), number.trim().parse()) {
                    formats.insert(number, (name.trim().to_string(), Format::parse(&text)));
                }
            }
        }
        Some(Formats(formats))
    }

    /// KVM's event of this number.
    pub fn name(&self, number: u64) -> Option<&str> {
        self.0.get(&number).map(|(name, _)| name.as_str())
    }

    /// Without those of other numbers.
    pub fn keep(&mut self, numbers: &BTreeSet<u64>) {
        self.0.retain(|number, _| numbers.contains(number));
    }

    pub fn of(&self, name: &str) -> Option<&Format> {
        self.0.values().find(|one| one.0 == name).map(|one| &one.1)
    }

    /// Whose record it is.
    pub fn find(&self, record: &[u8]) -> Option<(&str, &Format)> {
        self.0.get(&number(record)?).map(|(name, format)| (name.as_str(), format))
    }
}

/// Of the tracepoint that wrote it.
pub fn number(record: &[u8]) -> Option<u64> {
    Some(u16::from_le_bytes(record.get(..2)?.try_into().ok()?).into())
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(first)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// With its length in front.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(self.take(end as u64)?).into_owned();
        self.take(1)?;
        Some(text)
    }
}
