// SPDX-License-Identifier: GPL-2.0-only
//! The command line of a guest's QEMU.

use paratick_core::{
    disk_device::DiskDevice,
    network::{Card, Network},
    wire::{
        Disk, GuestConfig, GuestTools, MachineType, ADDRESS, GUEST_PORT, ROOT, ROOT_DISK, SYSTEM,
    },
};
use std::arch::x86_64::__cpuid;
use std::path::{Path, PathBuf};

/// Folders that hosts and guests of the lab have of their own, instead of the machine's.
pub const OWN_FOLDERS: [&str; 4] = ["/run", "/tmp", "/var/tmp", "/dev/shm"];
/// Where a host or guest of the lab has the machine's root file system, without its own mounts.
pub const MACHINE: &str = "/run/paratick/share/machine";
/// How the file system that [`shared_root`] offers is called.
pub const TAG: &str = "rootfs";
/// How the disk with a root of its own is.
const ROOT_SERIAL: &str = "paratick-root";

/// Whether a host or guest of the lab does not see this path of the machine by itself.
pub fn is_hidden(path: &Path) -> bool {
    OWN_FOLDERS.iter().any(|own| path.starts_with(own))
}

/// Where a guest's things are on its host.
#[derive(Clone, Debug)]
pub struct Places {
    /// The machine's root file system, as it is without the host's own mounts.
    pub machine: PathBuf,
    /// A folder for this guest's sockets.
    pub state: PathBuf,
}

impl Places {
    /// Where a file of the machine is found on this host.
    pub fn on_host(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(relative) if self.machine != Path::new("/") => self.machine.join(relative),
            _ => path.to_path_buf(),
        }
    }

    /// The folder that guests see, and their root in it.  Where the machine's root is only a place
    /// to mount one later, it must not be that folder itself: QEMU would not see the mount.
    fn shared(&self) -> (&Path, &str) {
        match self.machine == Path::new(MACHINE) {
            true => (self.machine.parent().unwrap_or(&self.machine), "/machine"),
            false => (&self.machine, "/"),
        }
    }

    pub fn agent_socket(&self) -> PathBuf {
        self.state.join("agent")
    }

    pub fn memory_disk(&self) -> PathBuf {
        self.state.join("disk")
    }

    /// The name of the guest's interface on the host.
    pub fn tap(&self) -> String {
        let name = self.state.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    pub fn monitor_socket(&self) -> PathBuf {
        self.state.join("monitor")
    }
}

fn kernel_parameters(config: &GuestConfig, tools: &GuestTools, root: &str) -> Vec<String> {
    // Warnings must reach the console, which is watched; the rest of the boot log costs time.
    let mut parameters: Vec<String> =
        ["console=ttyS0", "loglevel=5", "panic=-1", "reboot=t"].map(String::from).to_vec();
    parameters.extend(match &config.root_disk {
        None => root_parameters(root),
        Some(_) => vec![format!("{ROOT_DISK}={ROOT_SERIAL}"), ONE_BUS.into()],
    });
    if let Some(system) = &config.system {
        let folder = if config.root_disk.is_some() { Path::new("/") } else { system };
        parameters.push(format!("{SYSTEM}={}", folder.display()));
        // Each line on the console is many exits.
        parameters.push("systemd.show_status=no".into());
    }
    parameters.extend(config.card.map(|card| format!("{ADDRESS}={}", card.address)));
    parameters.extend(tools.parameters.iter().cloned());
    parameters.extend(config.mode.kernel_parameters());
    parameters.extend(config.clock.row().parameters.iter().map(|one| one.to_string()));
    parameters.extend(config.append.iter().cloned());
    parameters
}

/// For the agent: its root is this folder of the shared file system.
pub fn root_parameters(root: &str) -> Vec<String> {
    vec![format!("{ROOT}={root}"), ONE_BUS.into()]
}

/// Looking for devices on 255 more takes a second in a guest.
const ONE_BUS: &str = "pci=lastbus=0";

