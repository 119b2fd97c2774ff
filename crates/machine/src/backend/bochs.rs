// SPDX-License-Identifier: GPL-2.0-only
//! A host in Bochs, which emulates an Intel processor with VMX.
//!
//! Bochs has neither virtio nor a shared file system.  The host's root is a file system in memory,
//! with the files that it is given; its guests see the same.  Its agent is reached over the second
//! serial line.  It is slow, so it is for tests of what KVM does on Intel.

use super::emulator::spawn;
use crate::{
    first_root::{add_program, for_guests},
    link::HOST,
    spec::{Backend, HostFacts, HostSpec, Start},
};
use anyhow::{bail, Context, Result};
use paratick_build::{
    initramfs,
    progress::{Events, Step},
    requirements,
    tools::Tools,
};
use paratick_core::wire::HOST_LINE;
use paratick_service::process::Kept;
use std::{
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A host with these programs and their libraries, besides what guests are started with.
pub struct Bochs {
    pub programs: Vec<PathBuf>,
}

const CONFIGURATION: &str = include_str!("bochsrc.in");
const PACKAGES: [&str; 5] = ["bochs", "bochsbios", "isolinux", "syslinux-common", "genisoimage"];

/// Instructions per second of its clock, and the frequency of its TSC.  With a faster TSC KVM does
/// not use the preemption timer: Bochs lets that count at a rate by which it would overflow.
const RATE: u32 = 400_000_000;

/// Linux warns of what the processor says of itself: that it has eight cores and room for the
/// numbers of one; and the size of its extended state.
const QUIRKS: [&str; 2] = ["clearcpuid=ht", "noxsave"];

/// The boot loader's files, and where Debian has them.
const LOADER: [&str; 2] =
    ["/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"];

impl Backend for Bochs {
    fn name(&self) -> &'static str {
        "bochs"
    }

    /// The distribution's QEMU runs the guests.
    fn tools(&self, _build: Option<Events>) -> Result<Tools> {
        requirements::check(PACKAGES)?;
        Tools::of_the_machine()
    }

    fn command_line(&self, _: &HostSpec, _: &Tools, run: &Path) -> Result<Vec<String>> {
        let file = |name| run.join(name).display().to_string();
        let [settings, commands] = ["bochsrc", "commands"].map(file);
        Ok(["bochs".into(), "-q".into(), "-f".into(), settings, "-rc".into(), commands].to_vec())
    }

    fn start(&self, start: Start) -> Result<Box<dyn Send + Sync>> {
        if !start.host.disks.is_empty() {
            bail!("a host in Bochs has no scratch disks\nhint: use one of the guest's memory");
        }
        let cpus = start.host.boot.cpus;
        (start.events)(Step::BootingHost { cpus, accelerator: self.name() }.into());
        let agents = TcpListener::bind("127.0.0.1:0").context("listening for the emulator")?;
        self.prepare(&start, &agents.local_addr()?.to_string())?;
        // Debian's Bochs has a debugger, which is told to go on, and needs an input that is open:
        // a pipe, for on a socket it waits.
        let (theirs, input) = rustix::pipe::pipe().context("making the emulator's input")?;
        let mut command = Command::new(&start.command_line[0]);
        command.args(&start.command_line[1..]).stdin(Stdio::from(theirs));
        let emulator = spawn(command, start.run, start.link)?;
        start.link.connect(accept(&emulator, &agents, &start)?)?;
        Ok(Box::new((emulator, input)))
    }

    /// There are none.
    fn disk(&self, _run: &Path, _number: usize) -> PathBuf {
        PathBuf::new()
    }

    fn facts(&self, host: &HostSpec) -> HostFacts {
        HostFacts {
            cpus: host.boot.cpus,
            memory: host.boot.memory,
            accelerator: Some(self.name().into()),
            // An instruction takes 2.5 ns: no whole number.
            ..HostFacts::default()
        }
    }
}

impl Bochs {
    /// Writes what Bochs reads: its configuration, and a disc with kernel and root file system.
    fn prepare(&self, start: &Start, address: &str) -> Result<()> {
        let (run, boot) = (start.run, &start.host.boot);
        let disc = run.join("disc");
        fs_err::create_dir(&disc)?;
        for file in LOADER.map(Path::new) {
            fs_err::copy(file, disc.join(file.file_name().expect("a file's name")))?;
        }
        fs_err::copy(&boot.kernel, disc.join("kernel"))?;
        let mut files = for_guests(start.tools, &boot.kernel)?;
        for program in self.programs.iter().chain([&start.tools.agent]) {
            add_program(&mut files, program)?;
        }
        initramfs::extend(&start.tools.initramfs, &files, &disc.join("root"))?;
        let parameters = kernel_parameters(start.host).join(" ");
        let loader =
            format!("DEFAULT host\nLABEL host\nKERNEL kernel\nINITRD root\nAPPEND {parameters}\n");
        fs_err::write(disc.join("isolinux.cfg"), loader)?;
        let iso = run.join("disc.iso");
        let mut image = Command::new("genisoimage");
        image.args(["-quiet", "-b", "isolinux.bin", "-c", "boot.cat", "-no-emul-boot"]);
        image.args(["-boot-load-size", "4", "-boot-info-table", "-o"]).arg(&iso).arg(&disc);
        finish(&mut image)?;
        fs_err::remove_dir_all(&disc)?;
        let configuration = [
            ("MEMORY", boot.memory.in_mib().to_string()),
            ("ISO", iso.display().to_string()),
            ("CPUS", boot.cpus.to_string()),
            ("RATE", RATE.to_string()),
            ("ADDRESS", address.to_string()),
        ]
        .iter()
        .fold(CONFIGURATION.to_string(), |text, (name, value)| {
            text.replace(&format!("@{name}@"), value)
        });
        fs_err::write(run.join("bochsrc"), configuration)?;
        fs_err::write(run.join("commands"), "c\n")?;
        Ok(())
    }
}

fn kernel_parameters(host: &HostSpec) -> Vec<String> {
    let mut parameters: Vec<String> =
        ["console=ttyS0,115200", "loglevel=5", "panic=0"].map(String::from).to_vec();
    parameters.push(format!("{HOST_LINE}=/dev/ttyS1"));
    parameters.extend([format!("tsc_early_khz={}", RATE / 1000), "tsc=reliable".into()]);
    parameters.extend(QUIRKS.map(String::from));
    parameters.extend(host.settings.kernel_parameters());
    parameters.extend(host.boot.append.iter().cloned());
    parameters
}

fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Bochs connects its serial line when it starts.
fn accept(emulator: &Kept, agents: &TcpListener, start: &Start) -> Result<UnixStream> {
    agents.set_nonblocking(true)?;
    loop {
        if let Ok((stream, _)) = agents.accept() {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            // Nothing of what a link does with a socket depends on its family.
            return Ok(UnixStream::from(OwnedFd::from(stream)));
        }
        if emulator.has_ended() {
            // Gives the reason, from what was printed.
            start.link.wait(HOST, Some(start.deadline), |_| None::<()>)?;
        }
        if Instant::now() >= start.deadline {
            bail!("Bochs did not connect its serial line");
        }
        thread::sleep(Duration::from_millis(10));
    }
}
