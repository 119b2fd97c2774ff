// SPDX-License-Identifier: GPL-2.0-only
//! Advice is only given against what it ends: followed, the thing is gone.

mod guest;

use crate::support::{
    guest_on, host_for, host_spec, kernel, mode, resumed, sh, stock, text, PATIENCE,
};
use paratick_bench::noise::NoiseRecorder;
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{
    cause::Cause,
    clock_device::ClockDevice,
    noise::{host_sources, Absence, HostNoise, Knob, Source},
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::{exec::Exec, guest::Guest, host::Host};

/// What the host records while the guest runs a command.
fn recorded(host: &Host, guest: &Guest, argv: &[&str]) -> HostNoise {
    host.start::<NoiseRecorder>().unwrap();
    let result = guest.exec(Exec::new(argv.iter().copied()).timeout(PATIENCE)).unwrap();
    assert!([0, 124].contains(&result.code), "{}", text(&result.stderr));
    host.read::<NoiseRecorder>().unwrap()
}

fn knobs(noise: &HostNoise) -> Vec<(Knob, Source)> {
    let ranks = host_sources(&noise.absences);
    ranks.into_iter().filter_map(|rank| Some((rank.source.knob()?, rank.source))).collect()
}

fn exits(noise: &HostNoise, is: impl Fn(&Absence) -> bool) -> usize {
    noise.absences.iter().filter(|one| is(one)).count()
}

fn sleeping(clock: ClockDevice) -> HostNoise {
    let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
    config.clock = clock;
    config.pins = vec![1];
    let (host, guest) = resumed(host_spec(kernel(), 1, &[]), config);
    let argv = ["paratick-agent", "workload", "sleep", "--window", "0", "--work", "500"];
    let noise = recorded(&host, &guest, &argv);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
    noise
}

#[test]
fn a_program_that_sleeps_keeps_its_tick_and_a_pit_is_to_be_replaced() {
    let pit = sleeping(ClockDevice::Pit);
    let wanted = knobs(&pit);
    println!("{wanted:?}");
    // How KVM's thread for the PIT ranks beside it is chance.
    let is_its = |(knob, source): &(Knob, Source)| {
        let arm = matches!(source, Source::Exit { cause: Cause::Arm, reason, .. }
            if reason == "PIT, port 0x40");
        *knob == Knob::GuestClock && arm
    };
    assert!(wanted.iter().any(is_its), "{wanted:?}");
    let is_io = |source: &Source| matches!(source, Source::Exit { cause: Cause::Io, .. });
    let routed = |(knob, source): &(Knob, Source)| *knob == Knob::HostDevices && !is_io(source);
    assert!(!wanted.iter().any(routed), "{wanted:?}");
    // The same program with the clock that is advised.
    let apic = sleeping(ClockDevice::TscDeadline);
    assert!(exits(&apic, |one| one.cause == Cause::Arm) >= 500);
    // Now and then one of the emulated host's own devices interrupts it.
    let wrong = [Knob::GuestClock, Knob::GuestTicks];
    assert!(!knobs(&apic).iter().any(|(knob, _)| wrong.contains(knob)), "{:?}", knobs(&apic));
    assert_eq!(exits(&apic, |one| one.words().contains("PIT")), 0);
}

#[test]
fn the_ticks_of_a_busy_cpu_are_known_and_end_with_nohz_full() {
    let busy = ["timeout", "1", "taskset", "-c", "1", "sh", "-c", "while :; do :; done"];
    let host = host_for(kernel(), 2, &[]);
    let [ticks, none] = [&[][..], &["nohz_full=1"]].map(|append| {
        let guest = guest_on(&host, kernel(), 2, "tickless", append);
        let noise = recorded(&host, &guest, &busy);
        guest.shutdown().unwrap();
        let own = |one: &Absence| one.vcpu == 1 && one.tick;
        let advised = knobs(&noise).iter().any(|(knob, _)| *knob == Knob::GuestTicks);
        (exits(&noise, own), advised)
    });
    println!("{ticks:?} {none:?}");
    // An arm and an expiry for each of 250 ticks.
    assert!(ticks.0 >= 400 && ticks.1, "{ticks:?}");
    assert!(none.0 * 20 <= ticks.0, "{none:?} of {ticks:?}");
    host.shutdown().unwrap();
}

#[test]
fn the_end_of_a_slice_is_no_tick_and_is_gone_without_hrtick() {
    const FEATURES: &str = "/sys/kernel/debug/sched/features";
    let host = host_for(kernel(), 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    let other = "taskset -c 1 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!";
    let other = text(&host.exec(sh(other)).unwrap().stdout).trim().to_string();
    let busy = ["timeout", "1", "sh", "-c", "while :; do :; done"];
    let [with, without] = ["HRTICK", "NO_HRTICK"].map(|feature| {
        let set = host.exec(sh(&format!("echo {feature} >{FEATURES}"))).unwrap();
        assert_eq!(set.code, 0, "{}", text(&set.stderr));
        let noise = recorded(&host, &guest, &busy);
        let advised = knobs(&noise).iter().any(|(knob, _)| *knob == Knob::HostSlices);
        let slices = |one: &Absence| one.cause == Cause::HostTimer && one.words() == "hrtick";
        (exits(&noise, slices), advised)
    });
    println!("{with:?} {without:?}");
    assert!(with.0 >= 20 && with.1, "{with:?}");
    assert_eq!(without, (0, false));
    host.exec(Exec::new(["kill", &other]).timeout(PATIENCE)).unwrap();
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// How often a source with this knob cost something.
fn against(knob: Knob, noise: &HostNoise) -> u64 {
    let ranks = host_sources(&noise.absences);
    let those = ranks.iter().filter(|rank| rank.source.knob() == Some(knob));
    those.inspect(|rank| println!("{} {:?}", rank.count, rank.source)).map(|rank| rank.count).sum()
}

fn on(host: &Host, line: &str) -> String {
    let done = host.exec(sh(line)).unwrap();
    assert_eq!(done.code, 0, "{line}: {}", text(&done.stderr));
    text(&done.stdout).trim().to_string()
}

/// The lab's own kernels have no cgroups of the scheduler's.
#[test]
fn a_vcpu_is_held_back_by_a_quota_and_no_longer_without() {
    const BUSY: [&str; 5] = ["timeout", "1", "sh", "-c", "while :; do :; done"];
    let stock = stock(DEFAULT_BASE);
    let host = host_for(stock.bzimage, 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    on(&host, "cd /sys/fs/cgroup && echo +cpu >cgroup.subtree_control && mkdir vm");
    on(&host, &format!("echo {} >/sys/fs/cgroup/vm/cgroup.procs", guest.pid()));
    let [held, free] = ["20000 100000", "max 100000"].map(|quota| {
        on(&host, &format!("echo {quota} >/sys/fs/cgroup/vm/cpu.max"));
        against(Knob::Quota, &recorded(&host, &guest, &BUSY))
    });
    println!("{held} {free}");
    assert!(held >= 5, "{held}");
    assert_eq!(free, 0);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Each line that a program writes to a terminal is passed on by a worker of any CPU.
#[test]
fn the_kernel_s_workers_leave_the_pcpus_that_are_not_theirs() {
    const BUSY: [&str; 5] = ["timeout", "1", "sh", "-c", "while :; do :; done"];
    let host = host_for(kernel(), 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    let lines = "script -qc 'while :; do echo x; sleep 0.002; done' /dev/null";
    let lines = format!("taskset -c 0 {lines} </dev/null >/dev/null 2>&1 & echo $!");
    let writer = on(&host, &lines);
    // The vCPU's, and the other one.
    let [with, without] = ["2", "1"].map(|cpus| {
        on(&host, &format!("echo {cpus} >/sys/devices/virtual/workqueue/cpumask"));
        against(Knob::HostWorkers, &recorded(&host, &guest, &BUSY))
    });
    println!("{with} {without}");
    assert!(with >= 5, "{with}");
    assert_eq!(without, 0);
    on(&host, &format!("kill {writer}"));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn a_pcpu_that_polls_need_not_wake_up() {
    const SLEEPS: [&str; 7] =
        ["paratick-agent", "workload", "sleep", "--window", "0", "--work", "500"];
    let host = host_for(kernel(), 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    let [blocks, polls] = ["0", "1000000"].map(|ns| {
        on(&host, &format!("echo {ns} >/sys/module/kvm/parameters/halt_poll_ns"));
        against(Knob::HaltPolling, &recorded(&host, &guest, &SLEEPS))
    });
    println!("{blocks} {polls}");
    assert!(blocks >= 500, "{blocks}");
    assert!(polls * 5 <= blocks, "{polls} of {blocks}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
