// SPDX-License-Identifier: GPL-2.0-only
//! A host: a kernel with KVM, emulated here or this machine itself.

use crate::{
    accel::{kvm_works, Accel},
    exec::{self, Exec, ExecResult, Finished, OutputSink},
    failure::Failure,
    guest::{Guest, GuestSpec},
    link::{place, ConsoleSink, Incoming, Link, HOST},
    qemu,
    run_folder::RunFolder,
};
use anyhow::{bail, Context, Result};
use paratick_build::{
    progress::{Event, Events},
    tools::Tools,
};
use paratick_core::{
    exits::WindowCounts,
    size::Size,
    wire::{GuestId, Ready, Request, VERSION},
};
use paratick_service::{
    process::Kept,
    serve::{self, Role},
};
use std::{
    fs::File,
    io::Read,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// A host to boot.
#[derive(Clone)]
pub struct HostSpec {
    pub cpus: u32,
    pub memory: Size,
    pub kernel: PathBuf,
    /// Further kernel parameters.
    pub append: Vec<String>,
    /// Scratch disks for guests, empty and sparse.
    pub disks: Vec<Size>,
    /// Count world switches in the emulator ([`Host::world_switches`] says where).
    pub plugin_out: bool,
    /// Wall-clock limit of the boot.
    pub timeout: Duration,
    pub accel: Accel,
    pub clock: Clock,
    /// Virtual time in ns that the emulator charges for each world switch; 0: none.
    pub exit_cost_ns: u32,
    /// CPUs that are busy at the same time share virtual time, as if the emulator ran them in
    /// parallel; else the instructions of all are added up.
    pub parallel_clock: bool,
    pub place: Place,
    /// Keep the run's folder.
    pub keep: bool,
    /// Gets every console line of host and guests.
    pub console: Option<ConsoleSink>,
}

/// How an emulated host's time passes while nothing runs in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// It leaps to the next timer: nothing waits for nothing.
    #[default]
    Leaping,
    /// As on the machine: for people at a shell.
    Real,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Lab,
    /// This machine is the host.
    Here,
}

impl HostSpec {
    /// A host for guests of `vcpus` and `memory` in all: one CPU and 1 GiB more are its own.
    pub fn for_guests(kernel: impl Into<PathBuf>, vcpus: u32, memory: Size) -> HostSpec {
        let cpus = vcpus + 1;
        HostSpec {
            cpus,
            memory: memory + Size::mib(1024),
            kernel: kernel.into(),
            append: Vec::new(),
            disks: Vec::new(),
            plugin_out: false,
            timeout: boot_limit(cpus),
            accel: Accel::Auto,
            clock: Clock::Leaping,
            exit_cost_ns: 0,
            parallel_clock: false,
            place: Place::Lab,
            keep: false,
            console: None,
        }
    }

    /// The command line this host would be started with, for showing; empty where the machine is
    /// the host.
    pub fn command_line(&self, tools: &Tools, run: &Path) -> Vec<String> {
        match self.place {
            Place::Lab => qemu::command_line(self, tools, run),
            Place::Here => Vec::new(),
        }
    }
}

/// Generous, for machines that are busy with other things: an idle one needs a tenth.
pub fn boot_limit(cpus: u32) -> Duration {
    Duration::from_secs(120 + 10 * u64::from(cpus))
}

/// A running host.  Dropping it ends it and its guests.
pub struct Host {
    shared: Arc<Shared>,
    ready: Ready,
}

/// What guests need of their host.
pub(crate) struct Shared {
    pub link: Arc<Link>,
    pub spec: HostSpec,
    pub tools: Tools,
    command_line: Vec<String>,
    // In this order: the emulator ends before its folder goes.
    emulator: Option<Kept>,
    /// Closing it ends the service that runs in this process.
    service: Option<UnixStream>,
    pub run: RunFolder,
}

