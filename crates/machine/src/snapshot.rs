// SPDX-License-Identifier: GPL-2.0-only
//! Hosts that have booted, and a guest on them, kept as files: to begin from there instead of
//! booting again.
//!
//! A snapshot is a folder of the cache: `memory`, the host's, from which later hosts copy the pages
//! that they write to; `state`, of all else, as QEMU's migration writes it; and `about.json`.  It is
//! made of a host that is idle, and has nothing of the machine in use but the emulator.

use crate::{
    accel::Accel,
    booted::Booted,
    failure::Failure,
    first_root::for_guests,
    guest::{Guest, KeptGuest},
    host::Host,
    run_folder::{self, RunFolder},
    spec::{boot_limit, Begin, HostSpec},
};
use anyhow::{bail, ensure, Context, Result};
use paratick_build::{cache, initramfs, tools::Tools};
use paratick_core::{
    event::{Events, Step, Warning},
    size::Size,
    wire::{GuestConfig, Ready},
};
use paratick_service::monitor::Monitor;
use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::unix::{
        fs::{FileExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Part of every key: raise it when what is kept changes.
const FORMAT: &str = "snapshot 1";
const MEMORY: &str = "memory";
const STATE: &str = "state";
const ABOUT: &str = "about.json";

/// All snapshots together take no more room; those that were not used for longest go.
const MOST: Size = Size::mib(6 << 10);
/// Room that is left to others, beyond what one snapshot may take.
const SPARE: Size = Size::mib(256);

/// How long a host is left alone before it is kept: what it still had to do after its boot is then
/// done.  It has nothing to wait for, so its own clock goes on by many seconds.
const SETTLES: Duration = Duration::from_millis(300);
/// How often it is looked at until all CPUs are idle at once.
const LOOKS: u32 = 2000;
/// How long saving or loading a state may take.
const MOVING: Duration = Duration::from_secs(120);

pub fn monitor_socket(run: &Path) -> PathBuf {
    run.join("monitor")
}

/// Why a host has to boot: what of it cannot be kept.
pub fn obstacle(spec: &HostSpec, guest: Option<&GuestConfig>) -> Option<&'static str> {
    if !spec.backend.keeps() || spec.emulation.accel.resolve() != Accel::Tcg {
        Some("only the lab's emulated hosts can be kept")
    } else if !spec.disks.is_empty() || guest.is_some_and(|guest| guest.disk.is_some()) {
        Some("disks are not kept")
    } else if spec.emulation.stall.is_some() {
        Some("when the next stall is due is not kept")
    } else {
        None
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct About {
    /// What it was made of, each by its name: a hash.
    parts: BTreeMap<String, String>,
    memory: Fingerprint,
    state_sha256: String,
    ready: Ready,
    guest: Option<KeptGuest>,
}

/// Tells whether a file was written to, without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprint {
    bytes: u64,
    modified_ns: i128,
}

impl Fingerprint {
    fn of(file: &Path) -> Result<Fingerprint> {
        let found = fs_err::metadata(file)?;
        let modified_ns =
            i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(Fingerprint { bytes: found.len(), modified_ns })
    }
}

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
            .chain(&tools.plugin)
            .map(|file| file.display().to_string())
            .collect();
        let line = files.iter().fold(line.join("\n"), |line, file| line.replace(file, ""));
        let mut firmware = Vec::new();
        for folder in &tools.firmware {
            firmware.push(folder.join("bios-256k.bin"));
        }
        firmware.retain(|file| file.exists());
        let emulator = [&tools.qemu].into_iter().chain(&tools.plugin).chain(&firmware);
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

/// One of the cache, which stays while this is held.
struct Snapshot {
    dir: PathBuf,
    about: About,
    _used: File,
}

impl Snapshot {
    /// None where there is none; an error where it is not as it was made.
    fn open(dir: &Path) -> Result<Option<Snapshot>> {
        let about = dir.join(ABOUT);
        let Ok(mut file) = File::open(&about) else {
            ensure!(!dir.exists(), "it is not whole");
            return Ok(None);
        };
        flock(&file, FlockOperation::LockShared).context("locking it")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let about: About = serde_json::from_str(&text).context("about.json cannot be read")?;
        let memory = dir.join(MEMORY);
        ensure!(Fingerprint::of(&memory)? == about.memory, "its memory was written to");
        ensure!(cache::sha256(&dir.join(STATE))? == about.state_sha256, "its state has changed");
        // Tells which were not used for long; nothing depends on it.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(Snapshot { dir: dir.into(), about, _used: file }))
    }

    fn begin(&self) -> Begin {
        Begin::Kept { memory: self.dir.join(MEMORY), state: self.dir.join(STATE) }
    }
}

fn home() -> Result<PathBuf> {
    Ok(cache::dir()?.join("snapshot"))
}

/// A host, and the guest on it if one is asked for, as they are when they have booted.  They begin
/// from a snapshot, which is made if there is none; or boot, where there can be none.
pub fn resume(
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
    let spec = HostSpec { begin: snapshot.begin(), ..wanted.spec.clone() };
    let About { ready, guest, .. } = snapshot.about.clone();
    Host::woken(spec, wanted.tools, ready, guest)
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
    let kept = folder.path().join("kept");
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

/// Writes the state of a host in which nothing runs.
fn save(host: &Booted, to: &Path) -> Result<()> {
    host.link.check()?;
    thread::sleep(SETTLES);
    let mut monitor = Monitor::new(UnixStream::connect(monitor_socket(host.run.path()))?)?;
    let mut looks = 0;
    loop {
        monitor.ask("stop", json!({}))?;
        let registers = json!({ "command-line": "info registers -a" });
        let said = monitor.ask("human-monitor-command", registers)?;
        if said.as_str().is_some_and(all_halted) {
            break;
        }
        looks += 1;
        ensure!(looks < LOOKS, "its CPUs are never idle");
        monitor.ask("cont", json!({}))?;
        thread::sleep(Duration::from_millis(u64::from(looks % 3)));
    }
    leave_memory(&mut monitor)?;
    monitor.ask("migrate", json!({ "uri": format!("exec:cat >{}", quote(to)) }))?;
    moved(&mut monitor).context("saving it")?;
    host.link.check()
}

/// Waits until QEMU has written or read the state.
fn moved(monitor: &mut Monitor) -> Result<()> {
    let begun = Instant::now();
    loop {
        let said = monitor.ask("query-migrate", json!({}))?;
        match said["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                bail!("QEMU failed: {}", said["error-desc"].as_str().unwrap_or("it says no more"))
            }
            _ if begun.elapsed() > MOVING => bail!("QEMU takes too long"),
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Lets a QEMU that waits for it go on from a state that was saved.
pub fn load(monitor: UnixStream, state: &Path) -> Result<()> {
    let mut monitor = Monitor::new(monitor)?;
    leave_memory(&mut monitor)?;
    monitor.ask("migrate-incoming", json!({ "uri": format!("exec:cat {}", quote(state)) }))?;
    moved(&mut monitor)?;
    monitor.cont()
}

/// Memory that is a file is no part of the state.
fn leave_memory(monitor: &mut Monitor) -> Result<()> {
    let shared = json!({ "capability": "x-ignore-shared", "state": true });
    monitor.ask("migrate-set-capabilities", json!({ "capabilities": [shared] })).map(drop)
}

fn quote(path: &Path) -> String {
    paratick_core::shell::quote(&path.display().to_string())
}

/// Whether QEMU's registers of all CPUs say that nothing runs: none of them is in a guest then.
fn all_halted(registers: &str) -> bool {
    let halted = registers.matches(" HLT=1").count();
    halted > 0 && halted == registers.matches(" HLT=").count()
}

/// Gives back what a file has of zeros.
fn dig(file: &Path) -> Result<()> {
    const PIECE: usize = 64 << 10;
    let file = fs_err::OpenOptions::new().read(true).write(true).open(file)?;
    let file = file.file();
    let mut bytes = vec![0; PIECE];
    let end = file.metadata()?.len();
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(data)).unwrap_or(end);
        at = data;
        while at < hole {
            let length = PIECE.min((hole - at) as usize);
            file.read_exact_at(&mut bytes[..length], at)?;
            if bytes[..length].iter().all(|byte| *byte == 0) {
                use rustix::fs::{fallocate, FallocateFlags};
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Some file systems cannot.
                let _ = fallocate(file, flags, at, length as u64);
            }
            at += length as u64;
        }
    }
    Ok(())
}

/// Removes what was not used for longest until there is room for one more, of this memory.
fn make_room(home: &Path, memory: Size) -> Result<()> {
    let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs_err::read_dir(home)?.flatten() {
        let dir = entry.path();
        let Ok(about) = fs_err::metadata(dir.join(ABOUT)) else { continue };
        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        all.push((used, room(&dir.join(MEMORY)), dir));
    }
    all.sort();
    let mut total: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, dir) in all {
        if total <= MOST.bytes() && free(home)? >= memory.bytes() + SPARE.bytes() {
            break;
        }
        if discard(&dir) {
            total = total.saturating_sub(bytes);
        }
    }
    let free = free(home)?;
    ensure!(
        free >= memory.bytes() + SPARE.bytes(),
        "{} MiB are free in {}, and its memory has {} MiB",
        free >> 20,
        home.display(),
        memory.in_mib()
    );
    Ok(())
}

/// What a sparse file takes.
fn room(file: &Path) -> u64 {
    fs_err::metadata(file).map_or(0, |found| found.blocks() * 512)
}

fn free(folder: &Path) -> Result<u64> {
    let free = rustix::fs::statvfs(folder).context("asking for free disk space")?;
    Ok(free.f_bavail.saturating_mul(free.f_frsize))
}

/// Removes a snapshot; not while another run begins from it.
fn discard(dir: &Path) -> bool {
    let used = File::open(dir.join(ABOUT))
        .is_ok_and(|about| flock(&about, FlockOperation::NonBlockingLockExclusive).is_err());
    !used && fs_err::remove_dir_all(dir).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_quiet_when_all_of_its_cpus_are_halted() {
        let cpu = |halted| format!("EIP=000 EFL=00 CPL=0 II=0 A20=1 SMM=0 HLT={halted}\nES =0\n");
        assert!(all_halted(&[cpu(1), cpu(1)].concat()));
        assert!(!all_halted(&[cpu(1), cpu(0)].concat()));
        assert!(!all_halted(""));
    }

    #[test]
    fn zeros_take_no_room_and_the_rest_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![0_u8; 1 << 20];
        bytes[300_000] = 7;
        fs_err::write(file.path(), &bytes).unwrap();
        let before = room(file.path());
        dig(file.path()).unwrap();
        assert!(room(file.path()) <= before);
        assert_eq!(fs_err::read(file.path()).unwrap(), bytes);
    }

    #[test]
    fn what_is_damaged_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("one");
        assert!(Snapshot::open(&dir).unwrap().is_none());
        fs_err::create_dir(&dir).unwrap();
        assert!(Snapshot::open(&dir).is_err());
        for name in [MEMORY, STATE] {
            fs_err::write(dir.join(name), name).unwrap();
        }
        let about = About {
            parts: BTreeMap::new(),
            memory: Fingerprint::of(&dir.join(MEMORY)).unwrap(),
            state_sha256: cache::sha256(&dir.join(STATE)).unwrap(),
            ready: Ready::default(),
            guest: None,
        };
        fs_err::write(dir.join(ABOUT), serde_json::to_string(&about).unwrap()).unwrap();
        let open = Snapshot::open(&dir).unwrap().unwrap();
        assert!(!discard(&dir), "it is in use");
        drop(open);
        fs_err::write(dir.join(STATE), "x").unwrap();
        assert!(Snapshot::open(&dir).err().unwrap().to_string().contains("state"));
        fs_err::write(dir.join(STATE), STATE).unwrap();
        assert!(Snapshot::open(&dir).unwrap().is_some());
        thread::sleep(Duration::from_millis(10));
        fs_err::write(dir.join(MEMORY), "MEMORY").unwrap();
        assert!(Snapshot::open(&dir).err().unwrap().to_string().contains("memory"));
        assert!(discard(&dir) && !dir.exists());
    }
}
