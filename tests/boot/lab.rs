// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick lab` promises, kept by real kernels.

use crate::support::{host_spec, kernel, lab_run, mode, sh, text, tools, Pair, PATIENCE};
use assert_cmd::assert::OutputAssertExt;
use paratick_bench::verify;
use paratick_core::{
    size::Size,
    wire::{Disk, GuestConfig, TerminalSize},
};
use paratick_machine::{
    backend::EMULATED,
    exec::{Exec, Input},
    failure::Failure,
    snapshot,
    spec::HostSpec,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

#[test]
fn the_command_s_streams_and_exit_code_pass_through() {
    lab_run(&[], &["sh", "-c", "echo to out; echo to err >&2; cat; exit 7"])
        .write_stdin("from in\n")
        .assert()
        .code(7)
        .stdout("to out\nfrom in\n")
        .stderr("to err\n");
}

#[test]
fn cpus_of_a_guest_are_divided_among_sockets() {
    let line = "cd /sys/devices/system/cpu; cat cpu?/topology/package_cpus_list \
                cpu?/cache/index3/shared_cpu_list | tr '\n' ' '";
    let memory = Size::mib(512);
    let mut config = GuestConfig::new(kernel(), 4, memory, mode("tickless"));
    config.sockets = Some(2);
    let host = snapshot::host(host_spec(kernel(), 4, &[]), &tools(), &mut |_| {}).unwrap();
    let guest = host.start_guest(config).unwrap();
    assert_eq!(text(&guest.exec(sh(line)).unwrap().stdout), "0-1 0-1 2-3 2-3 0-1 0-1 2-3 2-3 ");
    verify::check_sockets(&guest, Some(2)).unwrap();
    let fault = verify::check_sockets(&guest, Some(4)).unwrap_err().to_string();
    assert!(fault.starts_with("the guest has 2 sockets where 4 should be\nhint: "), "{fault}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// QEMU's main loop would round each of them up to 1 or 2 ms.
#[test]
fn a_disk_takes_the_time_that_it_is_given() {
    let host = snapshot::host(host_spec(kernel(), 1, &[]), &tools(), &mut |_| {}).unwrap();
    let agent = tools().agent.display().to_string();
    for (ns, others) in [(10_000, 3_000_000), (1_100_000, 100_000)] {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        config.disk = Some(Disk::Delayed { size: Size::mib(16), ns });
        let guest = host.start_guest(config).unwrap();
        verify::check_disk(&guest, &agent, Some(ns)).unwrap();
        let fault = verify::check_disk(&guest, &agent, Some(others)).unwrap_err().to_string();
        assert!(fault.starts_with("a read of the guest's disk takes "), "{fault}");
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}

/// Where a guest has files of its own instead of the machine's.
#[test]
fn paratick_and_its_cache_may_lie_in_tmp() {
    let folder = tempfile::Builder::new().prefix("paratick-").tempdir_in("/tmp").unwrap();
    let built = assert_cmd::cargo::cargo_bin("paratick");
    for name in ["paratick", "paratick-agent"] {
        fs::copy(built.with_file_name(name), folder.path().join(name)).unwrap();
    }
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("probe"), "seen").unwrap();
    let script = format!(
        "cat {cache}/probe; {folder}/paratick-agent workload idle --work 1 >/dev/null; env | grep \
         -c PARATICK; echo x >/tmp/x",
        cache = cache.display(),
        folder = folder.path().display()
    );
    Command::new(folder.path().join("paratick"))
        .args(["lab", "run", "--vcpus", "1", "--kernel"])
        .arg(kernel())
        .args(["--", "sh", "-c", &script])
        .env("PARATICK_CACHE", &cache)
        .env("PARATICK_QEMU", tools().qemu)
        .assert()
        .code(0)
        .stdout("seen0\n");
}

#[test]
fn a_command_can_run_on_the_host_where_it_may_start_a_vmm() {
    let line = "hostname; test -w /dev/kvm && ls /sys/module | grep -x kvm_amd; cat; exit 3";
    let assert = lab_run(&["--in", "host"], &["sh", "-c", line]).write_stdin("from in\n").assert();
    let assert = assert.code(3).stdout("paratick-host\nkvm_amd\nfrom in\n");
    // A snapshot that does not fit is made anew, with one line that says so.
    let said = text(&assert.get_output().stderr);
    assert!(said.lines().all(|line| line.starts_with("warning: the snapshot")), "{said}");
}

#[test]
fn a_command_that_hangs_is_stopped_at_its_limit() {
    let options = ["--timeout", "3s"];
    let assert = lab_run(&options, &["sh", "-c", "while :; do :; done"]).assert();
    let error = text(&assert.code(124).get_output().stderr);
    assert!(error.contains("3 s") && error.contains("--timeout"), "{error}");
}

#[test]
fn a_panic_is_shown_and_says_whose_it_is() {
    for (options, place) in [
        (["--append", "rdinit=/nothing"], "guest 1"),
        (["--host-append", "rdinit=/nothing"], "host"),
    ] {
        let begun = Instant::now();
        let assert = lab_run(&options, &["true"]).assert().code(69);
        let error = text(&assert.get_output().stderr);
        assert!(error.contains("Unable to mount root"), "{error}");
        assert!(error.contains(&format!("console of the {place}")), "{error}");
        // Seen, and not waited out.
        assert!(begun.elapsed() < Duration::from_secs(100));
    }
}

#[test]
fn exits_are_counted_around_a_command_that_marks_no_window() {
    let assert = lab_run(&["--exits", "--format", "json"], &["sleep", "0.1"]).assert();
    let report: serde_json::Value =
        serde_json::from_slice(&assert.code(0).get_output().stdout).unwrap();
    let windows = report["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 1, "{windows:?}");
    let exits = windows[0]["vcpus"][0]["exits"].as_array().unwrap();
    // It halts with its deadline.
    assert!(exits.iter().any(|exit| exit["reason"] == "hypercall"), "{exits:?}");
}

#[test]
fn a_scratch_disk_is_as_large_as_asked_for() {
    lab_run(
        &["--disk", "64M"],
        &["sh", "-c", "echo kept > /dev/vda && head -n 1 /dev/vda && cat /sys/block/vda/size"],
    )
    .assert()
    .code(0)
    .stdout("kept\n131072\n");
}

/// The kernel that has no driver of it is replaced by one that has.
#[test]
#[ignore = "builds a kernel with the driver of NVMe disks, 5 minutes"]
fn a_disk_may_be_an_nvme_disk() {
    let mut run = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    run.args(["lab", "run", "--disk", "64M", "--disk-device", "nvme", "--", "sh", "-c"]);
    run.arg(
        "cd /sys/block; uname -r | grep -o nvme; ls | grep -v ram; cat nvme0n1/size \
         nvme0n1/device/model; echo kept >/dev/nvme0n1 && head -n 1 /dev/nvme0n1",
    );
    let disk = "nvme\nnvme0n1\n131072\nQEMU NVMe Ctrl                          \nkept\n";
    run.assert().code(0).stdout(disk);
    // A kernel of the user's own is taken as it is, and has none.
    let error = lab_run(&["--disk", "64M", "--disk-device", "nvme"], &["true"]).assert().code(69);
    let error = text(&error.get_output().stderr);
    assert!(error.contains("no disk /dev/nvme0n1") && error.contains("\nhint: "), "{error}");
}

#[test]
fn inside_is_the_machine_read_only_but_for_its_scratch_places() {
    let pair = Pair::boot(1, "tickless");
    let result = pair
        .sh("touch /usr/x 2>/dev/null || echo read-only; for d in /tmp /var/tmp /run \
        /dev/shm; do echo ok > $d/x; cat $d/x; done; cat /dev/fd/0; hostname");
    assert_eq!(text(&result.stdout), "read-only\nok\nok\nok\nok\nparatick-guest\n");
    // The host is not the guest.
    let result = pair.host.exec(sh("hostname; ls /tmp/x")).unwrap();
    assert_eq!(text(&result.stdout), "paratick-host\n");
    a_terminal_has_its_size_and_its_keys(&pair);
    a_lot_of_output_and_input_arrives_whole(&pair);
    what_is_left_in_the_background_is_not_waited_for(&pair);
    a_command_that_is_not_there_is_an_error(&pair);
    pair.guest.shutdown().unwrap();
    pair.host.shutdown().unwrap();
}

fn a_terminal_has_its_size_and_its_keys(pair: &Pair) {
    let mut exec = sh(
        "stty size; trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.01; done",
    );
    exec.terminal = Some(TerminalSize { rows: 33, columns: 111 });
    // What Ctrl-C sends, once the trap is set.
    let (keys, typed) = std::os::unix::net::UnixStream::pair().unwrap();
    exec.stdin = Input::From(Box::new(typed));
    let mut output = String::new();
    let finished = pair.guest.exec_streaming(exec, &mut |_, bytes| {
        output += &String::from_utf8_lossy(bytes);
        if output.contains("ready") {
            use std::io::Write;
            (&keys).write_all(b"\x03")?;
        }
        Ok(())
    });
    assert_eq!(finished.unwrap().code, 3, "{output}");
    assert!(output.starts_with("33 111\r\n"), "{output}");
    assert!(output.contains("interrupted"), "{output}");
}

fn a_lot_of_output_and_input_arrives_whole(pair: &Pair) {
    let input: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut exec = Exec::new(["cat"]).timeout(PATIENCE);
    exec.stdin = Input::From(Box::new(std::io::Cursor::new(input.clone())));
    let result = pair.guest.exec(exec).unwrap();
    assert!(result.stdout == input, "{} bytes came back", result.stdout.len());
}

fn what_is_left_in_the_background_is_not_waited_for(pair: &Pair) {
    let result = pair.sh("sleep 100000 & echo done");
    assert_eq!((result.code, text(&result.stdout)), (0, "done\n".into()));
}

fn a_command_that_is_not_there_is_an_error(pair: &Pair) {
    let error = pair.guest.exec(Exec::new(["no-such-program"])).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(Failure::NotStarted(_))));
}

#[test]
fn several_guests_share_a_host() {
    let memory = Size::mib(256);
    let host = HostSpec::for_guests(EMULATED, kernel(), 4, Size::mib(1024));
    let host = snapshot::host(host, &tools(), &mut |_| {}).unwrap();
    let names = ["periodic", "tickless", "tickless-stop", "paratick"];
    let guests: Vec<_> = names
        .into_iter()
        .map(|name| {
            let mut spec = GuestConfig::new(kernel(), 1, memory, mode(name));
            spec.disk = Some(Disk::Memory(Size::mib(64)));
            host.start_guest(spec).unwrap()
        })
        .collect();
    let pins: Vec<_> = guests.iter().flat_map(|guest| guest.pins()).collect();
    assert_eq!(pins, [&1, &2, &3, &4]);
    host.counting_start().unwrap();
    let outputs: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = guests
            .iter()
            .map(|guest| {
                scope.spawn(|| {
                    let mut exec = sh("cat /sys/block/vda/size");
                    exec.window = Some(5);
                    text(&guest.exec(exec).unwrap().stdout)
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(outputs, ["131072\n"; 4]);
    for guest in &guests {
        let windows = guest.windows().unwrap();
        assert_eq!(windows.len(), 1);
        assert_eq!(windows[0].vm(), Some(guest.pid()));
        assert!(windows[0].total() > 0);
    }
    // A guest that ends does not take the others with it.
    let mut guests = guests;
    guests.remove(0).shutdown().unwrap();
    let result = guests[0].exec(sh("echo still here")).unwrap();
    assert_eq!(text(&result.stdout), "still here\n");
    host.check().unwrap();
}

#[test]
fn guests_of_1_4_and_16_vcpus_boot_with_clean_consoles() {
    for vcpus in [1, 4, 16] {
        boots_clean(vcpus);
    }
}

#[test]
fn a_guest_of_2_vcpus_boots_again_and_again_with_clean_consoles() {
    for _ in 0..4 {
        boots_clean(2);
    }
}

fn boots_clean(vcpus: u32) {
    let pair = Pair::boot(vcpus, "tickless");
    assert_eq!(text(&pair.sh("nproc").stdout), format!("{vcpus}\n"));
    pair.guest.shutdown().unwrap();
    pair.host.shutdown().unwrap();
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let cache = tempfile::tempdir().unwrap();
    let tools = tools();
    let run = || cache.path().join("run");
    let mut lab = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    lab.args(["lab", "run", "--vcpus", "1", "--kernel"]);
    lab.arg(kernel()).args(["--", "sleep", "1000000"]);
    lab.env("PARATICK_QEMU", &tools.qemu)
        .env("PARATICK_AGENT", &tools.agent)
        .env("PARATICK_CACHE", cache.path())
        .stdin(Stdio::null());
    for (signal, code) in [("INT", 130), ("TERM", 143), ("KILL", -1)] {
        let mut child = lab.spawn().unwrap();
        wait_for("the host to start", || uses(&run()) > 1);
        thread::sleep(Duration::from_secs(1));
        Command::new("kill").args(["-s", signal, &child.id().to_string()]).assert().success();
        let status = child.wait().unwrap();
        assert_eq!(status.code().unwrap_or(-1), code);
        wait_for("the emulator to end", || uses(&run()) == 0);
        if signal != "KILL" {
            assert_eq!(fs::read_dir(run()).unwrap().count(), 0);
        }
    }
    // What could not be removed is swept up by the next run.
    lab_run(&["--timeout", "1s"], &["true"])
        .env("PARATICK_QEMU", "/bin/true")
        .env("PARATICK_AGENT", &tools.agent)
        .env("PARATICK_CACHE", cache.path())
        .assert()
        .code(69);
    assert_eq!(fs::read_dir(run()).unwrap().count(), 0);
}

/// How many processes name this folder or anything below it in their command lines or hold it
/// open.
fn uses(folder: &Path) -> usize {
    let needle = folder.to_str().unwrap();
    let uses = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let open = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(folder)));
        open || String::from_utf8_lossy(&line).contains(needle)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(uses).count()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
