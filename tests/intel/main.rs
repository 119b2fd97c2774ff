// SPDX-License-Identifier: GPL-2.0-only
//! The series under KVM-Intel, in an emulator of an Intel processor; `make test-intel` runs this.
//!
//! The table of exits goes to standard output, what is going on to standard error.

use paratick_build::kernel::{self, Variant, DEFAULT_BASE};
use paratick_core::{exits::Counts, reason::is_msr_write, size::Size, wire::GuestConfig};
use paratick_machine::{
    backend::Bochs,
    exec::{Exec, ExecResult},
    host::Host,
    spec::{Backend, HostSpec},
};
use paratick_view::table::Table;
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Longer than any boot or command takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(400);
/// What is shown of the console where something fails.
const TAIL: usize = 40;
/// The timer is armed by the first; interrupts are acknowledged by the second.
const MSRS: [&str; 2] = ["TSC_DEADLINE", "X2APIC_EOI"];
/// kselftest's exit code for success.
const PASSED: i32 = 0;

/// A host, and what it and its guests have printed.
struct Intel {
    host: Host,
    console: Arc<Mutex<Vec<String>>>,
    begun: Instant,
}

impl Intel {
    fn boot(cpus: u32, programs: &[PathBuf]) -> Intel {
        let begun = Instant::now();
        let backend = Bochs { programs: programs.to_vec() };
        // One for each test: the host wants it for as long as the program runs.
        let backend: &'static dyn Backend = Box::leak(Box::new(backend));
        let tools = backend.tools(None).unwrap();
        let mut spec = HostSpec::for_guests(backend, image(), 0, Size::mib(0));
        spec.boot.cpus = cpus;
        spec.timeout = PATIENCE;
        let console: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = console.clone();
        spec.console = Some(Arc::new(move |place: &str, line: &str| {
            lines.lock().unwrap().push(format!("{place}: {line}"));
        }));
        // Says what it knows itself should the boot fail.
        let host =
            Host::boot(spec, &tools, &mut |_| {}).unwrap_or_else(|error| panic!("{error:#}"));
        let intel = Intel { host, console, begun };
        intel.say("the host is up");
        intel
    }