impl Host {
    pub fn boot(spec: HostSpec, tools: &Tools, events: Events) -> Result<Host> {
        let deadline = Instant::now() + spec.timeout;
        let run = RunFolder::create(spec.keep)?;
        let link = Link::new(spec.console.clone());
        let mut shared = Shared {
            link,
            command_line: spec.command_line(tools, run.path()),
            spec,
            tools: tools.clone(),
            emulator: None,
            service: None,
            run,
        };
        match shared.spec.place {
            Place::Lab => shared.start_emulator(deadline, events),
            Place::Here => shared.start_service(),
        }
        .and_then(|()| shared.ready(HOST, deadline))
        .map_err(|error| shared.explain(HOST, error))
        .map(|ready| Host {
            shared: Arc::new(shared),
            ready,
        })
    }

    /// Starts a guest and waits until its agent answers.
    pub fn start_guest(&self, spec: GuestSpec) -> Result<Guest> {
        Guest::start(&self.shared, spec)
    }

    /// Runs a command on the host.
    pub fn exec(&self, exec: Exec) -> Result<ExecResult> {
        exec::collect(&self.shared.link, HOST, exec)
    }

    /// Runs a command on the host, handing out its output as it comes.
    pub fn exec_streaming(&self, exec: Exec, sink: OutputSink) -> Result<Finished> {
        exec::stream(&self.shared.link, HOST, exec, sink)
    }

    /// Counts exits from now on; forgets the windows that were closed before.
    pub fn counting_start(&self) -> Result<()> {
        let link = &self.shared.link;
        link.ask(HOST, |session| Request::StartCounting { session })
            .map(drop)
    }

    /// The windows that guests closed since, of all guests; [`Guest::windows`] has one guest's.
    pub fn windows(&self) -> Result<Vec<WindowCounts>> {
        self.shared.windows()
    }

    /// As it was started; empty where the machine is the host.
    pub fn command_line(&self) -> &[String] {
        &self.shared.command_line
    }

    /// What its agent said of it.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Where the emulator writes its count of world switches, if it was asked to.
    pub fn world_switches(&self) -> Option<PathBuf> {
        let asked = self.shared.spec.plugin_out && self.shared.tools.plugin.is_some();
        (asked && self.shared.emulator.is_some())
            .then(|| qemu::plugin_output(self.shared.run.path()))
    }

    /// Virtual time in ns that the emulator charges for each world switch; 0: none.
    pub fn exit_cost_ns(&self) -> u32 {
        self.shared.spec.exit_cost_ns
    }

    /// The folder of this run; it goes with the host.
    pub fn run_folder(&self) -> &Path {
        self.shared.run.path()
    }

    /// An error if any console has complained.
    pub fn check(&self) -> Result<()> {
        self.shared.link.check()
    }

    /// Ends the host and what runs on it.
    pub fn shutdown(self) -> Result<()> {
        self.shared.link.check()
    }
}

impl Shared {
    pub fn windows(&self) -> Result<Vec<WindowCounts>> {
        match self
            .link
            .ask(HOST, |session| Request::ReadWindows { session })?
        {
            Incoming::Windows(windows) => Ok(windows),
            other => bail!("the host answered a question for windows with {other:?}"),
        }
    }

