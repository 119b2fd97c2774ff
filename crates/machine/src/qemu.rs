// SPDX-License-Identifier: GPL-2.0-only
//! The command line of the emulated host.

use crate::{
    accel::Accel,
    host::{Clock, HostSpec},
};
use paratick_build::tools::Tools;
use paratick_core::wire::HOST_PORT;
use paratick_service::guest::{escape, listening, root_parameters, shared_root};
use std::path::{Path, PathBuf};

/// The model's features that TCG lacks are named, or it warns of each on every CPU.
const EMULATED_CPU: &str = "EPYC,+svm,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,-3dnowprefetch,-osvw,-topoext,-nrip-save,-xsavec";

/// One instruction is one nanosecond and the TSC counts those, on all CPUs: there is nothing to
/// measure at boot (with loops that take seconds here) or to watch later.
const EMULATED_TIME: [&str; 3] = ["tsc_early_khz=1000000", "tsc=reliable", "no_timer_check"];
/// CPUs come up one after the other: those that wait for their turn would only spin, and with 64
/// of them on the parallel clock the emulator does nothing else.
const EMULATED_START: &str = "cpuhp.parallel=0";

pub fn agent_socket(run: &Path) -> PathBuf {
    run.join("agent")
}

/// Where the plugin writes its counts.
pub fn plugin_output(run: &Path) -> PathBuf {
    run.join("world-switches.jsonl")
}

pub fn disk(run: &Path, number: usize) -> PathBuf {
    run.join(format!("disk{number}"))
}

/// The host's name of its `number`th disk.
pub fn disk_in_host(number: usize) -> PathBuf {
    let letter = char::from(b'a' + number as u8);
    format!("/dev/vd{letter}").into()
}

/// The host's kernel parameters.
pub fn kernel_parameters(spec: &HostSpec, tools: &Tools) -> Vec<String> {
    let mut parameters: Vec<String> = ["console=ttyS0", "loglevel=5", "panic=-1"]
        .map(String::from)
        .to_vec();
    parameters.extend(root_parameters(&tools.agent));
    // The papers turn the host's halt polling off: it hides exits.
    parameters.push("kvm.halt_poll_ns=0".into());
    if spec.accel.resolve() == Accel::Tcg {
        parameters.extend(EMULATED_TIME.map(String::from));
        parameters.push(EMULATED_START.into());
    }
    parameters.extend(tools.shown.clone());
    parameters.extend(spec.append.iter().cloned());
    parameters
}

/// The whole command line, the program first.
pub fn command_line(spec: &HostSpec, tools: &Tools, run: &Path) -> Vec<String> {
    let mut line = vec![tools.qemu.display().to_string()];
    let mut add = |words: &[&str]| line.extend(words.iter().map(|word| word.to_string()));
    add(&[
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    add(&[
        "-name",
        "paratick-host",
        "-machine",
        "q35,sata=off,smbus=off,i8042=off",
    ]);
    match spec.accel.resolve() {
        Accel::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
        _ => {
            let sleep = match spec.clock {
                Clock::Leaping => "off",
                Clock::Real => "on",
            };
            // Without icount guests lose timer interrupts.
            add(&["-accel", "tcg,thread=single"]);
            // Another QEMU does not know these options: they are named only where they are asked for.
            let cost = match spec.exit_cost_ns {
                0 => String::new(),
                ns => format!(",vmexit={ns}"),
            };
            let parallel = match spec.parallel_clock {
                true => ",parallel=on",
                false => "",
            };
            add(&["-icount", &format!("shift=0,sleep={sleep}{cost}{parallel}")]);
            add(&["-cpu", EMULATED_CPU]);
            if let (true, Some(plugin)) = (spec.plugin_out, &tools.plugin) {
                let out = escape(&plugin_output(run));
                add(&["-plugin", &format!("{},out={out}", escape(plugin))]);
            }
        }
    }
    add(&["-smp", &spec.cpus.to_string()]);
    add(&["-m", &format!("{}M", spec.memory.in_mib())]);
    for folder in &tools.firmware {
        add(&["-L", &folder.display().to_string()]);
    }
    add(&["-kernel", &spec.kernel.display().to_string()]);
    add(&["-append", &kernel_parameters(spec, tools).join(" ")]);
    let root = shared_root(Path::new("/"), "pci");
    add(&root.iter().map(String::as_str).collect::<Vec<_>>());
    add(&["-serial", "stdio", "-device", "virtio-serial-pci"]);
    add(&["-chardev", &listening("agent", &agent_socket(run))]);
    add(&[
        "-device",
        &format!("virtserialport,chardev=agent,name={HOST_PORT}"),
    ]);
    for number in 0..spec.disks.len() {
        let file = escape(&disk(run, number));
        add(&[
            "-drive",
            &format!("if=none,id=disk{number},format=raw,cache=unsafe,file={file}"),
        ]);
        add(&["-device", &format!("virtio-blk-pci,drive=disk{number}")]);
    }
    line
}
