// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's tracefs: what its events look like, traces of our own, and probes that count
//! (Documentation/trace/{events,ftrace,kprobetrace,histogram}.rst).
//!
//! What is made here is removed when it is dropped.

use anyhow::{bail, Context, Result};
use rustix::mount::{mount, MountFlags};
use std::{
    collections::BTreeMap,
    fmt::Display,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where kernels mount it, and where older ones did.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

const LOAD_KVM: &str = "hint: load KVM (modprobe kvm_amd or kvm_intel), and be root";

pub struct Tracefs(PathBuf);

impl Tracefs {
    /// Mounts it where nobody has.
    pub fn open() -> Result<Tracefs> {
        let is_there = |place: &&str| Path::new(place).join("events").is_dir();
        let find = || PLACES.into_iter().find(is_there);
        let mounted = || {
            mount("tracefs", PLACES[0], "tracefs", MountFlags::NOSUID, None).ok()?;
            find()
        };
        let place = find().or_else(mounted);
        let denied = || {
            let read = std::fs::read_dir(PLACES[0]);
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        if place.is_none() && denied() {
            bail!("{} may not be read by this user\nhint: be root", PLACES[0]);
        }
        Ok(Tracefs(place.map(PathBuf::from).context(
            "there is no tracefs, and none can be mounted at /sys/kernel/tracing\n\
             hint: be root, on a kernel with CONFIG_FTRACE",
        )?))
    }

    /// Whether there is an `event`, given as `kvm/kvm_exit`.
    pub fn has(&self, event: &str) -> bool {
        self.0.join("events").join(event).is_dir()
    }

    /// Whether there is a tracer of this name.
    pub fn has_tracer(&self, name: &str) -> bool {
        let all = std::fs::read_to_string(self.0.join("available_tracers")).unwrap_or_default();
        all.split_ascii_whitespace().any(|one| one == name)
    }

    /// Those of `events` that there are; an error if one is missing that is needed.
    pub fn present<'a>(
        &self,
        events: impl IntoIterator<Item = &'a (&'a str, bool)>,
    ) -> Result<Vec<&'a str>> {
        let mut present = Vec::new();
        for (event, needed) in events {
            if self.has(event) {
                present.push(*event);
            } else if *needed {
                bail!("tracepoint {event} is missing\n{LOAD_KVM}");
            }
        }
        Ok(present)
    }

    /// What perf calls the event.
    pub fn number(&self, event: &str) -> Result<u64> {
        let text = fs_err::read_to_string(self.0.join("events").join(event).join("id"))?;
        text.trim().parse().with_context(|| format!("the number of {event} is {text:?}"))
    }

    pub fn format(&self, event: &str) -> Result<Format> {
        let path = self.0.join("events").join(event).join("format");
        let text = fs_err::read_to_string(&path)
            .with_context(|| format!("tracepoint {event} is missing\n{LOAD_KVM}"))?;
        Ok(Format::parse(&text))
    }

    /// What is in one of its files, without blanks at the ends.
    pub fn read(&self, file: &str) -> Result<String> {
        Ok(fs_err::read_to_string(self.0.join(file))?.trim().to_string())
    }

    /// Writes to one of its files, such as `osnoise/period_us`.
    pub fn set(&self, file: &str, value: impl Display) -> Result<()> {
        append(&self.0.join(file), &value.to_string())
    }

    /// A trace beside the kernel's own, with settings and events of its own; it is off.
    pub fn instance(&self, name: &str) -> Result<Instance> {
        let instances = self.0.join("instances");
        remove_orphans(&instances);
        let path = instances.join(format!("paratick-{name}-{}", std::process::id()));
        fs_err::create_dir(&path)?;
        live().push(path.clone());
        let instance = Instance(path);
        instance.set("tracing_on", 0)?;
        Ok(instance)
    }

    /// Defines a probe and begins to count its hits, by what `histogram` names.
    pub fn count(&self, definition: &str, histogram: &'static str) -> Result<Histogram> {
        let event = definition.split([':', ' ']).nth(1).context("a probe without a name")?;
        let probe = Histogram { tracefs: self.0.clone(), event: event.to_string(), histogram };
        // What a process that was killed left behind.
        probe.remove();
        append(&self.0.join("kprobe_events"), definition)?;
        append(&probe.file("trigger"), histogram)?;
        Ok(probe)
    }
}

