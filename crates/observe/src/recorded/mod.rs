// SPDX-License-Identifier: GPL-2.0-only
//! Exits in a file that others recorded: perf's perf.data, of this machine or another one.
//!
//! Where fields are, the file itself tells; what an exit was, the code that counts live ones.

mod events;
mod formats;
mod gather;
mod head;

use anyhow::{anyhow, bail, Context, Result};
use formats::{Formats, EXIT};
use gather::{Event, Gather};
use linux_perf_data::{
    linux_perf_event_reader::{EventRecord, RecordType},
    Error, Feature, PerfFile, PerfFileReader, PerfFileRecord,
};
use paratick_core::observed::Observed;
use std::{
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
};

/// How to get a file that can be read.
const RECORD: &str = "hint: record with `perf record -a -e 'kvm:*' -o FILE`, or `perf kvm stat \
                      record -a -o FILE`, on a machine with x86 processors";

/// All exits in a file of `perf record`.  An error says what is wrong with the file, with a hint.
pub fn recorded(file: &Path) -> Result<Observed> {
    let opened = File::open(file).map_err(anyhow::Error::from);
    opened.and_then(|file| read(BufReader::new(file))).map_err(|why| match why.to_string() {
        why if why.contains("\nhint: ") => anyhow!(why),
        why => anyhow!("{why}\n{RECORD}"),
    })
}

fn read(mut file: impl Read + Seek) -> Result<Observed> {
    head::check(&mut file)?;
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).map_err(damaged)?;
    let formats = known(&perf_file)?;
    let mut gather = Gather::of(&formats);
    let mut early = None;
    loop {
        match record_iter.next_record(&mut perf_file) {
            Ok(Some(PerfFileRecord::EventRecord { record, .. })) => match record.parse() {
                Ok(EventRecord::Sample(sample)) => {
                    let number = |number: Option<i32>| number.map(|number| number as u32);
                    gather.take(&Event {
                        at_ns: sample.timestamp,
                        process: number(sample.pid),
                        thread: number(sample.tid),
                        data: &sample.raw.map(|raw| raw.as_slice()).unwrap_or_default(),
                    });
                }
                Ok(EventRecord::Lost(lost)) => gather.lose(lost.count),
                Ok(_) => {}
                Err(_) if record.record_type == RecordType::SAMPLE => gather.cannot_read(),
                // Of maps, names and processes.
                Err(_) => {}
            },
            Ok(Some(PerfFileRecord::UserRecord(_))) => {}
            Ok(None) => break,
            Err(error) => {
                early = Some(error.to_string());
                break;
            }
        }
    }
    let why = match &early {
        Some(error) => format!("it cannot be read to its first exit: {error}"),
        None if gather.has_entries() => {
            "it has entries and no exit: a BPF program at kvm_exit that returns 0 hid them".into()
        }
        None => "it has no exit".into(),
    };
    gather.finish(early).context(why)
}

/// The events that tell of exits.
fn known(file: &PerfFile) -> Result<Formats> {
    let arch = file.arch().ok().flatten().unwrap_or("x86_64");
    if !matches!(arch, "x86_64" | "i386" | "i486" | "i586" | "i686") {
        bail!("it was recorded on {arch}, whose exits are others than those of x86");
    }
    if file.features().has_feature(Feature::COMPRESSED) {
        bail!("it is compressed, as `perf record -z` does");
    }
    let Some(data) = file.feature_section_data(Feature::TRACING_DATA) else {
        bail!("it has no tracepoint, and so no exit");
    };
    let mut formats =
        Formats::parse(data).context("what it says of its tracepoints cannot be read")?;
    events::check(file.event_attributes(), &mut formats)?;
    let Some(exit) = formats.of(EXIT) else {
        bail!("it has no tracepoint {EXIT}, and so no exit");
    };
    for field in ["exit_reason", "isa", "info1", "info2", "intr_info", "vcpu_id"] {
        if !exit.has(field) {
            bail!("its {EXIT} has no field {field}: that Linux is too old, or not known");
        }
    }
    Ok(formats)
}

fn damaged(error: Error) -> anyhow::Error {
    anyhow!("it cannot be read as a perf.data: {error}")
}

#[cfg(test)]
mod made;
#[cfg(test)]
mod tests;
