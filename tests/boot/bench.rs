// SPDX-License-Identifier: GPL-2.0-only
//! Benches for real: what they count, and what an interrupt leaves.

use crate::support::{kernel, mode, PATIENCE};
use paratick_core::{
    cause::Cause,
    disk_device::DiskDevice,
    noise::NoiseSample,
    results::{self, Cell, Cost, Crowd, Figure, Results},
    subject::Subject,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Small, and possible with any kernel.
fn quick(output: &Path, more: &[&str]) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("paratick"))
        .args(["bench", "quick", "--modes", "periodic,tickless"])
        .args(["--workloads", "idle,pingpong", "--rounds", "2", "--repeat", "2", "--kernel"])
        .arg(kernel())
        .arg("--output")
        .arg(output)
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn read(file: &Path) -> Results {
    results::read(&fs::read_to_string(file).unwrap()).unwrap()
}

fn wait_for(file: &Path) {
    let end = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < end, "no results after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_interrupted_bench_keeps_its_guests_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let mut first = quick(&file, &[]);
    wait_for(&file);
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    let kept = read(&file);
    assert!(!kept.cells.is_empty() && !kept.is_complete());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the results");

    let mut second = quick(&file, &["--resume"]);
    assert_eq!(second.wait().unwrap().code(), Some(0));
    let all = read(&file);
    assert!(all.is_complete());
    assert_eq!(all.cells[0].samples()[0], kept.cells[0].samples()[0]);
    check_counts(&all);
}

/// In a guest whose host polls by the article's rule to the letter, and in one that polls itself.
#[test]
fn polling_is_measured_with_the_limits_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "polling", "--quick", "--rounds", "1", "--workloads", "exponential"]);
    bench.args(["--modes", "tickless,tickless+poll-50k", "--halt-poll", "none,paper-floor"]);
    bench.arg("--kernel").arg(kernel()).arg("--output").arg(&file).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let all = read(&file);
    let halts = |subject: &str| {
        let cell = all.cell("exponential", subject.parse::<Subject>().unwrap()).unwrap();
        cell.readings.halts.clone().expect("recorded in the first guest")
    };
    let (none, floor) = (halts("tickless"), halts("tickless halt-poll=paper-floor"));
    println!("{none:?}\n{floor:?}");
    // What comes before KVM has put the thread to sleep needs no block.
    assert!(none.tally.halts >= 1000 && none.tally.blocks + 5 >= none.tally.halts);
    assert_eq!(none.tally.limits.keys().collect::<Vec<_>>(), [&0]);
    // It never goes below 10 us, and is there most of the time.
    assert_eq!(floor.tally.limits.first_key_value().map(|(limit, _)| *limit), Some(10_000));
    assert!(floor.share_at(10_000) > floor.share_at(160_000));
    assert!(floor.tally.hits > 0 && floor.tally.wasted_ns > 0);
    // What polls itself has switched the host's polling off.
    let itself = halts("tickless+poll-50k halt-poll=paper-floor");
    assert_eq!(itself.tally.hits, 0, "{itself:?}");
}

/// Its doorbells are written to where virtio-blk's notification would be.
#[test]
#[ignore = "builds a kernel with the driver of NVMe disks, 5 minutes"]
fn a_bench_of_an_nvme_disk_counts_what_the_emulator_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "io", "--quick", "--rounds", "1", "--tests", "rndr-4k"]);
    bench.args(["--modes", "tickless,paratick", "--disk-device", "nvme", "--output"]);
    assert_eq!(bench.arg(&file).stdout(Stdio::null()).status().unwrap().code(), Some(0));
    let all = read(&file);
    assert_eq!(all.plan.disk_device, DiskDevice::Nvme);
    let kernel = &all.environment.kernel_version;
    assert!(kernel.ends_with("-nvme"), "{kernel}");
    for cell in &all.cells {
        let sample = &cell.samples()[0];
        let exits = sample.exits.as_ref().unwrap();
        assert_eq!(Some(exits.total), sample.world_switches);
        // Each of the thousand requests is one write to a doorbell, or more.
        assert!(exits.by_cause[&Cause::Io] >= 1000, "{exits:?}");
    }
    let guest = &all.environment.qemu_command_lines.guests["paratick"];
    assert!(guest.iter().any(|word| word.starts_with("nvme,drive=")), "{guest:?}");
}

