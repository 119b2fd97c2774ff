// SPDX-License-Identifier: GPL-2.0-only
//! The emulator's patches, proved: each test fails without the effect of its own.

use crate::support::{host_for, kernel, pair, sh, text, tools, workload};
use assert_cmd::Command;
use paratick_core::{cause::Cause, size::Size};
use paratick_machine::{backend::EMULATED, host::Host, spec::HostSpec};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

/// Longer than the stress takes on a busy machine, a build of the second variant included.
const PATIENCE: Duration = Duration::from_secs(600);

fn stress(options: &[&str]) -> Command {
    let mut stress = Command::cargo_bin("paratick").unwrap();
    stress.args(["emulator", "stress", "--kernel"]).arg(kernel());
    stress.args(options).timeout(PATIENCE);
    stress
}

#[test]
fn the_lab_s_emulator_delivers_each_interrupt_once() {
    let assert = stress(&[]).assert().code(0);
    let said = text(&assert.get_output().stdout);
    assert!(said.contains("sound: "), "{said}");
}

#[test]
fn without_the_fix_it_does_not() {
    let assert = stress(&["--unfixed"]).assert().code(1);
    let said = text(&assert.get_output().stdout);
    assert!(said.contains("BROKEN: ") && said.contains("0001-"), "{said}");
}

/// What a guest whose vCPUs are all busy saw while each did 50 million loops, 200 million
/// instructions: 200 ms of a CPU of its own, 50 ticks.
#[derive(Debug)]
struct Busy {
    duration_ms: f64,
    /// Ticks that expired, for each vCPU.
    ticks: f64,
    /// The same for each 4 million instructions that the CPU under it executed, in host and guest:
    /// one period of the tick.
    ticks_per_period: f64,
    /// CPU time by /proc/stat, for each vCPU.
    accounted_ms: f64,
}

fn busy(vcpus: u32, parallel_clock: bool) -> Busy {
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), vcpus, Size::mib(512));
    spec.emulation.parallel_clock = parallel_clock;
    spec.emulation.count_world_switches = true;
    let (host, guest) = pair(spec, kernel(), vcpus, "tickless", &[]);
    let measured = workload(&host, &guest, "cpu", &["--work", "50"]);
    let windows = guest.windows().unwrap();
    let ticks = windows[0].cause(Cause::Expiry);
    let (switches, instructions) = emulated(&host);
    assert_eq!(measured.exits, switches);
    let kinds = ["user", "system", "idle", "steal"];
    let accounted = kinds.map(|kind| measured.report(&format!("cpu_{kind}_ticks")));
    let each = |all: u64| all as f64 / f64::from(vcpus);
    let busy = Busy {
        duration_ms: measured.report("duration_ns") as f64 / 1e6,
        ticks: each(ticks),
        ticks_per_period: ticks as f64 / (instructions as f64 / 4e6),
        // /proc/stat's unit is 10 ms.
        accounted_ms: 10.0 * each(accounted.iter().sum()),
    };
    println!("{vcpus} vCPUs, parallel clock {parallel_clock}: {busy:?}");
    busy
}

/// World switches, and instructions of the guest's CPUs (the first is the host's own), in the
/// last window that the emulator saw.
fn emulated(host: &Host) -> (u64, u64) {
    let lines = fs::read_to_string(host.world_switches().unwrap()).unwrap();
    let window: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let cpus = window["cpus"].as_array().unwrap();
    let sum = |cpus: &[serde_json::Value], name: &str| -> u64 {
        cpus.iter().map(|cpu| cpu[name].as_u64().unwrap()).sum()
    };
    let busy = &cpus[1..];
    (sum(cpus, "world_switches"), sum(busy, "host_instructions") + sum(busy, "guest_instructions"))
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.05
}

#[test]
fn with_the_parallel_clock_busy_cpus_do_not_shorten_each_other_s_ticks() {
    let alone = busy(1, true);
    let four = busy(4, true);
    assert!(near(four.duration_ms, alone.duration_ms), "{four:?} {alone:?}");
    assert!(near(four.ticks, alone.ticks), "{four:?} {alone:?}");
    assert!(near(four.ticks_per_period, 1.0), "{four:?}");
    // Within the unit of /proc/stat, at the window's begin and at its end.
    let apart_ms = (four.accounted_ms - alone.accounted_ms).abs();
    assert!(apart_ms <= 20.0, "{four:?} {alone:?}");
    // What it is good for: the instructions of all added up, the same work takes four times as
    // long, and most of the ticks that this is worth come too late to be told apart.
    let added_up = busy(4, false);
    assert!(added_up.duration_ms > 2.0 * alone.duration_ms, "{added_up:?}");
    assert!(added_up.accounted_ms > 2.0 * alone.accounted_ms, "{added_up:?}");
}

