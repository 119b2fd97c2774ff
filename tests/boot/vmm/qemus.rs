// SPDX-License-Identifier: GPL-2.0-only
//! QEMUs that a test starts by hand on a host.

use super::guest;
use crate::support::{kernel, text, tools};
use paratick_build::{qemu::system_qemu, tools::Tools};
use paratick_core::size::Size;
use paratick_machine::{backend::EMULATED, exec::Exec, host::Host, spec::HostSpec};
use std::{fs, path::Path, time::Duration};

const DRIVE: &str = include_str!("drive.pl");

/// Longer than several boots and migrations take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Of the guests' kernel.
const PARAMETERS: &str = "console=ttyS0 panic=1 reboot=t pci=lastbus=0 quiet";

/// Which QEMU, and what its guest is shown.
#[derive(Clone, Copy)]
pub enum Cpu {
    /// Debian's QEMU, with all features, which it does not know.
    Stock,
    /// Debian's QEMU, as it is started by most.
    Plain,
    /// The one with the patches, as it is started by most.
    Named,
    /// The same, with these words, each after a comma.
    But(&'static str),
}

impl Cpu {
    /// None of the series' features.
    pub const NOTHING: Cpu =
        Cpu::But(",kvm-pv-tick=off,kvm-halt-until=off,kvm-halt-window=off,kvm-exit-record=off");
    /// The guest neither sees nor can have virtual ticks.
    pub const NO_TICKS: Cpu = Cpu::But(",kvm-pv-tick=off,kvm-pv-enforce-cpuid=on");
    /// The same of halts with a deadline.
    pub const NO_HALTS: Cpu =
        Cpu::But(",kvm-halt-until=off,kvm-halt-window=off,kvm-pv-enforce-cpuid=on");
}

pub struct Qemus {
    host: Host,
    tools: Tools,
}

impl Qemus {
    pub fn new() -> Qemus {
        let tools = tools();
        let mut spec = HostSpec::for_guests(EMULATED, kernel(), 3, Size::mib(512));
        // A vCPU is busy while QEMU's own threads save and load.
        spec.emulation.parallel_clock = true;
        let host = Host::boot(spec, &tools, &mut |_| {}).unwrap();
        guest::initramfs(host.run_folder());
        empty_disk(&host.run_folder().join("disk.qcow2"));
        Qemus { host, tools }
    }

    /// The step that starts one.
    pub fn start(&self, name: &str, cpu: Cpu, more: &str) -> String {
        format!("start {name} {}", self.line(name, cpu, "", more))
    }

    /// The command line of one, with this argument of its guest's program.
    pub fn line(&self, name: &str, cpu: Cpu, argument: &str, more: &str) -> String {
        let (qemu, cpu) = match cpu {
            Cpu::Stock => (system_qemu().unwrap(), ",migratable=off"),
            Cpu::Plain => (system_qemu().unwrap(), ""),
            Cpu::Named => (self.tools.qemu.clone(), ""),
            Cpu::But(words) => (self.tools.qemu.clone(), words),
        };
        let run = self.host.run_folder();
        let firmware: String =
            self.tools.firmware.iter().map(|folder| format!(" -L {}", folder.display())).collect();
        format!(
            "{}{firmware} -nodefaults -no-user-config -display none \
             -name {name},debug-threads=on -accel kvm -smp 2 -m 128M -cpu host{cpu},-xsave \
             -machine q35,sata=off,smbus=off,i8042=off,hpet=off \
             -kernel {} -initrd {} -append '{PARAMETERS} {argument}' \
             -drive if=none,format=qcow2,file=/tmp/{name}.qcow2 {more}",
            qemu.display(),
            kernel().display(),
            run.join("initramfs").display(),
        )
    }

    /// Does these steps on the host; what was printed.
    pub fn run(&self, steps: &[&str]) -> String {
        let disk = self.host.run_folder().join("disk.qcow2");
        let disks = format!("sh for n in a b c d; do cp {} /tmp/$n.qcow2; done", disk.display());
        let line = ["perl", "-e", DRIVE, &disks];
        let result = self.host.exec(Exec::new(line.iter().chain(steps).copied()).timeout(PATIENCE));
        let result = result.unwrap();
        let said = text(&result.stdout);
        println!("{said}");
        assert_eq!(result.code, 0, "{said}{}", text(&result.stderr));
        self.host.check().unwrap();
        // Of guests' kernels.
        for bad in ["stall", "lockup", "WARNING", "BUG"] {
            assert!(!said.contains(bad), "{bad}: {said}");
        }
        said
    }
}

/// For what QEMU saves: a disk of one cluster without contents, as docs/interop/qcow2.txt of QEMU
/// has it.
fn empty_disk(path: &Path) {
    const CLUSTER: u64 = 1 << 16;
    let (table, block, l1) = (CLUSTER, 2 * CLUSTER, 3 * CLUSTER);
    let mut image = vec![0; 4 * CLUSTER as usize];
    let mut put = |at: u64, bytes: &[u8]| {
        image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    };
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &16u32.to_be_bytes());
    put(24, &CLUSTER.to_be_bytes());
    put(36, &1u32.to_be_bytes());
    put(40, &l1.to_be_bytes());
    put(48, &table.to_be_bytes());
    put(56, &1u32.to_be_bytes());
    // Sixteen bits for each reference count; the header's length.
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    put(table, &block.to_be_bytes());
    for cluster in 0..4 {
        put(block + 2 * cluster, &1u16.to_be_bytes());
    }
    fs::write(path, image).unwrap();
}