/// Of two guests, in one window: one asks and the other answers, over who moves their packets.
#[test]
#[ignore = "builds a kernel with the drivers of a network, 5 minutes"]
fn guests_that_talk_to_each_other_are_counted_together() {
    let folder = tempfile::tempdir().unwrap();
    let ios = ["vhost", "qemu"].map(|network| {
        let file = folder.path().join(network);
        let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
        bench.args(["bench", "network", "--quick", "--rounds", "1", "--tests", "request,stream"]);
        bench.args(["--modes", "tickless,paratick", "--network", network, "--output"]);
        assert_eq!(bench.arg(&file).stdout(Stdio::null()).status().unwrap().code(), Some(0));
        let all = read(&file);
        assert!(all.is_complete() && all.problems.is_empty(), "{:?}", all.problems);
        for sample in all.cells.iter().flat_map(|cell| cell.samples()) {
            let exits = sample.exits.as_ref().unwrap();
            assert_eq!(Some(exits.total), sample.world_switches);
            // Whoever asks waits for whoever answers: both halt.
            assert_eq!(sample.per_vcpu.len(), 2);
            assert!(sample.per_vcpu.iter().all(|vcpu| vcpu.total > 100), "{sample:?}");
        }
        let guest = &all.environment.qemu_command_lines.guests["paratick"];
        assert!(guest.iter().any(|word| word.starts_with("virtio-net-")), "{guest:?}");
        let of = |cell: &Cell| cell.samples()[0].exits.as_ref().unwrap().by_cause[&Cause::Io];
        let asked = all.cells.iter().filter(|cell| cell.workload == "request").map(of);
        asked.collect::<Vec<_>>()
    });
    // Each of two thousand requests, and each response, is one notification.
    assert!(ios.iter().flatten().all(|io| (4000..4200).contains(io)), "{ios:?}");
}

/// One and two guests: with two, a window is of both, and the emulator's count is of it, too.
#[test]
#[ignore = "1 minute"]
fn idle_guests_are_counted_in_one_window_and_each_adds_what_its_mode_needs() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "idle", "--quick", "--rounds", "2", "--guests", "1,2"]);
    bench.args(["--modes", "periodic,paratick", "--kernel"]).arg(kernel());
    bench.arg("--output").arg(folder.path()).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let all = [1, 2].map(|guests| read(&folder.path().join(format!("idle-{guests}.json"))));
    for results in &all {
        for sample in results.cells.iter().flat_map(|cell| cell.samples()) {
            let exits = sample.exits.as_ref().unwrap();
            assert_eq!(Some(exits.total), sample.world_switches);
            assert_eq!(sample.per_vcpu.len(), results.plan.guests as usize);
            assert!(sample.per_vcpu.iter().all(|vcpu| vcpu.total > 0), "{sample:?}");
            // The host's own and the one that all guests share.
            assert_eq!(sample.pcpus.len(), 2);
            assert_eq!(sample.pcpus[0].vcpu_timers, 0);
            assert!(sample.pcpus[1].wake_ups > 0);
        }
    }
    let crowds = Crowd::all(&all);
    let slope = |name, cost| crowds[0].slope(mode(name), cost).per_guest.unwrap().slope;
    let hz = f64::from(crowds[0].hz.unwrap().0);
    for cost in [Cost::VcpuTimers, Cost::Interrupts] {
        let off = slope("periodic", cost) / hz - 1.0;
        assert!(off.abs() < 0.01, "{cost:?}: {off}");
    }
    for cost in [Cost::Interrupts, Cost::VcpuTimers, Cost::Exits, Cost::WakeUps] {
        let (ours, ticks) = (slope("paratick", cost), slope("periodic", cost));
        assert!(ours < ticks / 5.0, "{cost:?}: {ours} of {ticks}");
    }
}

