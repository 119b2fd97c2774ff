// SPDX-License-Identifier: GPL-2.0-only
//! Hosts that have booted, and a guest on them, kept as files: to begin from there instead of
//! booting again.
//!
//! A snapshot is a folder of the cache: `memory`, the host's, from which later hosts copy the
//! pages that they write to; `state`, of all else, as QEMU's migration writes it; and
//! `about.json`.  It is made of a host that is idle, and has nothing of the machine in use but the
//! emulator.

mod qemu;
mod store;

pub use qemu::{load, monitor_socket};

use crate::{
    accel::Accel,
    failure::Failure,
    first_root::for_guests,
    guest::Guest,
    host::Host,
    run_folder::{self, RunFolder},
    spec::{boot_limit, Begin, HostSpec},
};
use anyhow::{Context, Result};
use paratick_build::{cache, initramfs, tools::Tools};
use paratick_core::{
    event::{Events, Step, Warning},
    wire::GuestConfig,
};
use paratick_instruments::noise::NoiseRecorder;
use qemu::save;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};
use store::{dig, discard, home, make_room, About, Fingerprint, Snapshot, ABOUT, MEMORY, STATE};

/// Part of every key: raise it when what is kept changes.
const FORMAT: &str = "snapshot 1";

/// Why a host has to boot: what of it cannot be kept.
pub fn obstacle(spec: &HostSpec, guest: Option<&GuestConfig>) -> Option<&'static str> {
    if !spec.backend.keeps() || spec.emulation.accel.resolve() != Accel::Tcg {
        Some("only the lab's emulated hosts can be kept")
    } else if !spec.disks.is_empty() || guest.is_some_and(has_disk) {
        Some("disks are not kept")
    } else if spec.emulation.stall.is_some() {
        Some("when the next stall is due is not kept")
    } else {
        None
    }
}

fn has_disk(guest: &GuestConfig) -> bool {
    guest.disk.is_some() || guest.root_disk.is_some()
}

/// How long a host that was kept may take to answer; it takes less than a second.
const WAKING: Duration = Duration::from_secs(60);

/// What is asked for, and what it is made of.
struct Wanted<'a> {
    spec: &'a HostSpec,
    guest: Option<&'a GuestConfig>,
    tools: &'a Tools,
    parts: BTreeMap<String, String>,
}

impl Wanted<'_> {
    fn new<'a>(
        spec: &'a HostSpec,
        guest: Option<&'a GuestConfig>,
        tools: &'a Tools,
    ) -> Result<Wanted<'a>> {
        let line = spec.command_line(tools, &run_folder::example()?)?;
        // Everything but the files, whose contents are parts of their own.
        let mut kernels = vec![spec.boot.kernel.clone()];
        let mut asked = guest.cloned();
        if let Some(guest) = &mut asked {
            kernels.push(std::mem::take(&mut guest.kernel));
        }
        let first_roots = kernels.iter().map(|kernel| tools.initramfs_of(kernel));
        let first_roots = first_roots.collect::<Result<Vec<_>>>()?;
        let files: Vec<String> = kernels
            .iter()
            .chain(&first_roots)
            .chain([&tools.qemu])
            .map(|file| file.display().to_string())
            .collect();
        let line = files.iter().fold(line.join("\n"), |line, file| line.replace(file, ""));
        let mut firmware = Vec::new();
        for folder in &tools.firmware {
            firmware.push(folder.join("bios-256k.bin"));
        }
        firmware.retain(|file| file.exists());
        let emulator = [&tools.qemu].into_iter().chain(&firmware);
        let parts = BTreeMap::from([
            ("settings of the host".into(), cache::key([FORMAT, &line].map(str::as_bytes))),
            ("settings of the guest".into(), cache::key([&*serde_json::to_vec(&asked)?])),
            ("kernel".into(), identity(&kernels)?),
            ("emulator".into(), identity(emulator)?),
            ("agent".into(), identity(&first_roots)?),
        ]);
        Ok(Wanted { spec, guest, tools, parts })
    }

    fn key(&self) -> String {
        cache::key(self.parts.values().map(String::as_bytes))
    }
}

/// Hashes paths, sizes and times: what is built goes to new paths, and is never written again.
fn identity<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<String> {
    let mut words = Vec::new();
    for file in files {
        let Fingerprint { bytes, modified_ns } = Fingerprint::of(file)?;
        words.push(format!("{} {bytes} {modified_ns}", file.display()).into_bytes());
    }
    Ok(cache::key(words.iter().map(Vec::as_slice)))
}

/// A host from a snapshot if there can be one, which is made if there is none; else it boots.
pub fn host(spec: HostSpec, tools: &Tools, events: Events) -> Result<Host> {
    resume(spec, None, tools, events).map(|(host, _)| host)
}

/// The same, and a guest that has booted on it.
pub fn host_with(
    spec: HostSpec,
    guest: GuestConfig,
    tools: &Tools,
    events: Events,
) -> Result<(Host, Guest)> {
    let (host, guest) = resume(spec, Some(guest), tools, events)?;
    Ok((host, guest.context("a host without its guest")?))
}

