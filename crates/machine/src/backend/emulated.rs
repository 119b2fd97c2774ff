// SPDX-License-Identifier: GPL-2.0-only
//! The lab's host: QEMU on this machine, which emulates a processor with SVM or nests KVM.

use super::emulator::spawn;
use crate::{
    accel::Accel,
    link::HOST,
    snapshot::{load, monitor_socket},
    spec::{disk_file, Backend, Begin, Clock, Emulation, HostFacts, HostSpec, Stall, Start},
};
use anyhow::{bail, Result};
use paratick_build::{
    kernel::{debian, is_realtime, keeps_its_turn},
    progress::{Events, Step},
    tools::Tools,
};
use paratick_core::wire::HOST_PORT;
use paratick_service::{
    guest::{escape, listening, root_parameters, shared_root},
    process::Kept,
};
use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

pub struct Emulated;

/// The model's features that TCG lacks are named, or it warns of each on every CPU.
const EMULATED_CPU: &str = "EPYC,+svm,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,\
    -3dnowprefetch,-osvw,-topoext,-nrip-save,-xsavec";
/// KVM refuses to work in a PREEMPT_RT kernel on a CPU that does not say that its TSC is constant.
/// Under icount it is, but TCG has to be forced to say so, and warns of that on every CPU.
const CONSTANT_TSC: &str = ",+invtsc,x-force-features=on";

/// One instruction is one nanosecond; the TSC and the timers of local APICs count those, on all
/// CPUs: there is nothing to measure at boot (with loops that take seconds here) or to watch later.
/// Kernels without the series `lab` ignore `lab_clock_hz`.
const EMULATED_TIME: [&str; 4] =
    ["tsc_early_khz=1000000", "lab_clock_hz=1000000000", "tsc=reliable", "no_timer_check"];
/// CPUs come up one after the other: those that wait for their turn would only spin, and with 64
/// of them on the parallel clock the emulator does nothing else.
const EMULATED_START: &str = "cpuhp.parallel=0";

impl Backend for Emulated {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn keeps(&self) -> bool {
        true
    }

    fn tools(&self, build: Option<Events>) -> Result<Tools> {
        match build {
            Some(events) => Tools::find(events),
            None => Tools::built(),
        }
    }

    fn command_line(&self, host: &HostSpec, tools: &Tools, run: &Path) -> Result<Vec<String>> {
        command_line(host, tools, run)
    }

    fn start(&self, start: Start) -> Result<Box<dyn Send + Sync>> {
        let spec = start.host;
        let cpus = spec.boot.cpus;
        let accelerator = &spec.emulation.accel.resolve().to_string();
        (start.events)(Step::BootingHost { cpus, accelerator }.into());
        let mut command = Command::new(&start.command_line[0]);
        command.args(&start.command_line[1..]).stdin(Stdio::null());
        let emulator = spawn(command, start.run, start.link)?;
        let socket = connect(&emulator, &start, &agent_socket(start.run))?;
        start.link.connect(socket)?;
        if let Begin::Kept { state, .. } = &spec.begin {
            load(connect(&emulator, &start, &monitor_socket(start.run))?, state)?;
        }
        Ok(Box::new(emulator))
    }

    fn disk(&self, _run: &Path, number: usize) -> PathBuf {
        let letter = char::from(b'a' + number as u8);
        format!("/dev/vd{letter}").into()
    }

    fn world_switches(&self, host: &HostSpec, tools: &Tools, run: &Path) -> Option<PathBuf> {
        counts(host, tools).then(|| counts_file(run))
    }

    fn facts(&self, host: &HostSpec) -> HostFacts {
        let (boot, emulation) = (&host.boot, &host.emulation);
        let accel = emulation.accel.resolve();
        let counts_time = accel == Accel::Tcg;
        HostFacts {
            cpus: boot.cpus,
            memory: boot.memory,
            accelerator: Some(accel.to_string()),
            ns_per_instruction: counts_time.then_some(1),
            exit_cost_ns: counts_time.then_some(emulation.exit_cost_ns),
            parallel_clock: counts_time && emulation.parallel_clock,
        }
    }
}

fn agent_socket(run: &Path) -> PathBuf {
    run.join("agent")
}

/// Where the emulator writes its counts.
fn counts_file(run: &Path) -> PathBuf {
    run.join("world-switches.jsonl")
}

/// Whether it counts world switches: where it is asked to and can, in emulation.
fn counts(host: &HostSpec, tools: &Tools) -> bool {
    let asked = host.emulation.count_world_switches;
    asked && host.emulation.accel.resolve() == Accel::Tcg && tools.qemu_counts
}

fn kernel_parameters(spec: &HostSpec) -> Vec<String> {
    let mut parameters: Vec<String> =
        ["console=ttyS0", "loglevel=5", "panic=-1"].map(String::from).to_vec();
    parameters.extend(root_parameters("/"));
    parameters.extend(spec.settings.kernel_parameters());
    if spec.emulation.accel.resolve() == Accel::Tcg {
        parameters.extend(EMULATED_TIME.map(String::from));
        parameters.push(EMULATED_START.into());
    }
    parameters.extend(debian::host_parameters(&spec.boot.kernel));
    parameters.extend(spec.boot.append.iter().cloned());
    parameters
}