/// A sampler wakes an idle CPU each time that it expires, and never if it is deferrable; a busy one
/// serves it as often either way.
#[test]
fn a_deferrable_sampler_wakes_nobody_and_the_same_one_wakes_its_cpu_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "idle-tables", "--quick", "--parts", "sampler"]);
    bench.args(["--modes", "tickless-stop", "--kernel"]).arg(kernel());
    bench.arg("--output").arg(folder.path()).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let all = ["sampler", "sampler-deferrable"]
        .map(|name| read(&folder.path().join(format!("{name}.json"))));
    let [plain, deferrable] = all.each_ref().map(|results| {
        let woken = |workload| {
            let cell = results.cell(workload, mode("tickless-stop")).unwrap();
            cell.samples()[0].woken.clone().unwrap()
        };
        let [idle, busy] = [woken("idle"), woken("cpu")];
        assert_eq!((idle.unexplained, busy.unexplained), (0, 0));
        let due = 2e6 / f64::from(results.plan.sampler.unwrap().period_us);
        let expected = due * busy.window_ns as f64 / 1e9;
        let served = busy.sampled.unwrap().expiries as f64;
        assert!(
            (served - expected).abs() <= 2.0 && expected > 40.0,
            "{:?}: {served} for {expected}",
            results.plan.sampler
        );
        let rate = idle.sampled.as_ref().map_or(0, |sampled| sampled.expiries) as f64;
        (idle.sampled, rate * 1e9 / idle.window_ns as f64, due)
    });
    let (sampled, rate, due) = plain;
    let sampled = sampled.unwrap();
    assert!((rate / due - 1.0).abs() < 0.03, "{rate} for {due}");
    // Now and then another timer was due with it.
    assert!(sampled.wakeups * 100 >= sampled.expiries * 90, "{sampled:?}");
    assert!(sampled.exits >= sampled.wakeups, "{sampled:?}");
    let (deferred, rate, _) = deferrable;
    let deferred = deferred.unwrap();
    assert_eq!((deferred.wakeups, deferred.exits), (0, 0));
    assert!(rate < due, "{rate}");
}

/// Every sample has both counts, and they are equal.
fn check_counts(results: &Results) {
    for sample in results.cells.iter().flat_map(|cell| cell.samples()) {
        let switches = sample.world_switches.expect("the lab's emulator counts them");
        assert_eq!(sample.exits.as_ref().map(|exits| exits.total), Some(switches));
        assert!(sample.problems.is_empty());
        let vcpus: u64 = sample.per_vcpu.iter().map(|vcpu| vcpu.total).sum();
        assert_eq!(vcpus, switches);
    }
    // A periodic tick goes on in an idle guest: the bench must see what is known to be so.
    let idle = |name| results.cell("idle", mode(name)).unwrap();
    let exits = |name| idle(name).summary(Figure::Exits).unwrap().median;
    assert!(exits("periodic") > 3.0 * exits("tickless"));
    // The host's clock advanced by the two seconds slept, plus what that took.
    let slept = idle("periodic").summary(Figure::DurationNs).unwrap();
    assert!((2.0e9..2.2e9).contains(&slept.median), "{slept:?}");
}

/// On a host that keeps its own tick away from isolated CPUs, whose guest does, too.  That counts
/// add up is what its exit code says.
#[test]
#[ignore = "2 minutes"]
fn with_cpus_isolated_on_both_sides_timers_cause_hardly_any_noise() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    bench.args(["bench", "noise", "--quick", "--vcpus", "2", "--host-cpus", "3"]);
    bench.args(["--isolate", "none,both", "--modes", "paratick", "--kernel"]).arg(kernel());
    bench.arg("--output").arg(folder.path()).stdout(Stdio::null());
    assert_eq!(bench.status().unwrap().code(), Some(0));
    let [none, both] = ["none", "both"].map(|isolated| {
        let results = read(&folder.path().join(format!("noise-3-{isolated}.json")));
        let sample = &results.cells[0].samples()[0];
        let noise = sample.noise.clone().unwrap();
        assert_eq!(noise.parts.sum(), noise.noise_ns);
        let audit = noise.audit;
        assert_eq!(audit.world_switches, Some(audit.exits));
        assert_eq!(audit.light + audit.heavy + audit.halts + audit.open, audit.exits);
        assert!(audit.exits > 100 && noise.cpus == 1, "{audit:?}");
        println!("{isolated}: {noise:?}");
        noise
    });
    let ticks = |noise: &NoiseSample| noise.guest_timer_events() + noise.cause(Cause::HostTick);
    assert!(ticks(&none) > 150, "{none:?}");
    assert!(ticks(&both) < 20, "{both:?}");
}