fn resume(
    spec: HostSpec,
    guest: Option<GuestConfig>,
    tools: &Tools,
    events: Events,
) -> Result<(Host, Option<Guest>)> {
    if obstacle(&spec, guest.as_ref()).is_some() {
        return boot(spec, guest, tools, events);
    }
    let wanted = Wanted::new(&spec, guest.as_ref(), tools)?;
    let dir = home()?.join(wanted.key());
    match Snapshot::open(&dir).and_then(|found| found.map(|one| wake(&wanted, &one)).transpose()) {
        Ok(Some(awake)) => return Ok(awake),
        Ok(None) => {
            if let Some(other) = other(&wanted)? {
                events(Warning::OtherSnapshot { other: &other }.into());
            }
        }
        Err(error) => {
            let why = format!("{error:#}");
            events(Warning::BadSnapshot { why: &why }.into());
            discard(&dir);
        }
    }
    let made = make(&wanted, &dir, events).and_then(|()| {
        let made = Snapshot::open(&dir)?.context("the snapshot that was made is gone")?;
        wake(&wanted, &made)
    });
    made.or_else(|error| {
        // A kernel that complained, or did not boot in time, would do so again.
        if matches!(error.downcast_ref(), Some(Failure::Trouble(_) | Failure::TimeLimit { .. })) {
            return Err(error);
        }
        let why = format!("{error:#}");
        events(Warning::NoSnapshot { why: &why }.into());
        boot(spec, guest, tools, events)
    })
}

fn boot(
    spec: HostSpec,
    guest: Option<GuestConfig>,
    tools: &Tools,
    events: Events,
) -> Result<(Host, Option<Guest>)> {
    let host = Host::boot(spec, tools, events)?;
    let guest = guest.map(|guest| {
        events(Step::BootingGuest { vcpus: guest.vcpus, mode: guest.mode }.into());
        host.start_guest(guest)
    });
    let guest = guest.transpose()?;
    Ok((host, guest))
}

fn wake(wanted: &Wanted, snapshot: &Snapshot) -> Result<(Host, Option<Guest>)> {
    let [memory, state] = [MEMORY, STATE].map(|name| snapshot.dir.join(name));
    let begin = Begin::Kept { memory, state };
    let spec = HostSpec { begin, ..wanted.spec.clone() };
    let About { ready, guest, .. } = snapshot.about.clone();
    // A whole system boots when its guest is there.
    let system = wanted.guest.filter(|guest| guest.system.is_some());
    let limit = system.map_or(WAKING, |guest| boot_limit(guest.vcpus));
    Host::woken(spec, wanted.tools, ready, guest, limit)
}

/// What makes the difference to a snapshot that has the same settings.
fn other(wanted: &Wanted) -> Result<Option<String>> {
    for entry in fs_err::read_dir(home()?).into_iter().flatten().flatten() {
        let Ok(text) = fs_err::read_to_string(entry.path().join(ABOUT)) else { continue };
        let Ok(about) = serde_json::from_str::<About>(&text) else { continue };
        let differs = |name: &&String| about.parts.get(*name) != wanted.parts.get(*name);
        let names: Vec<&String> = wanted.parts.keys().filter(differs).collect();
        if !names.iter().any(|name| name.starts_with("settings")) {
            let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            return Ok(Some(names.join(" and ")));
        }
    }
    Ok(None)
}

/// Boots, waits until all is quiet, and keeps it under `dir`, which appears when it is whole.
fn make(wanted: &Wanted, dir: &Path, events: Events) -> Result<()> {
    let home = home()?;
    fs_err::create_dir_all(&home)?;
    make_room(&home, wanted.spec.boot.memory)?;
    // What is left in it by a run that was interrupted goes with the next.
    let folder = RunFolder::create_in(&home.join("new"), false)?;
    let kept = folder.path().join("whole");
    fs_err::create_dir(&kept)?;
    let first = wanted.tools.initramfs_of(&wanted.spec.boot.kernel)?;
    let initramfs = match wanted.guest {
        None => first,
        Some(guest) => {
            let archive = folder.path().join("initramfs");
            let files = for_guests(wanted.tools, &guest.kernel)?;
            initramfs::extend(&first, &files, &archive)?;
            archive
        }
    };
    let [memory, state] = [MEMORY, STATE].map(|name| kept.join(name));
    let begin = Begin::ToKeep { initramfs, memory: memory.clone() };
    let spec = HostSpec { begin, ..wanted.spec.clone() };
    let host = Host::begun(spec, wanted.tools, events)?;
    let guest = wanted.guest.map(|guest| {
        events(Step::BootingGuest { vcpus: guest.vcpus, mode: guest.mode }.into());
        Guest::begun(host.booted(), guest.clone(), boot_limit(guest.vcpus))
    });
    let guest = guest.transpose()?;
    // Who records exits looks for KVM's functions first, and knows them after that.  A kernel that
    // cannot be recorded can be kept.
    if host.start::<NoiseRecorder>().is_ok() {
        host.stop::<NoiseRecorder>()?;
    }
    events(Step::KeepingHost.into());
    save(host.booted(), &state)?;
    let about = About {
        parts: wanted.parts.clone(),
        ready: host.ready().clone(),
        guest: guest.as_ref().map(Guest::kept),
        // What it has is not written before the emulator has ended.
        memory: Fingerprint { bytes: 0, modified_ns: 0 },
        state_sha256: cache::sha256(&state)?,
    };
    drop(host);
    dig(&memory)?;
    let about = About { memory: Fingerprint::of(&memory)?, ..about };
    fs_err::write(kept.join(ABOUT), serde_json::to_string_pretty(&about)? + "\n")?;
    // Another run may have made the same meanwhile, which then is as good.
    match fs_err::rename(&kept, dir) {
        Err(_) if dir.join(ABOUT).is_file() => Ok(()),
        result => Ok(result?),
    }
}