    fn start_emulator(&mut self, deadline: Instant, events: Events) -> Result<()> {
        events(Event::Step(format!(
            "booting the host ({} CPUs, {})",
            self.spec.cpus,
            self.spec.accel.resolve()
        )));
        for (number, size) in self.spec.disks.iter().enumerate() {
            create_disk(&qemu::disk(self.run.path(), number), *size)?;
        }
        let mut command = Command::new(&self.command_line[0]);
        command.args(&self.command_line[1..]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.emulator = Some(self.spawn(command)?);
        let socket = self.connect(&qemu::agent_socket(self.run.path()), deadline)?;
        self.link.connect(socket)
    }

    fn spawn(&self, command: Command) -> Result<Kept> {
        let log = self.run.path().join("host.console");
        let (printing, printed, ended) = (self.link.clone(), self.link.clone(), self.link.clone());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let done_too = done.clone();
        Kept::spawn(
            command,
            None,
            move |child| {
                if let Some(console) = child.stdout.take() {
                    let log = File::create(log).ok();
                    thread::spawn(move || listen(console, log, &printing, done));
                }
                // What QEMU itself complains about reads like the last words of a console.
                if let Some(errors) = child.stderr.take() {
                    thread::spawn(move || listen(errors, None, &printed, done_too));
                }
            },
            move |status| {
                let _ = wait.recv();
                ended.ended(HOST, format!("its emulator ended: {status}"));
            },
        )
    }

    fn connect(&self, path: &Path, deadline: Instant) -> Result<UnixStream> {
        loop {
            if let Ok(stream) = UnixStream::connect(path) {
                return Ok(stream);
            }
            if self.emulator.as_ref().is_some_and(Kept::has_ended) {
                // Gives the reason, from what was printed.
                self.link.wait(HOST, Some(deadline), |_| None::<()>)?;
            }
            if Instant::now() >= deadline {
                bail!("QEMU did not open {}", path.display());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The machine is the host: the agent's service runs in this process.
    fn start_service(&mut self) -> Result<()> {
        if let Err(why) = kvm_works() {
            bail!("this machine cannot be the host: {why}\nhint: leave --host here away to use the lab's emulated host");
        }
        if !rustix::process::geteuid().is_root() {
            bail!("this machine cannot be the host: pinning and counting need root\nhint: run it with sudo");
        }
        let (ours, theirs) = UnixStream::pair().context("making a connection")?;
        let role = Role::Host {
            machine: "/".into(),
            state: self.run.path().to_path_buf(),
        };
        let from = theirs.try_clone()?;
        thread::Builder::new()
            .name("host".into())
            .spawn(move || serve::serve(from, theirs, role, serve::ready()))?;
        self.service = Some(ours.try_clone()?);
        self.link.connect(ours)
    }

    /// Waits for the agent of the host or a guest.
    pub fn ready(&self, id: GuestId, deadline: Instant) -> Result<Ready> {
        let found = self.link.wait(id, Some(deadline), |state| {
            state.peer(id).and_then(|peer| peer.ready.clone())
        })?;
        let Some(ready) = found else {
            return Err(Failure::TimeLimit {
                what: format!("the boot of the {}", place(id)),
                limit: self.spec.timeout,
                lines: Vec::new(),
            }
            .into());
        };
        if ready.version != VERSION {
            bail!(
                "{} speaks version {} of the agents' protocol, this program {VERSION}\nhint: build both from one tree with `make`",
                self.tools.agent.display(),
                ready.version
            );
        }
        Ok(ready)
    }

    /// Adds the last words of a console to a failure that they may explain.
    pub fn explain(&self, id: GuestId, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<Failure>() {
            Ok(failure) => failure.with_lines(self.link.recent(id)).into(),
            Err(error) => error,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            let _ = service.shutdown(std::net::Shutdown::Both);
        }
        if let Some(emulator) = &self.emulator {
            // It has nothing to save.
            emulator.stop(Duration::ZERO);
        }
    }
}

fn listen(
    mut from: impl Read,
    mut log: Option<File>,
    link: &Link,
    _done: std::sync::mpsc::Sender<()>,
) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if let Some(log) = &mut log {
            let _ = std::io::Write::write_all(log, &bytes[..length]);
        }
        link.console(HOST, &String::from_utf8_lossy(&bytes[..length]));
    }
}

fn create_disk(path: &Path, size: Size) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    let free = rustix::fs::statvfs(folder).context("asking for free disk space")?;
    let free = Size(free.f_bavail.saturating_mul(free.f_frsize));
    if free < size {
        bail!(
            "no room for a disk of {size}: {} MiB are free in {}\nhint: ask for a smaller --disk, or set PARATICK_CACHE to a folder with more room",
            free.bytes() >> 20,
            folder.display()
        );
    }
    fs_err::File::create(path)?.set_len(size.bytes())?;
    Ok(())
}
