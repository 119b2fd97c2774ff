// SPDX-License-Identifier: GPL-2.0-only
//! Debian's own kernels, as their packages have them: as hosts and guests, and as hosts of a guest
//! with the series.

use crate::support::{
    busy_ticks, endless, guest_on, host_for, host_spec, kernel, mode, sh, stock, text, tools,
    workload, world_switches, Measured, PATIENCE,
};
use paratick_bench::noise::NoiseRecorder;
use paratick_build::{
    kernel::{debian, DEFAULT_BASE},
    root::{self, System},
};
use paratick_core::{cause::Cause, size::Size, wire::GuestConfig};
use paratick_machine::{exec::Exec, guest::Guest, host::Host, snapshot};
use std::{path::PathBuf, thread};

/// Rate of the tick of Debian's kernels and of the lab's.
const HZ: u64 = 250;

/// A busy vCPU arms and takes each of its ticks, and the host takes its own.
fn check_ticks(measured: &Measured) {
    for cause in [Cause::Arm, Cause::Expiry, Cause::HostTick] {
        let exits = measured.causes.get(&cause).copied().unwrap_or(0);
        assert!((HZ * 9 / 10..HZ * 3 / 2).contains(&exits), "{cause:?}: {exits}");
    }
}

#[test]
fn a_stock_guest_on_a_stock_host_arms_and_takes_each_of_its_ticks() {
    let stock = stock(DEFAULT_BASE);
    let host = host_for(stock.bzimage.clone(), 1, &[]);
    let guest = guest_on(&host, stock.bzimage, 1, "tickless", &[]);
    for said in [host.exec(sh("uname -r")), guest.exec(sh("uname -r"))] {
        assert_eq!(text(&said.unwrap().stdout).trim(), stock.release);
    }
    let modules = text(&guest.exec(sh("cat /proc/modules")).unwrap().stdout);
    assert!(modules.contains("9pnet_virtio ") && !modules.contains("kvm "), "{modules}");
    check_ticks(&busy_ticks(&host, &guest));
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn a_guest_with_the_series_arms_its_own_ticks_on_a_stock_host() {
    let host = host_for(stock(DEFAULT_BASE).bzimage, 1, &[]);
    let guest = guest_on(&host, kernel(), 1, "tickless", &[]);
    let measured = busy_ticks(&host, &guest);
    assert!(measured.causes.get(&Cause::Arm).copied().unwrap_or(0) >= HZ * 9 / 10);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

#[test]
fn every_exit_of_a_guest_with_debians_6_1_is_counted() {
    let stock = stock("6.1");
    let host = counting_host(kernel(), false);
    let guest = counted_guest(&host, stock.bzimage);
    assert_eq!(text(&guest.exec(sh("uname -r")).unwrap().stdout).trim(), stock.release);
    end(host, guest);
}

/// It wants a processor whose features fit together: self-tests of crypto code, which the lab
/// leaves out, panicked on another.
#[test]
fn every_exit_of_a_guest_with_debians_7_3_is_counted() {
    let stock = stock("7.3");
    let host = counting_host(kernel(), false);
    let guest = counted_guest(&host, stock.bzimage);
    let said = guest.exec(sh("uname -r; grep -cw avx /proc/cpuinfo; dmesg")).unwrap();
    let said = text(&said.stdout);
    assert!(said.starts_with(&format!("{}\n0\n", stock.release)), "{said}");
    assert!(!said.contains("dependency check failure"), "{said}");
    end(host, guest);
}

/// Its KVM emulates no instruction while it believes that an event is being delivered (emulator
/// patch 0012).
#[test]
fn every_exit_on_a_host_with_debians_7_3_is_counted() {
    let host = counting_host(stock("7.3").bzimage, false);
    let guest = counted_guest(&host, kernel());
    end(host, guest);
}

/// KVM for AMD tells there of an interrupt after its handler.  In windows and by the sensor it is
/// known which interrupt it was; by the sensor, also who came before KVM told.  The host's CPUs run
/// in parallel: it would never see the second.
#[test]
fn on_a_host_that_tells_late_interrupts_and_steal_are_of_their_exits() {
    let host = counting_host(stock("6.1").bzimage, true);
    let guest = counted_guest(&host, kernel());
    host.start::<NoiseRecorder>().unwrap();
    // On the vCPU's pCPU, at times.
    let beside =
        sh("for n in 1 2 3 4 5; do timeout 0.1 taskset -c 1 sh -c 'while :; do :; done'; \
                     sleep 0.15; done");
    thread::scope(|scope| {
        let busy = scope.spawn(|| guest.exec(sh(&format!("timeout 2 {}", endless("cpu")))));
        host.exec(beside.timeout(PATIENCE)).unwrap();
        busy.join().unwrap().unwrap();
    });
    let seen = host.read::<NoiseRecorder>().unwrap();
    let of = |cause: Cause| seen.absences.iter().filter(|one| one.cause == cause).count() as u64;
    let [arm, expiry, tick] = [Cause::Arm, Cause::Expiry, Cause::HostTick].map(of);
    let unknown = seen.absences.iter().filter(|one| one.words() == "interrupt");
    let unknown = unknown.filter(|one| one.cause == Cause::Other).count() as u64;
    let waited: u64 = seen.absences.iter().map(|one| one.waited_ns).sum();
    println!("{arm} arms, {expiry} expiries, {tick} ticks, {unknown} others, {waited} ns of steal");
    assert!(arm > HZ && expiry.abs_diff(arm) <= arm / 5, "{expiry} of {arm}");
    assert!(tick > HZ && unknown * 100 <= expiry + tick, "{tick} {unknown}");
    // It had the pCPU for a part of each 100 ms, of which its own start takes some.
    assert!((30_000_000..=520_000_000).contains(&waited), "{waited}");
    end(host, guest);
}

/// As the flavour for clouds: what it has of files is on a disk, and its exits are counted.
#[test]
fn a_guest_whose_kernel_has_no_9p_has_its_root_on_a_disk() {
    let image = stock(&format!("{DEFAULT_BASE}-cloud")).bzimage;
    assert!(!debian::shares_files(&image) && debian::shares_files(&kernel()));
    let folder = tempfile::tempdir().unwrap();
    for name in ["dev", "proc", "run", "sbin", "sys", "tmp", "var/tmp"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    // A program that is static and says something.
    std::fs::copy(tools().agent, folder.path().join("sbin/init")).unwrap();
    let system: System = folder.path().to_str().unwrap().parse().unwrap();
    let mut config = GuestConfig::new(image, 1, Size::mib(512), mode("tickless"));
    config.root_disk = Some(root::disk(Some(&system), &mut |_| {}).unwrap());

    let host = counting_host(kernel(), false);
    let guest = host.start_guest(config.clone()).unwrap();
    // Self-tests of crypto code would go on: with them there are three hundred.
    let quiet = workload(&host, &guest, "idle", &[]);
    assert!(quiet.exits < 150, "{quiet:?}");
    let said = guest.exec(Exec::new(["/sbin/init", "--help"])).unwrap();
    let said = text(&said.stdout) + &text(&said.stderr);
    assert!(said.starts_with("usage: paratick-agent "), "{said}");
    assert!(guest.exec(Exec::new(["/bin/sh"])).is_err());
    let measured = busy_ticks(&host, &guest);
    check_ticks(&measured);
    assert_eq!(world_switches(&host), [[quiet.exits], [measured.exits]]);
    end(host, guest);

    // What changes in the folder makes another disk, which takes the place of the first.
    std::fs::write(folder.path().join("sbin/more"), "").unwrap();
    let second = root::disk(Some(&system), &mut |_| {}).unwrap();
    let first = config.root_disk.unwrap();
    assert!(second != first && second.is_file() && !first.exists());
    std::fs::remove_file(second).unwrap();
}

/// The emulator counts, too.
fn counting_host(kernel: PathBuf, parallel: bool) -> Host {
    let mut spec = host_spec(kernel, 1, &[]);
    spec.emulation.count_world_switches = true;
    spec.emulation.parallel_clock = parallel;
    snapshot::host(spec, &tools(), &mut |_| {}).unwrap()
}

/// One whose exits and world switches were counted for a second in which it was busy.
fn counted_guest(host: &Host, kernel: PathBuf) -> Guest {
    let guest = guest_on(host, kernel, 1, "tickless", &[]);
    // With 7.3 slices end beside ticks, whenever a thread of the kernel has waited; older kernels
    // take the word, too.
    let features = "/sys/kernel/debug/sched/features";
    let line = format!("[ ! -e {features} ] || echo NO_HRTICK >{features}");
    assert_eq!(guest.exec(sh(&line)).unwrap().code, 0);
    let measured = busy_ticks(host, &guest);
    check_ticks(&measured);
    assert_eq!(world_switches(host), [[measured.exits]]);
    guest
}

fn end(host: Host, guest: Guest) {
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
