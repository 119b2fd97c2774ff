// SPDX-License-Identifier: GPL-2.0-only
//! What every boot test needs: a kernel, the emulator, the agent.

use assert_cmd::Command;
use paratick_build::{
    kernel::{
        self,
        debian::{self, Stock},
        KernelImage, Variant,
    },
    tools::Tools,
};
use paratick_core::{cause::Cause, event::Event, mode::Mode, size::Size, wire::GuestConfig};
use paratick_machine::{
    backend::EMULATED,
    exec::{Exec, ExecResult},
    guest::Guest,
    host::Host,
    snapshot,
    spec::HostSpec,
};
use serde_json::{json, Value};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(900);

pub fn kernel() -> PathBuf {
    match std::env::var_os("PARATICK_TEST_KERNEL") {
        Some(kernel) => kernel.into(),
        None => {
            let image = kernel::ensure(kernel::DEFAULT_BASE, Variant::Patched, &mut |_| {});
            image.expect("a kernel for the boot tests").bzimage
        }
    }
}

/// How many times as long as usual a kernel that looks for mistakes of its own may take:
/// `PARATICK_TEST_SLOW`, or 1.
pub fn slowness() -> u32 {
    std::env::var("PARATICK_TEST_SLOW").map_or(1, |times| times.parse().expect("a number"))
}

pub fn tools() -> Tools {
    Tools::find(&mut |_| {}).expect("what a lab is made of")
}

pub fn mode(name: &str) -> Mode {
    name.parse().unwrap()
}

/// `paratick lab run` in a guest of one vCPU, with the tests' kernel.
pub fn lab_run(options: &[&str], command: &[&str]) -> Command {
    let mut run = Command::cargo_bin("paratick").unwrap();
    run.args(["lab", "run", "--vcpus", "1", "--kernel"]);
    run.arg(kernel()).args(options).arg("--").args(command);
    run.timeout(PATIENCE);
    run
}

/// A host and one guest on it.
pub struct Pair {
    // In this order: the guest ends first.
    pub guest: Guest,
    pub host: Host,
}

impl Pair {
    /// Boots them, whether or not there is a snapshot.
    pub fn boot(vcpus: u32, mode_name: &str) -> Pair {
        let memory = Size::mib(512);
        let host = HostSpec::for_guests(EMULATED, kernel(), vcpus, memory);
        let host = Host::boot(host, &tools(), &mut |_| {}).unwrap();
        let guest = GuestConfig::new(kernel(), vcpus, memory, mode(mode_name));
        let guest = host.start_guest(guest).unwrap();
        Pair { guest, host }
    }

    pub fn resume(vcpus: u32, mode_name: &str) -> Pair {
        let memory = Size::mib(512);
        let host = HostSpec::for_guests(EMULATED, kernel(), vcpus, memory);
        let (host, guest) =
            resumed(host, GuestConfig::new(kernel(), vcpus, memory, mode(mode_name)));
        Pair { guest, host }
    }

    /// Runs a line of shell in the guest.
    pub fn sh(&self, line: &str) -> ExecResult {
        self.guest.exec(sh(line)).unwrap()
    }
}

pub fn sh(line: &str) -> Exec {
    Exec::new(["sh", "-c", line]).timeout(PATIENCE)
}

/// A row of one of the tables that `docs/evaluation/runs.py tests` collects: names of columns, each
/// with its value.
pub fn row_of(table: &str, cells: &[(&str, Value)]) {
    println!("row of tests: {}", json!([table, cells]));
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A program in C, for hosts and guests; tests that run at the same time may want the same one,
/// in this process or in another.
pub fn compile(source: &str, program: &str) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = format!("{program}.{}-{next}", std::process::id());
    let mut gcc = std::process::Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-static", "-pthread", "-o", &new, source]);
    assert!(gcc.status().expect("gcc").success());
    std::fs::rename(new, program).expect("the program has its place");
}

/// The image without the series.
pub fn base_kernel() -> PathBuf {
    match std::env::var_os("PARATICK_TEST_BASE_KERNEL") {
        Some(kernel) => kernel.into(),
        None => {
            let image = kernel::ensure(kernel::DEFAULT_BASE, Variant::Unpatched, &mut |_| {});
            image.expect("a kernel without the series").bzimage
        }
    }
}

/// Debian's own, of a series, as its package has it.
pub fn stock(series: &str) -> KernelImage {
    let stock = Stock::Named(series.parse().unwrap());
    debian::ensure(&stock, &mut |_| {}).expect("Debian's kernel")
}

/// A host with room for one guest.
pub fn host_spec(kernel: PathBuf, vcpus: u32, append: &[&str]) -> HostSpec {
    let mut spec = HostSpec::for_guests(EMULATED, kernel, vcpus, Size::mib(512));
    spec.boot.append = append.iter().map(|word| word.to_string()).collect();
    spec
}

/// One whose CPUs run in parallel.  Else a busy one keeps its turn up to the next deadline, and
/// what others do takes the longer the fewer deadlines there are.
pub fn parallel_spec(vcpus: u32) -> HostSpec {
    let mut spec = host_spec(kernel(), vcpus, &[]);
    spec.emulation.parallel_clock = true;
    spec
}

fn guest_config(kernel: PathBuf, vcpus: u32, mode_name: &str, append: &[&str]) -> GuestConfig {
    let mut spec = GuestConfig::new(kernel, vcpus, Size::mib(512), mode(mode_name));
    spec.append = append.iter().map(|word| word.to_string()).collect();
    // Always the same ones, whether or not the last guest has quite ended.
    spec.pins = (1..=vcpus).collect();
    spec
}

