// SPDX-License-Identifier: GPL-2.0-only
//! Small files, as perf writes them.

use super::tests::section;

/// `PERF_TYPE_SOFTWARE` and `PERF_TYPE_TRACEPOINT`; cpu-clock and bpf-output.
pub const SOFTWARE: u32 = 1;
pub const TRACEPOINT: u32 = 2;
pub const CLOCK: u64 = 0;
pub const BPF: u64 = 10;

/// Records of time, process and thread, CPU, and what the event wrote: each with its attribute.
const SAMPLE: u64 = IDENTIFIER | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
const ID_ALL: u64 = 1 << 18;
const FREQUENCY: u64 = 1 << 10;

pub enum Rate {
    Each,
    OneOf(u64),
    Hz(u64),
}

#[derive(Default)]
pub struct Made {
    attributes: Vec<Vec<u8>>,
    data: Vec<u8>,
}

impl Made {
    /// One more attribute; its records have its place as their number.
    pub fn event(mut self, kind: u32, config: u64, rate: Rate) -> Made {
        let (period, flags) = match rate {
            Rate::Each => (1, ID_ALL),
            Rate::OneOf(period) => (period, ID_ALL),
            Rate::Hz(hz) => (hz, ID_ALL | FREQUENCY),
        };
        let head = [kind, 64].map(u32::to_le_bytes).concat();
        let numbers = [config, period, SAMPLE, 0, flags, 0, 0].map(u64::to_le_bytes).concat();
        self.attributes.push([head, numbers].concat());
        self
    }

    pub fn record(mut self, kind: u32, misc: u16, body: &[u8]) -> Made {
        self.data.extend(kind.to_le_bytes());
        self.data.extend([misc, 8 + body.len() as u16].map(u16::to_le_bytes).concat());
        self.data.extend(body);
        self
    }

    /// `event` is the place of its attribute.
    pub fn sample(self, event: u64, at_ns: u64, [process, thread]: [u32; 2], raw: &[u8]) -> Made {
        let mut body = event.to_le_bytes().to_vec();
        body.extend([process, thread].map(u32::to_le_bytes).concat());
        body.extend([at_ns, 0].map(u64::to_le_bytes).concat());
        let size = (raw.len() + 4).next_multiple_of(8) - 4;
        body.extend((size as u32).to_le_bytes());
        body.extend(raw.iter().copied().chain(std::iter::repeat(0)).take(size));
        self.record(9, 0, &body)
    }

    /// Of another kind: it ends in who made it, when, on which CPU, and by which event.
    pub fn other(self, kind: u32, numbers: &[u64], event: u64, at_ns: u64) -> Made {
        let body = [numbers, &[0, at_ns, 0, event]].concat();
        self.record(kind, 0, &body.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>())
    }

    pub fn file(&self, formats: &[&str]) -> Vec<u8> {
        let mut events = [self.attributes.len() as u32, 64].map(u32::to_le_bytes).concat();
        for (place, attribute) in self.attributes.iter().enumerate() {
            events.extend(attribute);
            events.extend([1u32, 8].map(u32::to_le_bytes).concat());
            events.extend(b"an event".iter().copied().chain((place as u64).to_le_bytes()));
        }
        let sections = [section(formats), events];
        // Its tracepoints' formats, and what was recorded.
        let features = 1u64 << 1 | 1 << 12;
        let numbers = [104, 80, 104, 0, 104, self.data.len() as u64, 0, 0, features, 0, 0, 0];
        let mut file = b"PERFILE2".to_vec();
        file.extend(numbers.map(u64::to_le_bytes).concat());
        file.extend(&self.data);
        let mut at = file.len() as u64 + 32;
        for section in &sections {
            file.extend([at, section.len() as u64].map(u64::to_le_bytes).concat());
            at += section.len() as u64;
        }
        sections.iter().for_each(|section| file.extend(section));
        file
    }
}