/// Threads that hand locks to each other sleep and wake thousands of times, and between the STI
/// and the HLT of each time a time slice may end and let an interrupt of the host's in.  A wake-up
/// that is lost there costs dozens of milliseconds, because an idle guest with virtual ticks has
/// none.
#[test]
fn a_wake_up_between_sti_and_hlt_is_not_lost() {
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), 4, Size::mib(512));
    spec.emulation.parallel_clock = true;
    let (host, guest) = pair(spec, kernel(), 4, "paratick", &[]);
    let once = || {
        let measured = workload(&host, &guest, "finelock", &["--work", "500"]);
        measured.report("duration_ns") as f64 / 1e6
    };
    let durations: Vec<f64> = (0..12).map(|_| once()).collect();
    let least = durations.iter().copied().fold(f64::INFINITY, f64::min);
    let sound = |duration: &f64| *duration < least + 20.0;
    assert!(durations.iter().all(sound), "{durations:?} ms");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// A disk and a file system that take a fifth of a second for each request cost a host that waits
/// for them no time (0007).
#[test]
fn the_clock_waits_for_the_machine_s_disk_and_files() {
    const REQUESTS: u32 = 8;
    let slow = "throttling.iops-total=5";
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("qemu");
    let mut tools = tools();
    let qemu = tools.qemu.display();
    let script = format!(
        "#!/bin/bash\nset -- \"${{@/cache=unsafe/cache=unsafe,{slow}}}\"\n\
         exec {qemu} \"${{@/readonly=on/readonly=on,{slow}}}\"\n"
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    tools.qemu = wrapper;
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), 1, Size::mib(64));
    spec.disks = vec![Size::mib(64)];
    let host = Host::boot(spec, &tools, &mut |_| {}).unwrap();
    let file = kernel();
    for (what, flags) in [("/dev/vda", "iflag=direct"), (file.to_str().unwrap(), "")] {
        let begin = Instant::now();
        let read = format!(
            "read before _ </proc/uptime; \
             dd if={what} of=/dev/null bs=500k count={REQUESTS} {flags} 2>&1 || exit 1; \
             read after _ </proc/uptime; echo $before $after"
        );
        let result = host.exec(sh(&read)).unwrap();
        let said = text(&result.stdout);
        assert_eq!(result.code, 0, "{said}");
        let numbers = said.lines().last().unwrap().split_whitespace();
        let [before, after]: [f64; 2] =
            numbers.map(|n| n.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
        let took = begin.elapsed();
        println!(
            "{what}: {:.0} ms of the host's, {took:?} of the machine's",
            1e3 * (after - before)
        );
        // A burst may go through at once.
        assert!(took > Duration::from_millis(200) * (REQUESTS / 2), "{took:?}");
        assert!(after - before < 0.1, "{before} {after}");
    }
    host.shutdown().unwrap();
}

/// A CPU that executes STI, PAUSE and CLI in a loop takes the interrupts of its timer (0011).
#[test]
fn pause_ends_the_shadow_of_sti() {
    const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/emulator/shadow.s");
    let folder = tempfile::tempdir().unwrap();
    let [object, sector] = ["o", "img"].map(|kind| folder.path().join(format!("shadow.{kind}")));
    let mut steps = [std::process::Command::new("as"), std::process::Command::new("ld")];
    steps[0].args(["--32", "-o"]).arg(&object).arg(SOURCE);
    steps[1].args(["-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-o"]);
    steps[1].arg(&sector).arg(&object);
    for step in &mut steps {
        assert!(step.status().expect("binutils").success());
    }
    // SeaBIOS boots from no disk of one sector.
    fs::OpenOptions::new().write(true).open(&sector).unwrap().set_len(1 << 20).unwrap();
    let tools = tools();
    let mut qemu = Command::new(&tools.qemu);
    qemu.args("-nodefaults -no-user-config -display none -no-reboot -machine q35".split(' '));
    qemu.args("-accel tcg,thread=single -icount shift=0,sleep=off -serial stdio".split(' '));
    tools.firmware.iter().for_each(|folder| {
        qemu.arg("-L").arg(folder);
    });
    qemu.arg("-drive").arg(format!("if=none,id=disk,format=raw,file={}", sector.display()));
    qemu.args(["-device", "virtio-blk-pci,drive=disk,bootindex=1"])
        .timeout(Duration::from_secs(120));
    let assert = qemu.assert().success();
    let said = text(&assert.get_output().stdout);
    assert!(said.ends_with('.') && said.contains('T'), "{said:?}");
}

/// KVM intercepts PAUSE only where the processor can filter it.
#[test]
fn no_pause_of_a_guest_is_an_exit() {
    let host = host_for(kernel(), 1, &[]);
    let seen = host.exec(sh("cat /sys/module/kvm_amd/parameters/pause_filter_count")).unwrap();
    assert_eq!(text(&seen.stdout), "0\n");
    host.shutdown().unwrap();
}