/// A host and a guest on it, from a snapshot.  A guest costs no more this way than on a host that
/// another test or mode has used, and finds it as it was after its boot.
pub fn pair(
    host: HostSpec,
    kernel: PathBuf,
    vcpus: u32,
    mode_name: &str,
    append: &[&str],
) -> (Host, Guest) {
    let (host, guest) = resumed(host, guest_config(kernel, vcpus, mode_name, append));
    host.counting_start().unwrap();
    (host, guest)
}

/// Both of them from a snapshot, with nothing that counts.
pub fn resumed(host: HostSpec, guest: GuestConfig) -> (Host, Guest) {
    snapshot::host_with(host, guest, &tools(), &mut print).unwrap()
}

/// A host from a snapshot, with room for two guests.
pub fn host_for(kernel: PathBuf, vcpus: u32, append: &[&str]) -> Host {
    let mut spec = host_spec(kernel, vcpus, append);
    spec.boot.memory = spec.boot.memory + Size::mib(512);
    let host = snapshot::host(spec, &tools(), &mut print).unwrap();
    host.counting_start().unwrap();
    host
}

/// Another guest, which boots.
pub fn guest_on(
    host: &Host,
    kernel: PathBuf,
    vcpus: u32,
    mode_name: &str,
    append: &[&str],
) -> Guest {
    host.start_guest(guest_config(kernel, vcpus, mode_name, append)).unwrap()
}

fn print(event: Event) {
    if let Event::Warning(warning) = event {
        println!("{warning:?}");
    }
}

/// What a workload said of itself, and what the host counted in its window.
#[derive(Debug)]
pub struct Measured {
    report: Value,
    pub exits: u64,
    pub causes: BTreeMap<Cause, u64>,
    /// Writes to TSC_DEADLINE.
    pub deadlines: u64,
    pub ticks_delivered: Option<u64>,
}

impl Measured {
    /// A number of the report, or the sum of those of all CPUs; 0 if it is not there.
    pub fn report(&self, name: &str) -> u64 {
        match &self.report[name] {
            Value::Array(each) => each.iter().filter_map(|n| n.as_u64()).sum(),
            one => one.as_u64().unwrap_or(0),
        }
    }

    /// In percent: the time in which the process ran, of all time; and user, system and idle time
    /// of the guest's CPUs, of all that they counted.  How the process's time divides is not in
    /// it: where it is hit by a few ticks only, that is chance.
    pub fn shares(&self) -> [f64; 4] {
        let ran = self.report("user_ns") + self.report("system_ns");
        let cpus = ["cpu_user_ticks", "cpu_system_ticks", "cpu_idle_ticks"];
        let all: u64 = cpus.iter().map(|name| self.report(name)).sum();
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let [user, system, idle] = cpus.map(|name| percent(self.report(name), all));
        [percent(ran, self.report("duration_ns")), user, system, idle]
    }
}

/// Runs one of the project's workloads in a guest.
pub fn workload(host: &Host, guest: &Guest, name: &str, options: &[&str]) -> Measured {
    host.counting_start().unwrap();
    let agent = tools().agent.display().to_string();
    let argv = [&[agent.as_str(), "workload", name], options].concat();
    let result = guest.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let windows = guest.windows().unwrap();
    assert_eq!(windows.len(), 1, "{windows:?}");
    let counts = windows[0].counts();
    let deadlines = counts.msr_writes.unwrap().get("TSC_DEADLINE").copied();
    let measured = Measured {
        report: serde_json::from_slice(&result.stdout).unwrap(),
        exits: windows[0].total(),
        causes: counts.by_cause,
        deadlines: deadlines.unwrap_or(0),
        ticks_delivered: windows[0].ticks_delivered(),
    };
    println!("{measured:?}");
    measured
}

/// The agent does this for longer than anybody looks.  The emulator takes a fraction of the time of
/// a shell's loop for `cpu`.
pub fn endless(workload: &str) -> String {
    format!("{} workload {workload} --window 0 --work 1000000", tools().agent.display())
}

/// Ends these.
pub const STOP: &str = "pkill -f '[w]orkload '";

/// A vCPU that is busy for a second.
pub fn busy_ticks(host: &Host, guest: &Guest) -> Measured {
    workload(host, guest, "ticks", &[])
}

/// World switches of each vCPU in each window, in order: the emulator's own count, on a host that
/// was asked for it.  The host's first CPU has none.
pub fn world_switches(host: &Host) -> Vec<Vec<u64>> {
    let lines = std::fs::read_to_string(host.world_switches().unwrap()).unwrap();
    let switches = |line: &str| {
        let window: Value = serde_json::from_str(line).unwrap();
        let cpus = window["cpus"].as_array().unwrap()[1..].iter();
        cpus.map(|cpu| cpu["world_switches"].as_u64().unwrap()).collect()
    };
    lines.lines().map(switches).collect()
}

/// Fails if a busy vCPU does not get the ticks of its kernel's rate, which is returned.
pub fn check_tick_rate(host: &Host, guest: &Guest) -> u64 {
    let measured = busy_ticks(host, guest);
    let hz = measured.report("hz");
    let due = hz as f64 * measured.report("duration_ns") as f64 / 1e9;
    // What arrived, and what became of it: the guest's time goes on by as many.
    for name in ["virtual_ticks", "jiffies"] {
        let rate = measured.report(name) as f64 / due;
        assert!((0.97..=1.03).contains(&rate), "{hz} Hz: {name} {rate}");
    }
    hz
}
