// SPDX-License-Identifier: GPL-2.0-only
//! `paratick doctor --vm NAME` on the lab's host: what costs a VM is named first, and is gone once
//! its advice was followed.

mod beside;
mod by_hand;
mod chain;
mod delivery;
mod inputs;
mod masked;

use crate::support::{compile, host_spec, kernel, mode, resumed, sh, stock, text, tools};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{clock_device::ClockDevice, size::Size, wire::GuestConfig};
use paratick_machine::{guest::Guest, host::Host};
use serde_json::Value;
use std::{path::PathBuf, thread};

const SLEEPS: &str = "$AGENT workload sleep --window 0 --work 100000000";

fn on(host: &Host, line: &str) -> String {
    let done = host.exec(sh(line)).unwrap();
    assert_eq!(done.code, 0, "{line}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// What is said of a VM of this name.
fn doctor(host: &Host, vm: &str) -> Value {
    let program = assert_cmd::cargo::cargo_bin("paratick");
    let line = format!("doctor --vm {vm} --for 1s --format json");
    let said = on(host, &format!("env HOME=/tmp {} {line}", program.display()));
    let report: Value = serde_json::from_str(&said).unwrap();
    for one in ["costs", "threads"].map(|name| report[name].as_array().unwrap().clone()).concat() {
        println!("{one}");
    }
    report
}

/// What costs the only VM of the host while this runs in it.
fn costs(host: &Host, guest: &Guest, load: &str) -> Vec<Value> {
    let agent = tools().agent.display().to_string();
    let load = format!(
        "AGENT={agent}; rm -f /tmp/stop; mkfifo /tmp/stop; {load} >/dev/null & L=$!; \
         read stop </tmp/stop; kill $L"
    );
    let report = thread::scope(|scope| {
        let loaded = scope.spawn(|| guest.exec(sh(&load)).unwrap());
        let report = doctor(host, "paratick-guest");
        guest.exec(sh("echo stop >/tmp/stop")).unwrap();
        let loaded = loaded.join().unwrap();
        assert_eq!(loaded.code, 0, "{}", text(&loaded.stderr));
        report
    });
    let threads = report["threads"].as_array().unwrap();
    assert!(!threads.iter().any(|one| one["name"].as_str().unwrap().starts_with("CPU ")));
    assert_eq!(report["vm"], "paratick-guest");
    assert_eq!(report["process"], guest.pid());
    report["costs"].as_array().unwrap().clone()
}

fn of<'a>(costs: &'a [Value], what: &str) -> &'a Value {
    costs.iter().find(|cost| cost["what"] == what).unwrap()
}

fn per_second(cost: &Value) -> f64 {
    cost["per_second"].as_f64().unwrap()
}

/// The first of them, and at least so many a second.
fn is_first(costs: &[Value], what: &str, least: f64, mend: &str) {
    let first = &costs[0];
    assert_eq!((&first["what"], &first["state"]), (&what.into(), &"costs".into()));
    assert!(per_second(first) >= least && first["share"].as_f64().unwrap() > 0.0, "{first}");
    assert!(first["mend"].as_str().unwrap().contains(mend), "{first}");
}

fn is_gone(costs: &[Value], what: &str) {
    let now = of(costs, what);
    assert!(now["state"] == "free" && now["mend"] == "", "{now}");
    assert!(now["per_second"].as_f64().unwrap_or(0.0) < 20.0, "{now}");
}

/// One guest, and how it is given what it was given.
struct Vm {
    kernel: PathBuf,
    clock: ClockDevice,
    cpu: &'static str,
    append: &'static [&'static str],
}

fn vm(clock: ClockDevice, cpu: &'static str) -> Vm {
    Vm { kernel: kernel(), clock, cpu, append: &[] }
}

const PLAIN: ClockDevice = ClockDevice::TscDeadline;

impl Vm {
    fn boot(&self) -> (Host, Guest) {
        let mut config = GuestConfig::new(&self.kernel, 1, Size::mib(512), mode("tickless"));
        (config.clock, config.cpu) = (self.clock, self.cpu.into());
        config.append = self.append.iter().map(|word| word.to_string()).collect();
        config.pins = vec![1];
        resumed(host_spec(kernel(), 1, &[]), config)
    }

    fn costs(&self, load: &str) -> Vec<Value> {
        let (host, guest) = self.boot();
        let costs = costs(&host, &guest, load);
        end(host, guest);
        costs
    }
}