/// A trace; see [`Tracefs::instance`].
pub struct Instance(PathBuf);

impl Instance {
    /// Writes to one of its files, such as `trace_clock` or `events/kvm/kvm_exit/enable`.
    pub fn set(&self, file: &str, value: impl Display) -> Result<()> {
        append(&self.0.join(file), &value.to_string())
    }

    pub fn trace(&self) -> Result<String> {
        Ok(fs_err::read_to_string(self.0.join("trace"))?)
    }

    /// What the kernel says of the buffers of all CPUs.
    pub fn stats(&self) -> Result<String> {
        let mut all = String::new();
        for cpu in fs_err::read_dir(self.0.join("per_cpu"))? {
            all += &fs_err::read_to_string(cpu?.path().join("stats"))?;
        }
        Ok(all)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about what fails here.
        self.set("events/enable", 0).ok();
        std::fs::remove_dir(&self.0).ok();
        live().retain(|path| *path != self.0);
    }
}

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For whoever ends this process at once: its traces would go on, and with them their tracers.
pub fn end_traces() {
    let all = std::mem::take(&mut *live());
    all.into_iter().map(Instance).for_each(drop);
}

/// Removes the traces of processes that were killed.
fn remove_orphans(instances: &Path) {
    for entry in std::fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("paratick-").and_then(|name| name.rsplit_once('-'));
        if process.is_some_and(|(_, pid)| !Path::new("/proc").join(pid).exists()) {
            drop(Instance(entry.path()));
        }
    }
}

pub struct Histogram {
    tracefs: PathBuf,
    /// Group and name.
    event: String,
    histogram: &'static str,
}

impl Histogram {
    /// How often each key was hit.
    pub fn counts(&self) -> Result<BTreeMap<String, u64>> {
        Ok(counts(&fs_err::read_to_string(self.file("hist"))?))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.tracefs.join("events").join(&self.event).join(name)
    }

    fn remove(&self) {
        // All fails of what was not begun.
        append(&self.file("trigger"), &format!("!{}", self.histogram)).ok();
        append(&self.tracefs.join("kprobe_events"), &format!("-:{}", self.event)).ok();
    }
}

impl Drop for Histogram {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Truncating some of these files would clear what others put into them.
fn append(file: &Path, line: &str) -> Result<()> {
    let mut file = fs_err::OpenOptions::new().append(true).open(file)?;
    file.write_all(line.as_bytes()).with_context(|| format!("writing {line:?}"))
}

/// The counts of a histogram with one key: by symbol, where the key is one, else by its number.
///
/// `{ function: [ffffffff81784890] mt_free_rcu      } hitcount:       1184`
fn counts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((key, count)) = line.split_once("} hitcount:") else { continue };
        let name = key.split_ascii_whitespace().last();
        if let (Some(name), Ok(count)) = (name, count.trim().parse::<u64>()) {
            *counts.entry(name.to_string()).or_default() += count;
        }
    }
    counts
}

/// A tracepoint's fields: name, offset, size.
#[derive(Debug, PartialEq, Eq)]
pub struct Format(Vec<(String, u32, u32)>);

impl Format {
    /// Of the text of its `format` file.
    pub fn parse(text: &str) -> Format {
        Format(text.lines().filter_map(parse_field).collect())
    }

    /// The offset of a field that must have `size` bytes.
    pub fn offset(&self, name: &str, size: u32) -> Result<u32> {
        match self.0.iter().find(|field| field.0 == name) {
            Some((_, offset, found)) if *found == size => Ok(*offset),
            Some((_, _, found)) => bail!("field {name} has {found} bytes, not {size}"),
            None => bail!("field {name} is missing"),
        }
    }

    /// The number that a record of a little-endian machine has in a field; none where there is no
    /// such field, or the record ends before it.
    pub fn number(&self, record: &[u8], name: &str) -> Option<u64> {
        let (_, offset, size) = self.0.iter().find(|field| field.0 == name)?;
        let (offset, size) = (*offset as usize, *size as usize);
        let bytes = record.get(offset..offset.checked_add(size)?)?;
        let mut number = [0; 8];
        number.get_mut(..size)?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(number))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|field| field.0 == name)
    }
}