/// Options of the parallel clock.
fn parallel(emulation: &Emulation) -> String {
    if !emulation.parallel_clock {
        return String::new();
    }
    let round = emulation.round.map_or(String::new(), |round| format!(",round={round}"));
    let stall = emulation.stall.map_or(String::new(), |Stall { cpu, ns, every_ns }| {
        format!(",stall={ns},stall-every={every_ns},stall-cpu={cpu}")
    });
    format!(",parallel=on{round}{stall}")
}

/// The whole command line, the program first.
fn command_line(spec: &HostSpec, tools: &Tools, run: &Path) -> Result<Vec<String>> {
    let first_root = tools.initramfs_of(&spec.boot.kernel)?;
    let mut line = vec![tools.qemu.display().to_string()];
    let mut add = |words: &[&str]| line.extend(words.iter().map(|word| word.to_string()));
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    add(&["-name", "paratick-host", "-machine", "q35,sata=off,smbus=off,i8042=off"]);
    match spec.emulation.accel.resolve() {
        Accel::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
        _ => {
            let alone = spec.boot.cpus == 1 || spec.emulation.parallel_clock;
            if keeps_its_turn(&spec.boot.kernel) && !alone {
                bail!(
                    "the kernel {} cannot be an emulated host whose CPUs run in turn: before \
                     Linux 6.5 the first waits for the others in a loop that never ends its turn\n\
                     hint: let them run in parallel: --parallel-clock",
                    spec.boot.kernel.display()
                );
            }
            let sleep = match spec.emulation.clock {
                Clock::Leaping => "off",
                Clock::Real => "on",
            };
            // Without icount guests lose timer interrupts.
            add(&["-accel", "tcg,thread=single"]);
            // Another QEMU does not know these options: they are named only where they are asked
            // for.
            let cost = match spec.emulation.exit_cost_ns {
                0 => String::new(),
                ns => format!(",vmexit={ns}"),
            };
            let parallel = parallel(&spec.emulation);
            let counts = match counts(spec, tools) {
                true => format!(",counts={}", escape(&counts_file(run))),
                false => String::new(),
            };
            add(&["-icount", &format!("shift=0,sleep={sleep}{cost}{parallel}{counts}")]);
            let constant = if is_realtime(&spec.boot.kernel) { CONSTANT_TSC } else { "" };
            add(&["-cpu", &format!("{EMULATED_CPU}{constant}")]);
            // The clock waits for requests (emulator/README.md, 0007) from the instruction on that
            // makes one, not from the moment when another thread hears of it.
            for device in ["virtio-9p-pci", "virtio-blk-pci"] {
                add(&["-global", &format!("{device}.ioeventfd=off")]);
            }
        }
    }
    add(&["-smp", &spec.boot.cpus.to_string()]);
    let size = format!("{}M", spec.boot.memory.in_mib());
    add(&["-m", &size]);
    let memory = |file: &Path, share: &str| {
        let file = escape(file);
        format!("memory-backend-file,id=memory,size={size},mem-path={file},share={share}")
    };
    let initramfs = match &spec.begin {
        Begin::Boot => &first_root,
        Begin::ToKeep { initramfs, memory: file } => {
            add(&["-object", &memory(file, "on")]);
            initramfs
        }
        Begin::Kept { memory: file, .. } => {
            // Pages that are written to are copied: the file stays as it is.
            add(&["-object", &memory(file, "off"), "-incoming", "defer"]);
            &first_root
        }
    };
    if !matches!(spec.begin, Begin::Boot) {
        add(&["-machine", "memory-backend=memory"]);
        add(&["-chardev", &listening("monitor", &monitor_socket(run))]);
        add(&["-mon", "chardev=monitor,mode=control"]);
    }
    for folder in &tools.firmware {
        add(&["-L", &folder.display().to_string()]);
    }
    add(&["-kernel", &spec.boot.kernel.display().to_string()]);
    add(&["-initrd", &initramfs.display().to_string()]);
    add(&["-append", &kernel_parameters(spec).join(" ")]);
    let root = shared_root(Path::new("/"), "pci");
    add(&root.iter().map(String::as_str).collect::<Vec<_>>());
    add(&["-serial", "stdio", "-device", "virtio-serial-pci"]);
    add(&["-chardev", &listening("agent", &agent_socket(run))]);
    add(&["-device", &format!("virtserialport,chardev=agent,name={HOST_PORT}")]);
    for number in 0..spec.disks.len() {
        let file = escape(&disk_file(run, number));
        add(&["-drive", &format!("if=none,id=disk{number},format=raw,cache=unsafe,file={file}")]);
        add(&["-device", &format!("virtio-blk-pci,drive=disk{number}")]);
    }
    Ok(line)
}

fn connect(emulator: &Kept, start: &Start, path: &Path) -> Result<UnixStream> {
    loop {
        if let Ok(stream) = UnixStream::connect(path) {
            return Ok(stream);
        }
        if emulator.has_ended() {
            // Gives the reason, from what was printed.
            start.link.wait(HOST, Some(start.deadline), |_| None::<()>)?;
        }
        if Instant::now() >= start.deadline {
            bail!("QEMU did not open {}", path.display());
        }
        thread::sleep(Duration::from_millis(2));
    }
}