/// The whole command line, the program first; `emulated` is whether its host's CPU is.
pub fn command_line(
    config: &GuestConfig,
    tools: &GuestTools,
    places: &Places,
    emulated: bool,
) -> Vec<String> {
    let show = |path: PathBuf| path.display().to_string();
    let mut line = vec![show(places.on_host(&tools.qemu))];
    let mut add = |words: &[&str]| line.extend(words.iter().map(|word| word.to_string()));
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    add(&["-name", "paratick-guest,debug-threads=on"]);
    let clock = config.clock.row();
    let (machine, bus) = match config.machine {
        // Devices that nobody uses cost an exit to QEMU for every look the kernel has at them.
        MachineType::Q35 if clock.hpet => ("q35,sata=off,smbus=off,i8042=off,hpet=on", "pci"),
        MachineType::Q35 => ("q35,sata=off,smbus=off,i8042=off,hpet=off", "pci"),
        // With its legacy PIC an injected vector 0 can kill it at the first `sti`.
        MachineType::Microvm => ("microvm,pic=off,pit=off,rtc=off", "device"),
    };
    add(&["-machine", machine, "-accel", "kvm"]);
    let further = config.cpu.trim_start_matches(',');
    let comma = if further.is_empty() { "" } else { "," };
    add(&["-cpu", &format!("{}{comma}{further}", guest_cpu(emulated, tools.stock))]);
    add(clock.qemu);
    let smp = match config.sockets {
        None => config.vcpus.to_string(),
        Some(n) => format!("{},sockets={n},cores={},threads=1", config.vcpus, config.vcpus / n),
    };
    add(&["-smp", &smp]);
    add(&["-m", &format!("{}M", config.memory.in_mib())]);
    for folder in &tools.firmware {
        add(&["-L", &show(places.on_host(folder))]);
    }
    add(&["-kernel", &show(places.on_host(&config.kernel))]);
    add(&["-initrd", &show(places.on_host(&tools.initramfs))]);
    let (folder, root) = places.shared();
    add(&["-append", &kernel_parameters(config, tools, root).join(" ")]);
    if config.root_disk.is_none() {
        add(&shared_root(folder, bus).each_ref().map(String::as_str));
    }
    add(&["-serial", "stdio"]);
    add(&["-device", &format!("virtio-serial-{bus}")]);
    add(&["-chardev", &listening("agent", &places.agent_socket())]);
    add(&["-device", &format!("virtserialport,chardev=agent,name={GUEST_PORT}")]);
    add(&["-chardev", &listening("monitor", &places.monitor_socket())]);
    add(&["-mon", "chardev=monitor,mode=control"]);
    if let Some(disk) = &config.disk {
        // O_DIRECT in the guest is what is measured; the host's own cache may help.
        let file = |file: &Path, cache| {
            let file = escape(file);
            format!("if=none,id=disk,format=raw,cache={cache},aio=threads,file={file}")
        };
        match disk {
            Disk::File(path) => add(&["-drive", &file(path, "none")]),
            Disk::Memory(_) => add(&["-drive", &file(&places.memory_disk(), "writeback")]),
            Disk::Delayed { size, ns } => {
                let null = "driver=null-co,node-name=disk,read-zeroes=on";
                add(&["-blockdev", &format!("{null},size={},latency-ns={ns}", size.bytes())]);
                // QEMU's main loop would round the time up to ms.
                add(&["-object", "iothread,id=disk-thread,poll-max-ns=0"]);
            }
        }
        let thread = match disk {
            Disk::Delayed { .. } => ",iothread=disk-thread",
            Disk::File(_) | Disk::Memory(_) => "",
        };
        let device = match config.disk_device {
            DiskDevice::VirtioBlk => format!("virtio-blk-{bus},drive=disk{thread}"),
            // QEMU 7.2 has no thread for it, and wants a serial number.
            DiskDevice::Nvme => "nvme,drive=disk,serial=paratick".into(),
        };
        add(&["-device", &device]);
    }
    // Behind the other disk, which is the first for all guests.
    if let Some(disk) = &config.root_disk {
        let file = escape(&places.on_host(disk));
        add(&["-drive", &format!("if=none,id=root,format=raw,readonly=on,file={file}")]);
        add(&["-device", &format!("virtio-blk-{bus},drive=root,serial={ROOT_SERIAL}")]);
    }
    if let Some(card) = config.card {
        add(&card_words(card, &places.tap(), bus).each_ref().map(String::as_str));
    }
    line.extend(config.qemu.iter().cloned());
    line
}