    fn say(&self, what: &str) {
        eprintln!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Runs a program on the host.
    fn run(&self, argv: &[&str]) -> ExecResult {
        self.host.exec(exec(argv)).unwrap_or_else(|error| panic!("{error:#}"))
    }
}

impl Drop for Intel {
    fn drop(&mut self) {
        if thread::panicking() {
            let console = self.console.lock().unwrap();
            let tail = &console[console.len().saturating_sub(TAIL)..];
            eprintln!("The last of the consoles:\n{}", tail.join("\n"));
        }
        self.say("the end");
    }
}

fn exec(argv: &[&str]) -> Exec {
    Exec::new(argv.iter().copied()).timeout(PATIENCE)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The kernel of host and guest.
fn image() -> PathBuf {
    let image = kernel::ensure(DEFAULT_BASE, Variant::Patched, &mut |_| {});
    image.expect("a kernel with the series").bzimage
}

/// The first asks that a race is won and lost about as often, which it is not on Bochs' clock.  The
/// others' guests compute with their interrupts off, and none of the host's was seen to come to
/// Bochs meanwhile: not an exit in 200 ms.
const UNDECIDED: [&str; 3] = ["races_keep", "host_ticks", "steal"];

#[test]
fn every_part_of_the_ticks_selftest_passes() {
    every_part_passes("x86_64/pv_tick_test");
}

#[test]
fn every_part_of_the_halts_selftest_passes() {
    every_part_passes("x86_64/halt_until_test");
}

#[test]
fn every_part_of_the_records_selftest_passes() {
    let (intel, path) = host_with("x86_64/exit_record_test");
    // It does not list them.
    let parts = "bounds without_feature not_offered catchup off toggles light heavy events halts \
                 timer_writes expiries host_ticks steal restored reset init memory_removed \
                 memory_readonly memory_logged memory_ring";
    parts_pass(&intel, &path, parts);
}

#[test]
fn no_deadline_is_early() {
    passes("x86_64/tsc_deadline_test", "");
}

/// The seed is printed.  These took half a minute on a busy machine.
#[test]
fn nothing_breaks_in_seconds_of_random_requests() {
    passes("x86_64/pv_fuzz_test", "-t 4");
}

/// A host with this selftest, and where it is there.
fn host_with(selftest: &str) -> (Intel, String) {
    let program = kernel::selftest(DEFAULT_BASE, selftest, &mut |_| {});
    let program = program.expect("the selftest, built");
    let path = program.display().to_string();
    (Intel::boot(1, &[program, "/bin/sh".into()]), path)
}

fn passes(selftest: &str, options: &str) {
    let (intel, path) = host_with(selftest);
    let result = intel.run(&["/bin/sh", "-c", &format!("{path} {options} 2>&1")]);
    println!("{}", text(&result.stdout));
    assert_eq!(result.code, PASSED);
    intel.host.check().unwrap();
}

fn every_part_passes(selftest: &str) {
    let (intel, path) = host_with(selftest);
    let usage = text(&intel.run(&[&path, "-h"]).stdout);
    let (_, parts) = usage.split_once("Run only this test: ").expect("a list of its parts");
    parts_pass(&intel, &path, parts);
}

fn parts_pass(intel: &Intel, path: &str, parts: &str) {
    let mut failed = Vec::new();
    for part in parts.split_whitespace().filter(|part| !UNDECIDED.contains(part)) {
        // Printed at its end: the serial line's interrupts are not to disturb what is measured.
        let line = format!("said=$({path} -t {part} 2>&1); code=$?; echo \"$said\"; exit $code");
        let result = intel.run(&["/bin/sh", "-c", &line]);
        let said = text(&result.stdout);
        intel.say(&format!("{part}: exit code {}", result.code));
        if result.code != PASSED || !said.contains(" fail:0 ") {
            eprintln!("{said}");
            failed.push(part);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
    intel.host.check().unwrap();
}

/// One second of a busy vCPU: what its guest says, and what its host has counted.
struct Busy {
    ticks_due: u64,
    virtual_ticks: u64,
    timer_interrupts: u64,
    exits: Counts,
}

impl Busy {
    fn measure(intel: &Intel, mode: &str, agent: &str) -> Busy {
        let config = GuestConfig::new(image(), 1, Size::mib(256), mode.parse().unwrap());
        let guest = intel.host.start_guest_within(PATIENCE, config);
        let guest = guest.unwrap_or_else(|error| panic!("{error:#}"));
        intel.say(&format!("a guest in mode {mode} is up"));
        intel.host.counting_start().unwrap();
        let result = guest.exec(exec(&[agent, "workload", "ticks"])).unwrap();
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        let said: serde_json::Value = serde_json::from_slice(&result.stdout).unwrap();
        let windows = guest.windows().unwrap();
        assert_eq!(windows.len(), 1, "{windows:?}");
        intel.say(&format!("it was busy: {said}"));
        let number = |name: &str| said[name].as_u64().unwrap_or(0);
        let first = |name: &str| said[name][0].as_u64().unwrap_or(0);
        guest.shutdown().unwrap();
        Busy {
            ticks_due: number("duration_ns") * number("hz") / 1_000_000_000,
            virtual_ticks: first("virtual_ticks"),
            timer_interrupts: first("local_timer"),
            exits: windows[0].counts(),
        }
    }

    fn reason(&self, name: &str) -> u64 {
        self.exits.by_reason.get(name).copied().unwrap_or(0)
    }

    fn written(&self, msr: &str) -> u64 {
        let writes = self.exits.msr_writes.as_ref();
        writes.and_then(|writes| writes.get(msr)).copied().unwrap_or(0)
    }

    /// In percent of the ticks that were due.
    fn percent(&self, count: u64) -> u64 {
        count * 100 / self.ticks_due
    }
}

#[test]
fn a_busy_guest_has_its_ticks_and_fewer_exits() {
    let intel = Intel::boot(1, &[]);
    let agent = paratick_build::tools::find_agent().unwrap().display().to_string();
    let [without, with] = ["tickless", "paratick"].map(|mode| Busy::measure(&intel, mode, &agent));
    println!("{}", table(&without, &with).text());
    let got = with.percent(with.virtual_ticks);
    assert!((95..=110).contains(&got), "virtual ticks: {got} % of those due");
    // What it is compared with is a guest that pays for its tick.
    assert_eq!(without.virtual_ticks, 0);
    let expired = without.percent(without.reason("PREEMPTION_TIMER"));
    assert!((90..=110).contains(&expired), "expiries without virtual ticks: {expired} %");
    assert!(with.exits.total < without.exits.total);
    intel.host.check().unwrap();
}

/// Two vCPUs, each with a CPU of the host, whose tasks wait for each other in turn: what is a halt
/// in `tickless` is polled for.
#[test]
fn two_vcpus_that_wait_for_each_other_poll_instead_of_halting() {
    let intel = Intel::boot(2, &[]);
    let agent = paratick_build::tools::find_agent().unwrap().display().to_string();
    let [without, with] = ["tickless", "paratick"].map(|mode| {
        let mut config = GuestConfig::new(image(), 2, Size::mib(256), mode.parse().unwrap());
        config.pins = vec![0, 1];
        let guest = intel.host.start_guest_within(PATIENCE, config);
        let guest = guest.unwrap_or_else(|error| panic!("{error:#}"));
        intel.say(&format!("a guest in mode {mode} is up"));
        intel.host.counting_start().unwrap();
        let pingpong = exec(&[&agent, "workload", "pingpong", "--threads", "2"]);
        let result = guest.exec(pingpong).unwrap();
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        let exits = guest.windows().unwrap()[0].counts();
        intel.say(&format!("{exits:?}"));
        guest.shutdown().unwrap();
        let halts = exits.by_reason.get("HLT").copied().unwrap_or(0);
        (halts, exits.total)
    });
    println!("halts, exits: {without:?} in tickless, {with:?} in paratick");
    assert!(with.0 * 4 < without.0 && with.1 * 4 < without.1);
    intel.host.check().unwrap();
}

/// Counts, and how many there were per tick that was due.
fn table(without: &Busy, with: &Busy) -> Table {
    let columns = ["", "tickless", "per tick", "paratick", "per tick"];
    let mut table = Table::new("A busy vCPU under KVM-Intel, for a second", columns);
    let mut row = |name: &str, count: &dyn Fn(&Busy) -> u64| {
        let cells = [without, with].map(|busy| {
            let count = count(busy);
            [count.to_string(), format!("{:.2}", count as f64 / busy.ticks_due as f64)]
        });
        table.row(name, cells.concat());
    };
    row("ticks due", &|busy| busy.ticks_due);
    row("virtual ticks (VTK)", &|busy| busy.virtual_ticks);
    row("timer interrupts (LOC)", &|busy| busy.timer_interrupts);
    // Those that a tick could cost, also where there are none.
    let usual = ["EXTERNAL_INTERRUPT", "HLT", "MSR_WRITE", "PREEMPTION_TIMER"];
    let seen = [without, with].into_iter().flat_map(|busy| busy.exits.by_reason.keys());
    let reasons: BTreeSet<&str> = usual.into_iter().chain(seen.map(String::as_str)).collect();
    for reason in reasons {
        row(reason, &|busy| busy.reason(reason));
        let msrs: &[&str] = if is_msr_write(reason) { &MSRS } else { &[] };
        for msr in msrs {
            row(&format!("of them {msr}"), &|busy| busy.written(msr));
        }
    }
    row("all exits", &|busy| busy.exits.total);
    table
}
