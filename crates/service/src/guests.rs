// SPDX-License-Identifier: GPL-2.0-only
//! The guests of a host: started, pinned, listened to, ended.

use crate::{
    guest::{self, Places},
    lock,
    monitor::Monitor,
    network,
    outbox::Outbox,
    pin::{self, Pins},
    process::{pin_thread, Kept},
};
use anyhow::{bail, Context, Result};
use paratick_core::wire::{Disk, Frame, GuestConfig, GuestId, GuestTools, Reply};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{mpsc, Arc, Mutex},
    thread,
    time::Duration,
};

pub struct Guests(Arc<Shared>);

struct Shared {
    machine: PathBuf,
    state: PathBuf,
    cpus: u32,
    pins: Mutex<Pins>,
    running: Mutex<HashMap<GuestId, Running>>,
    out: Arc<Outbox>,
}

struct Running {
    qemu: Kept,
    /// To the guest's agent, once connected.
    agent: Option<UnixStream>,
}

impl Guests {
    pub fn new(machine: PathBuf, state: PathBuf, cpus: u32, out: Arc<Outbox>) -> Guests {
        Guests(Arc::new(Shared {
            machine,
            state,
            cpus,
            pins: Mutex::new(Pins::new(cpus)),
            running: Mutex::default(),
            out,
        }))
    }

    /// Starts a guest in the background; what comes of it is told to the machine.
    pub fn start(&self, id: GuestId, config: GuestConfig, tools: GuestTools) {
        let shared = self.0.clone();
        thread::spawn(move || {
            if let Err(error) = shared.start(id, &config, &tools) {
                let running = lock(&shared.running).remove(&id);
                drop(running);
                shared.out.reply(&Reply::GuestEnded { guest: id, why: format!("{error:#}") });
            }
        });
    }

    pub fn stop(&self, id: GuestId) {
        // Dropping it kills it; its console's end then tells the machine.
        let running = lock(&self.0.running).remove(&id);
        thread::spawn(move || drop(running));
    }

    /// Hands a frame of the machine's to a guest's agent.
    pub fn pass_on(&self, id: GuestId, frame: &Frame) {
        let agent = lock(&self.0.running)
            .get(&id)
            .and_then(|running| running.agent.as_ref()?.try_clone().ok());
        if let Some(mut agent) = agent {
            let _ = frame.write(&mut agent);
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // The threads that listen to a guest hold the rest until its QEMU has ended.
        let running = std::mem::take(&mut *lock(&self.0.running));
        drop(running);
    }
}

impl Shared {
    fn start(
        self: &Arc<Self>,
        id: GuestId,
        config: &GuestConfig,
        tools: &GuestTools,
    ) -> Result<()> {
        let places =
            Places { machine: self.machine.clone(), state: self.state.join(format!("guest{id}")) };
        fs_err::create_dir_all(&places.state)?;
        if let Some(Disk::Memory(size)) = &config.disk {
            let disk = fs_err::File::create(places.memory_disk())?;
            disk.set_len(size.bytes())?;
        }
        if config.card.is_some() {
            network::tap(&places.tap())?;
        }
        let line = guest::command_line(config, tools, &places, guest::is_emulated());
        let pins = self.pins_for(config)?;
        let qemu = self.spawn(id, &line, &pins)?;
        let pid = qemu.pid();
        lock(&self.running).insert(id, Running { qemu, agent: None });
        let mut monitor = Monitor::new(self.connect(id, &places.monitor_socket())?)?;
        pin_vcpus(&monitor.vcpu_threads()?, &pins)?;
        let agent = self.connect(id, &places.agent_socket())?;
        self.relay(id, agent)?;
        self.out.reply(&Reply::GuestStarted { guest: id, pid, command_line: line, pins });
        monitor.cont()
    }

    fn pins_for(&self, config: &GuestConfig) -> Result<Vec<u32>> {
        if config.unpinned {
            return Ok(Vec::new());
        }
        if config.pins.is_empty() {
            return Ok(lock(&self.pins).take(config.vcpus));
        }
        if config.pins.len() != config.vcpus as usize {
            bail!(
                "{} pCPUs were named for {} vCPUs\nhint: name one per vCPU, or none",
                config.pins.len(),
                config.vcpus
            );
        }
        Ok(config.pins.clone())
    }

    fn spawn(self: &Arc<Self>, id: GuestId, line: &[String], pins: &[u32]) -> Result<Kept> {
        let mut command = Command::new(&line[0]);
        // Stopped until its vCPUs are pinned.
        command.args(&line[1..]).arg("-S");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (console_ended, wait_console) = mpsc::channel::<()>();
        let (shared, on_end) = (self.clone(), self.clone());
        Kept::spawn(
            command,
            // With no pins these are all.
            Some(pin::housekeeping(self.cpus, pins)),
            move |child| {
                if let Some(console) = child.stdout.take() {
                    let done = console_ended.clone();
                    let shared = shared.clone();
                    thread::spawn(move || shared.pass_console(id, console, done));
                }
                if let Some(errors) = child.stderr.take() {
                    thread::spawn(move || shared.pass_console(id, errors, console_ended));
                }
            },
            move |status| {
                // All that was printed comes before the news of the end.
                let _ = wait_console.recv();
                on_end.out.reply(&Reply::GuestEnded {
                    guest: id,
                    why: format!("its QEMU ended: {status}"),
                });
            },
        )
    }

    /// In whole lines: a guest prints byte by byte, and each message has its cost.
    fn pass_console(&self, id: GuestId, from: impl Read, _done: mpsc::Sender<()>) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).into_owned();
            self.out.reply(&Reply::GuestConsole { guest: id, text });
            line.clear();
        }
    }

    /// Connects once QEMU listens.  There is no time limit here: this host's clock may be an
    /// emulated one that leaps, and the machine watches the real one.
    fn connect(&self, id: GuestId, path: &Path) -> Result<UnixStream> {
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    let running = lock(&self.running);
                    if running.get(&id).is_none_or(|guest| guest.qemu.has_ended()) {
                        return Err(error).with_context(|| {
                            format!("QEMU ended before {} appeared", path.display())
                        });
                    }
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn relay(self: &Arc<Self>, id: GuestId, agent: UnixStream) -> Result<()> {
        let mut from = agent.try_clone()?;
        if let Some(running) = lock(&self.running).get_mut(&id) {
            running.agent = Some(agent);
        }
        let out = self.out.clone();
        thread::spawn(move || {
            while let Ok(Some(frame)) = Frame::read(&mut from) {
                out.send(&frame.to_guest(id));
            }
        });
        Ok(())
    }
}

fn pin_vcpus(threads: &[u32], pins: &[u32]) -> Result<()> {
    for (thread, cpu) in threads.iter().zip(pins) {
        pin_thread(Some(*thread), &[*cpu])
            .with_context(|| format!("pinning a vCPU (thread {thread}) to pCPU {cpu}"))?;
    }
    Ok(())
}