fn end(host: Host, guest: Guest) {
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn a_pit_or_hpet_in_use_is_named_first_and_costs_nothing_beside_an_apic_s_timer() {
    let advised = vm(PLAIN, "").costs(SLEEPS);
    for (clock, what, mend) in
        [(ClockDevice::Pit, "PIT", "nolapic_timer"), (ClockDevice::Hpet, "HPET", "hpet=off")]
    {
        is_first(&vm(clock, "").costs(SLEEPS), what, 1000.0, mend);
        is_gone(&advised, what);
    }
    assert_eq!(of(&advised, "HPET")["found"], "the machine has none, by its command line");
    assert!(advised.iter().all(|cost| cost["state"] != "costs"), "{advised:?}");
}

/// No Windows runs here: a program has the RTC for a timer, as that does.
#[test]
fn an_rtc_in_use_is_named_first_and_costs_nothing_beside_hyper_v_s_timer() {
    const RTC: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/rtc");
    compile(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/doctor/rtc.c"), RTC);
    let missing = vm(PLAIN, "hv-time,hv-vpindex,hv-relaxed,hv-synic").costs(RTC);
    // Linux reads the time for each alarm, too.
    is_first(&missing, "RTC's time", 500.0, "that program");
    const TIMER: &str = "hv-time,hv-vpindex,hv-synic,hv-stimer";
    is_first(&missing[1..], "RTC", 500.0, TIMER);
    is_first(&missing[2..], "Hyper-V's timer", 500.0, TIMER);
    let given = vm(PLAIN, "hv-time,hv-vpindex,hv-relaxed,hv-synic,hv-stimer").costs(RTC);
    is_gone(&given, "RTC's time");
    is_gone(&given, "RTC");
    is_gone(&given, "Hyper-V's timer");
}

#[test]
fn hyper_v_s_timer_in_use_is_named_first_and_a_linux_guest_needs_fewer_exits_without() {
    const HYPERV: &str = "-tsc-deadline,kvm=off,hv-time,hv-vpindex,hv-relaxed,hv-synic,hv-stimer,\
                          hv-stimer-direct,hv-vapic";
    let kernel = stock(DEFAULT_BASE).bzimage;
    let [with, without] = [HYPERV, ""].map(|cpu| {
        let vm = Vm { kernel: kernel.clone(), ..vm(PLAIN, cpu) };
        let (host, guest) = vm.boot();
        let seen = costs(&host, &guest, SLEEPS);
        let exits = "cat /sys/kernel/debug/kvm/*-*/exits";
        let agent = tools().agent.display().to_string();
        let work = format!("{agent} workload sleep --window 0 --work 2000 >/dev/null");
        let number = || on(&host, exits).trim().parse::<u64>().unwrap();
        let before = number();
        guest.exec(sh(&work)).unwrap();
        let exits = number() - before;
        end(host, guest);
        (seen, exits)
    });
    println!("{} {}", with.1, without.1);
    is_first(&with.0, "Hyper-V's timer", 1000.0, "without kvm=off and hv-");
    is_gone(&without.0, "Hyper-V's timer");
    assert!(without.1 < with.1, "{} {}", without.1, with.1);
}

#[test]
fn a_clock_that_was_chosen_is_named_first_and_given_up_at_once() {
    let append: &[&str] = &["clocksource=acpi_pm"];
    let (host, guest) = Vm { append, ..vm(PLAIN, "") }.boot();
    let chosen = costs(&host, &guest, SLEEPS);
    is_first(&chosen, "clock", 1000.0, "echo tsc >");
    let mend = chosen[0]["mend"].as_str().unwrap().split_once(": ").unwrap().1;
    assert_eq!(guest.exec(sh(mend)).unwrap().code, 0);
    is_gone(&costs(&host, &guest, SLEEPS), "clock");
    end(host, guest);
}

#[test]
fn a_lost_paravirtual_eoi_is_named_first_and_ends_with_it() {
    let lost = vm(PLAIN, "kvm-pv-eoi=off").costs(SLEEPS);
    is_first(&lost, "paravirtual EOI", 500.0, "without kvm-pv-eoi=off");
    // The emulated processor has none, and the lab's kernels have no BTF.
    let avic = of(&lost, "AVIC or APICv");
    assert!(avic["state"] == "absent" && per_second(avic) > 500.0, "{avic}");
    assert_eq!(of(&lost, "kvm-clock")["state"], "unknown");
    is_gone(&vm(PLAIN, "").costs(SLEEPS), "paravirtual EOI");
}
