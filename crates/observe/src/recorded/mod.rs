// SPDX-License-Identifier: GPL-2.0-only
//! Exits in a file that others recorded: perf's perf.data, of this machine or another one.
//!
//! Where fields are, the file itself tells; what an exit was, the code that counts live ones.

mod events;
mod formats;
mod gather;
mod head;
mod lives;

use anyhow::{anyhow, bail, Context, Result};
use events::{Events, Whose};
use formats::{Formats, EXIT};
use gather::{Event, Gather, NO_ENTRY, UNREAD};
use linux_perf_data::{
    linux_perf_event_reader::{EventRecord, RawEventRecord, RecordType},
    Error, Feature, PerfFile, PerfFileReader, PerfFileRecord,
};
use paratick_core::observed::{sum, Observed};
use std::{
    fs::{self, File},
    io::{BufReader, Read, Seek},
    path::Path,
};

/// How to get a file that can be read.
const RECORD: &str = "hint: record with `perf record -a -e 'kvm:*' -o FILE`, or `perf kvm stat \
                      record -a -o FILE`, on a machine with x86 processors";

/// All exits in a file of `perf record`, for [`say_untimed`] once VMs and vCPUs are chosen.  An
/// error says what is wrong with the file, with a hint.
pub fn recorded(file: &Path) -> Result<Observed> {
    open(file).and_then(|file| read(BufReader::new(file))).map_err(|why| match why.to_string() {
        why if why.contains("\nhint: ") => anyhow!(why),
        why => anyhow!("{why}\n{RECORD}"),
    })
}

fn open(file: &Path) -> Result<File> {
    // Before it is opened: the other end of a FIFO may never come.
    let kind = fs::metadata(file)?.file_type();
    if kind.is_dir() {
        bail!("it is a folder, as perf writes with --threads\nhint: record without --threads");
    }
    if !kind.is_file() {
        bail!("it must be a file: it is not read in order\nhint: copy it to a file first");
    }
    Ok(File::open(file)?)
}

/// Says how many of a recording's exits have no time.
pub fn say_untimed(seen: &mut Observed) {
    let exits = seen.vms.iter().flat_map(|vm| &vm.exits);
    let all = sum(exits.filter(|one| *one.kind.reason != *UNREAD));
    let untimed = all.count - all.lengths.iter().sum::<u64>();
    if untimed > 0 && seen.lacks.iter().all(|lack| lack != NO_ENTRY) {
        seen.lacks.push(format!("Without the entry after, and so a time: {untimed}."));
    }
}

fn read(mut file: impl Read + Seek) -> Result<Observed> {
    head::check(&mut file)?;
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(file).map_err(damaged)?;
    let (formats, events) = known(&perf_file)?;
    let mut gather = Gather::of(&formats);
    let mut early = None;
    loop {
        match record_iter.next_record(&mut perf_file) {
            Ok(Some(PerfFileRecord::EventRecord { attr_index, record })) => {
                take(&mut gather, &events, attr_index, &record);
            }
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

fn take(gather: &mut Gather, events: &Events, place: usize, record: &RawEventRecord) {
    match record.record_type {
        RecordType::SAMPLE => sample(gather, events, place, record),
        RecordType::LOST => match record.parse() {
            Ok(EventRecord::Lost(lost)) => gather.lose(lost.count),
            _ => gather.cannot_read(),
        },
        RecordType::LOST_SAMPLES if events.whose(place, record.id()) != Whose::Another => {
            let bytes = record.data.as_slice();
            match bytes.first_chunk() {
                Some(lost) => gather.lose_samples(u64::from_le_bytes(*lost)),
                None => gather.cannot_read(),
            }
        }
        // perf writes those of processes that were there before, too, without a time.
        RecordType::FORK | RecordType::EXIT => match record.parse() {
            Ok(EventRecord::Fork(new)) if new.pid == new.tid && new.timestamp > 0 => {
                gather.begin(new.pid as u32, new.timestamp);
            }
            Ok(EventRecord::Exit(old)) if old.timestamp > 0 => {
                gather.end(old.pid as u32, old.tid as u32, old.timestamp);
            }
            _ => {}
        },
        // Of maps and names.
        _ => {}
    }
}

fn sample(gather: &mut Gather, events: &Events, place: usize, record: &RawEventRecord) {
    let tracepoint = match events.whose(place, record.id()) {
        Whose::Kvm(number) => number,
        Whose::Another => {
            if let Some(at_ns) = record.timestamp() {
                gather.see(at_ns);
            }
            return;
        }
        Whose::Unknown => return gather.cannot_read(),
    };
    let Ok(EventRecord::Sample(sample)) = record.parse() else { return gather.cannot_read() };
    let data = sample.raw.map(|raw| raw.as_slice()).unwrap_or_default();
    if formats::number(&data) != Some(tracepoint) {
        return gather.cannot_read();
    }
    let number = |number: Option<i32>| number.map(|number| number as u32);
    let (process, thread) = (number(sample.pid), number(sample.tid));
    if events.are_repeated && gather.is_again(place, process.zip(thread), &data) {
        return;
    }
    gather.take(&Event { at_ns: sample.timestamp, process, thread, data: &data });
}

/// The events that tell of exits.
fn known(file: &PerfFile) -> Result<(Formats, Events)> {
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
    let events = Events::of(file.event_attributes(), &mut formats)?;
    let Some(exit) = formats.of(EXIT) else {
        bail!("it has no tracepoint {EXIT}, and so no exit");
    };
    for field in ["exit_reason", "isa", "info1", "info2", "intr_info", "vcpu_id"] {
        if !exit.has(field) {
            bail!("its {EXIT} has no field {field}: that Linux is too old, or not known");
        }
    }
    Ok((formats, events))
}

fn damaged(error: Error) -> anyhow::Error {
    anyhow!("it cannot be read as a perf.data: {error}")
}

#[cfg(test)]
mod made;
#[cfg(test)]
mod made_tests;
#[cfg(test)]
mod tests;