/// QEMU's words for a network card whose other end is this tap device.
fn card_words(card: Card, tap: &str, bus: &str) -> [String; 4] {
    let vhost = match card.network {
        Network::Vhost => "on",
        Network::Qemu => "off",
    };
    let last = card.address.octets()[3];
    // Nobody boots from it: a ROM for that would have to be found.
    let rom = if bus == "pci" { ",romfile=" } else { "" };
    [
        "-netdev".into(),
        format!("tap,id=card,ifname={tap},script=no,downscript=no,vhost={vhost}"),
        "-device".into(),
        format!("virtio-net-{bus},netdev=card,mac=52:54:00:10:75:{last:02x}{rom}"),
    ]
}

/// QEMU's words for a 9p root that nobody can write to.
pub fn shared_root(path: &Path, bus: &str) -> [String; 4] {
    let path = escape(path);
    [
        "-fsdev".into(),
        format!("local,id=root,path={path},security_model=none,readonly=on,multidevs=remap"),
        "-device".into(),
        format!("virtio-9p-{bus},fsdev=root,mount_tag={TAG}"),
    ]
}

/// A socket that can be connected to at any time; QEMU does not wait for it.
pub fn listening(id: &str, path: &Path) -> String {
    format!("socket,id={id},path={},server=on,wait=off", escape(path))
}

/// A comma in a value of QEMU's is written twice.
pub fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The CPU that a guest sees.  `migratable=off` shows feature bits that QEMU has no name for.
fn guest_cpu(emulated: bool, stock: bool) -> String {
    let all = "host,migratable=off";
    match (emulated, stock) {
        (false, _) => all.into(),
        // The lab's emulator does not intercept XSETBV, so its KVM would never learn what a guest
        // enables there.
        (true, false) => format!("{all},-xsave"),
        // The lab's own kernels have nothing that uses the rest.
        (true, true) => format!("{all},-xsave,{NOTHING_OF_XSAVE}"),
    }
}

/// What a processor without XSAVE does not have.  Linux 7.3 uses AVX in its GHASH where CPUID has
/// that bit, whether or not AVX can be enabled: a self test of crypto code ends in an oops.
const NOTHING_OF_XSAVE: &str = "-avx,-avx2,-f16c,-fma,-xsaveopt,-xgetbv1";

/// Whether the CPU that this program runs on is QEMU's: CPUID's leaf 0x40000000.
pub fn is_emulated() -> bool {
    // SAFETY: every x86-64 processor has CPUID.  Newer compilers know that.
    #[allow(unused_unsafe)]
    let (features, leaf) = unsafe { (__cpuid(1), __cpuid(0x4000_0000)) };
    let name: Vec<u8> =
        [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    // Only a hypervisor has such a leaf.
    features.ecx >> 31 == 1 && name == b"TCGTCGTCGTCG"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_s_other_end_is_the_guest_s_tap_device_and_no_two_have_the_same_address() {
        let words = |network, last| {
            let card = Card { network, address: [10, 75, 0, last].into() };
            card_words(card, "guest7", "pci")
        };
        let [vhost, qemu] = [words(Network::Vhost, 1), words(Network::Qemu, 2)];
        assert!(vhost[1].contains("ifname=guest7,") && vhost[1].ends_with(",vhost=on"));
        assert!(qemu[1].ends_with(",vhost=off"));
        assert!(vhost[3].starts_with("virtio-net-pci,") && vhost[3].ends_with(",romfile="));
        assert!(vhost[3].contains("mac=52:54:00:10:75:01,") && qemu[3].contains(":02,"));
    }
}