/// Parses `field:unsigned int vcpu_id; offset:60; size:4; signed:0;`, with tabs between the parts.
fn parse_field(line: &str) -> Option<(String, u32, u32)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.rsplit([' ', '*']).next()?;
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name.to_string(), offset, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: kvm_exit\nID: 321\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:u64 info1;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"vcpu %u\", REC->vcpu_id\n";

    #[test]
    fn fields_are_found_with_their_offsets() {
        let format = Format::parse(FORMAT);
        assert_eq!(format.offset("exit_reason", 4).unwrap(), 8);
        assert_eq!(format.offset("function", 8).unwrap(), 16);
        assert_eq!(format.offset("info1", 8).unwrap(), 32);
    }

    #[test]
    fn a_number_is_read_at_its_place_and_size() {
        let format = Format::parse(FORMAT);
        let record: Vec<u8> = (0..40).collect();
        assert_eq!(format.number(&record, "common_type"), Some(0x100));
        assert_eq!(format.number(&record, "info1"), Some(0x2726_2524_2322_2120));
        assert_eq!(format.number(&record[..39], "info1"), None);
        assert_eq!(format.number(&record, "vcpu_id"), None);
        assert!(format.has("info1") && !format.has("vcpu_id"));
    }

    #[test]
    fn a_missing_or_resized_field_is_an_error() {
        let format = Format::parse(FORMAT);
        assert!(format.offset("vcpu_id", 4).is_err());
        assert!(format.offset("info1", 4).is_err());
    }

    const HISTOGRAM: &str = "# event histogram
#
# trigger info: hist:keys=function.sym:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ function: [ffffffff813a8900] netfs_free_request_rcu                   } hitcount:        216
{ function: [ffffffff81784890] mt_free_rcu                              } hitcount:       1184

Totals:
    Hits: 1400
    Entries: 2
    Dropped: 0
";

    #[test]
    fn a_histogram_is_read_by_its_key() {
        let read = counts(HISTOGRAM);
        assert_eq!(read.len(), 2);
        assert_eq!(read["netfs_free_request_rcu"], 216);
        assert_eq!(read["mt_free_rcu"], 1184);
        let by_pid = counts("{ common_pid:          0 } hitcount:        172\n");
        assert_eq!(by_pid.values().sum::<u64>(), 172);
        assert!(counts("\nTotals:\n    Hits: 0\n").is_empty());
    }

    /// Files stand in for the kernel's.
    fn fake(name: &str) -> Tracefs {
        let root = std::env::temp_dir().join(format!("paratick-{name}-{}", std::process::id()));
        fs_err::create_dir_all(root.join("instances")).unwrap();
        Tracefs(root)
    }

    #[test]
    fn a_trace_of_a_process_that_is_gone_is_removed_and_others_stay() {
        let tracefs = fake("orphans");
        let instances = tracefs.0.join("instances");
        for name in ["paratick-events-4999999", "paratick-events-1", "someone"] {
            fs_err::create_dir(instances.join(name)).unwrap();
        }
        remove_orphans(&instances);
        let mut left: Vec<_> =
            fs_err::read_dir(&instances).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["paratick-events-1", "someone"]);
        fs_err::remove_dir_all(&tracefs.0).unwrap();
    }

    #[test]
    fn traces_end_with_their_process() {
        let tracefs = fake("ending");
        fs_err::create_dir_all(tracefs.0.join("instances")).unwrap();
        // The kernel fills a new folder.
        let path = tracefs.0.join("instances/paratick-x-1");
        fs_err::create_dir(&path).unwrap();
        live().push(path.clone());
        end_traces();
        assert!(!path.exists() && !live().contains(&path));
        fs_err::remove_dir_all(&tracefs.0).unwrap();
    }

    #[test]
    fn a_probe_is_removed_with_its_histogram() {
        let tracefs = fake("probe");
        let event = tracefs.0.join("events/paratick/kept");
        fs_err::create_dir_all(&event).unwrap();
        let files = [tracefs.0.join("kprobe_events"), event.join("trigger")];
        for file in &files {
            fs_err::write(file, "").unwrap();
        }
        drop(tracefs.count("r:paratick/kept some_function", "hist:keys=common_pid").unwrap());
        let [probes, triggers] = files.map(|file| fs_err::read_to_string(file).unwrap());
        assert!(probes.ends_with("r:paratick/kept some_function-:paratick/kept"), "{probes}");
        assert!(triggers.ends_with("hist:keys=common_pid!hist:keys=common_pid"), "{triggers}");
        fs_err::remove_dir_all(&tracefs.0).unwrap();
    }
}
