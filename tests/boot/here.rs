// SPDX-License-Identifier: GPL-2.0-only
//! `--host here` on a machine that has what it needs.  That is the lab's own host, which runs KVM
//! as any machine does; what runs below it, the emulator, counts its world switches.

use crate::{
    exits,
    support::{endless, host_spec, kernel, mode, pair, sh, text, tools, world_switches, PATIENCE},
};
use paratick_bench::noise::quiet_host;
use paratick_core::{results, size::Size, wire::GuestConfig};
use paratick_machine::{
    backend::EMULATED,
    exec::{Exec, ExecResult},
    guest::Guest,
    host::Host,
    snapshot,
    spec::HostSpec,
};
use std::{fs, thread};
use tempfile::TempDir;

fn machine() -> Host {
    let mut spec = HostSpec::for_guests(EMULATED, kernel(), 2, Size::mib(1024));
    spec.emulation.count_world_switches = true;
    snapshot::host(spec, &tools(), &mut |_| {}).unwrap()
}

/// What `paratick` prints on this machine, whose disk nobody can write to.
fn paratick(machine: &Host, args: &[&str], code: i32) -> String {
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let kernel = kernel().display().to_string();
    let begin = ["env", "HOME=/tmp", &program];
    let argv = [&begin, &args[..2], &["--host", "here", "--kernel", &kernel], &args[2..]].concat();
    let result = machine.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, code, "{}{}", text(&result.stdout), text(&result.stderr));
    text(&result.stdout)
}

#[test]
fn the_machine_itself_can_be_the_host_and_every_exit_there_is_counted() {
    let machine = machine();
    a_command_runs_in_a_guest_of_the_machine(&machine);
    a_bench_measures_on_the_machine(&machine);
    // Neither guests nor files of theirs are left.
    let left = "ls -d /sys/kernel/debug/kvm/*-* /tmp/.cache/paratick/run/* 2>/dev/null";
    let result = machine.exec(Exec::new(["sh", "-c", left])).unwrap();
    assert_eq!(text(&result.stdout), "");
    machine.shutdown().unwrap();
}

fn a_command_runs_in_a_guest_of_the_machine(machine: &Host) {
    let script = "cat /sys/devices/system/cpu/virtual_tick/active; sleep 0.1; exit 7";
    let options = ["lab", "run", "--vcpus", "1", "--exits", "--format", "json"];
    let said = paratick(machine, &[&options[..], &["--", "sh", "-c", script]].concat(), 7);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["stdout"], "0\n");
    assert!(report["host"]["qemu"].as_array().unwrap().is_empty());
    let exits = report["windows"][0]["vcpus"][0]["exits"].as_array().unwrap();
    let counted: u64 = exits.iter().map(|exit| exit["count"].as_u64().unwrap()).sum();
    assert!(counted > 0);
    assert_eq!(world_switches(machine), [[counted, 0]]);
}

fn a_bench_measures_on_the_machine(machine: &Host) {
    let before = world_switches(machine).len();
    let modes =
        ["bench", "quick", "--modes", "tickless,paratick-ticks", "--workloads", "cpu,pingpong"];
    let size = ["--rounds", "1", "--repeat", "2", "--output", "/tmp/r.json", "--format", "json"];
    let said = paratick(machine, &[&modes[..], &size].concat(), 0);
    let results = results::read(&said).unwrap();
    assert!(results.is_complete() && results.problems.is_empty());
    assert!(results.environment.configuration.host_is_machine);
    let samples = || results.cells.iter().flat_map(|cell| cell.samples());
    // The machine knows of no emulator below it.
    assert!(samples().all(|sample| sample.world_switches.is_none() && sample.problems.is_empty()));
    // Nor has it a PMU; its kernel's clock of QEMU's threads has the guest's time, and KVM's.
    for sample in samples() {
        let (cpu, time) = (sample.cpu_ns.unwrap(), sample.duration_ns.unwrap());
        let guest = sample.user_ns.unwrap() + sample.system_ns.unwrap();
        // A tick of the guest's clock is 10 ms.
        assert!(
            cpu > guest.saturating_sub(20_000_000) && cpu < 3 * time + 100_000_000,
            "{sample:?}"
        );
        assert!(sample.host_cycles.is_none() && sample.guest_instructions.is_none());
    }
    let totals = |sample: &results::Sample| -> Vec<u64> {
        sample.per_vcpu.iter().map(|vcpu| vcpu.total).collect()
    };
    let mut counted: Vec<_> = samples().map(totals).collect();
    let mut switches = world_switches(machine).split_off(before);
    // Results are in another order than the runs.
    counted.sort();
    switches.sort();
    assert_eq!(counted.len(), 8);
    assert_eq!(counted, switches);
}

/// Two guests that compute share a pCPU, and a third one sleeps: each is looked at alone.
#[test]
fn the_vms_of_a_machine_are_looked_at_one_by_one() {
    let mut spec = host_spec(kernel(), 2, &[]);
    spec.boot.memory = spec.boot.memory + Size::mib(1024);
    let host = Host::boot(spec, &tools(), &mut |_| {}).unwrap();
    let guests = [("web", 1), ("db", 1), ("mail", 2)].map(|(name, pcpu)| {
        let mut spec = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        spec.pins = vec![pcpu];
        spec.qemu = ["-name", name].map(String::from).to_vec();
        host.start_guest(spec).unwrap()
    });
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let look = |options: &str| {
        let line = format!("HOME=/tmp {program} {options}");
        let result = host.exec(sh(&line).timeout(PATIENCE)).unwrap();
        assert_eq!(result.code, 0, "{options}: {}", text(&result.stderr));
        text(&result.stdout)
    };
    let json = |options: &str| -> serde_json::Value {
        serde_json::from_str(&look(&format!("{options} --format json"))).unwrap()
    };
    let [web, _, mail] = guests.each_ref().map(Guest::pid);
    thread::scope(|scope| {
        for guest in &guests[..2] {
            let busy = sh(&format!("timeout 25 {}", endless("cpu"))).timeout(PATIENCE);
            scope.spawn(move || guest.exec(busy).unwrap());
        }
        let all = look("idle --for 1s");
        println!("{all}");
        assert!(["web", "db", "mail"].iter().all(|name| all.contains(name)), "{all}");
        let alone = json("idle --for 1s --vm mail");
        let absences = alone["absences"].as_array().unwrap();
        assert!(!absences.is_empty() && absences.iter().all(|one| one["process"] == mail));
        assert_eq!(alone["names"], serde_json::json!({ mail.to_string(): "mail" }));

        let seen = json(&format!("noise --for 2s --vm {web} --vcpu 0 --save /tmp/web.json"));
        let absences = seen["host"]["absences"].as_array().unwrap();
        assert!(absences.len() > 200 && absences.iter().all(|one| one["process"] == web));

        // Each waits while the other one has the pCPU.
        let long = json("noise --for 2s --above 1ms");
        println!("{}", look("noise --for 1s --above 1ms"));
        assert_eq!(long["host"]["least_ns"], 1_000_000);
        let absences = long["host"]["absences"].as_array().unwrap();
        assert!(absences.len() > 50, "{}", absences.len());
        let mut stolen = 0;
        for one in absences {
            let [ns, blocked, waited] =
                ["ns", "blocked_ns", "waited_ns"].map(|name| one[name].as_u64().unwrap());
            assert!(ns - blocked >= 1_000_000, "{one}");
            stolen += usize::from(waited * 10 > ns * 9 && one["taker"].is_string());
        }
        // Others are the host's own work, such as a softirq's.
        assert!(stolen * 10 >= absences.len() * 9, "{stolen} of {}", absences.len());
        // None is so long, which is no failure.
        let none = json("noise --for 1s --above 10s --vm mail");
        assert_eq!(none["host"]["absences"].as_array().unwrap().len(), 0);
        // The others had no record, and were counted.
        assert!(long["host"]["exits"].as_u64().unwrap() > 3 * absences.len() as u64);

        println!("{}", look("noise --for 1s"));
        let halts = json("halts --for 2s --vm mail");
        assert_eq!((&halts["vms"][0]["name"], &halts["vms"][1]), (&"mail".into(), &().into()));
    });
    // Read again: a VM by its name, a vCPU that there is none of.
    let again = json("noise --recording /tmp/web.json --vm web");
    assert!(again["host"]["absences"].as_array().unwrap().len() > 200);
    let line = format!("{program} noise --recording /tmp/web.json --vcpu 7");
    let result = host.exec(sh(&line)).unwrap();
    assert_eq!(result.code, 2);
    assert!(text(&result.stderr).contains("hint: give --vcpu 0"), "{}", text(&result.stderr));
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}

/// What was recorded until Ctrl-C is shown and saved.
#[test]
fn a_recording_that_is_interrupted_is_kept() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    for verb in ["noise", "idle"] {
        let line = format!(
            "(sleep 4; pkill -INT -x paratick) & HOME=/tmp {program} {verb} --for 24h \
             --save /tmp/{verb}.json; echo code $?; {program} {verb} --recording /tmp/{verb}.json"
        );
        let said = text(&host.exec(sh(&line).timeout(PATIENCE)).unwrap().stdout);
        let (shown, again) = said.split_once("code 130\n").expect(&said);
        assert!(!shown.is_empty(), "{said}");
        assert_eq!(shown, again);
        // Its reader went away: it is kept all the same.
        let line = format!(
            "HOME=/tmp {program} {verb} --for 1s --save /tmp/{verb}-2.json | head -c 1 >/dev/null; \
             {program} {verb} --recording /tmp/{verb}-2.json"
        );
        assert_eq!(host.exec(sh(&line).timeout(PATIENCE)).unwrap().code, 0);
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// There is nothing to look at, or nobody may: that is said, with what to do.
#[test]
fn noise_says_what_keeps_it_from_being_recorded() {
    let machine = machine();
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let refused = |with: &str, side: &str, why: &str| {
        let line = format!("{with} {program} noise --side {side} --for 1s");
        let result = machine.exec(sh(&line)).unwrap();
        let error = text(&result.stderr);
        println!("{error}");
        assert!(result.code == 69 && result.stdout.is_empty(), "{}: {error}", result.code);
        assert!(error.contains(why), "{error}");
    };
    let no_tracefs = "unshare -m sh -c 'mount -t tmpfs none /sys/kernel && exec \"$@\"' sh";
    let no_rights = "setpriv --bounding-set=-all --inh-caps=-all";
    for side in ["host", "guest"] {
        refused(no_tracefs, side, "there is no tracefs");
        refused(no_rights, side, "hint: be root");
    }
    machine.shutdown().unwrap();
}

/// Two VMs sample, and their host looks; each of the three by itself.
#[test]
fn what_a_vm_and_its_host_recorded_by_themselves_is_joined_and_each_vm_is_found() {
    let mut spec = host_spec(kernel(), 2, &[]);
    // Else the emulator's own noise fills the recordings.
    quiet_host(&mut spec);
    let host = Host::boot(spec, &tools(), &mut |_| {}).unwrap();
    let guests = [1, 2].map(|pcpu| {
        let mut spec = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        spec.pins = vec![pcpu];
        host.start_guest(spec).unwrap()
    });
    let program = assert_cmd::cargo::cargo_bin("paratick").display().to_string();
    let record = |side: &str, time: &str| {
        let line = format!(
            "{program} noise --side {side} --for {time} --save /tmp/side.json \
             >/dev/null && cat /tmp/side.json"
        );
        sh(&line)
    };
    // It is read for the first time.
    for guest in &guests {
        guest.exec(sh(&format!("{program} --version"))).unwrap();
    }
    let [seen, one, other] = thread::scope(|scope| {
        let seen = scope.spawn(|| host.exec(record("host", "8s")).unwrap());
        let sampled = guests
            .each_ref()
            .map(|guest| scope.spawn(move || guest.exec(record("guest", "1s")).unwrap()));
        let [one, other] = sampled.map(|sampled| sampled.join().unwrap());
        [seen.join().unwrap(), one, other]
    });
    let folder = TempDir::new().unwrap();
    let file = |name: &str, result: &ExecResult| {
        assert_eq!(result.code, 0, "{}", text(&result.stderr));
        let file = folder.path().join(name);
        fs::write(&file, &result.stdout).unwrap();
        file.to_str().unwrap().to_string()
    };
    let seen = file("host.json", &seen);
    for (guest, sampled) in guests.iter().zip([&one, &other]) {
        let sampled = file("guest.json", sampled);
        let mut noise = std::process::Command::new(&program);
        noise.args(["noise", "--recording", &sampled, "--recording", &seen, "--format", "json"]);
        let said = noise.output().unwrap();
        assert!(said.status.success(), "{}", text(&said.stderr));
        let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let gaps = report["ledger"]["entries"].as_array().unwrap();
        println!("{} gaps, {} unexplained", gaps.len(), report["unexplained_gaps"]);
        assert_eq!(report["process"], guest.pid());
        assert!(gaps.len() > 400, "{}", gaps.len());
        assert!(report["unexplained_gaps"].as_u64().unwrap() * 100 <= gaps.len() as u64);
        // A guest alone knows of no exit.
        let exits = gaps.iter().filter(|gap| gap["parts"]["kvm"].as_u64() > Some(0)).count();
        assert!(exits * 2 > gaps.len(), "{exits}");
    }
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}

/// On the whole terminal a window follows the other, with the halts of a guest that sleeps, and no
/// BPF program is loaded again.
#[test]
fn what_looks_on_is_loaded_once() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 1, "tickless", &[]);
    for verb in ["halts", "noise", "idle"] {
        let script = format!(
            "loaded() {{
                 cat /proc/$(pgrep -x paratick)/fdinfo/* | sed -n 's/^prog_id://p' | sort -u
             }}
             {{ sleep 20; printf q; sleep 1; }} |
                 script -qec \"stty rows 24 cols 80; $P {verb} --top\" /tmp/typed >/dev/null &
             sleep 10; first=$(loaded); sleep 8; [ \"$first\" = \"$(loaded)\" ] || echo anew
             wait; echo \"$first\" | wc -l; cat /tmp/typed"
        );
        let said = text(&exits::run(&host, &script).stdout);
        let (programs, shown) = said.split_once('\n').unwrap();
        assert!(programs.trim().parse::<u32>().is_ok_and(|programs| programs > 4), "{said}");
        let times = shown.matches("1 VM ").count();
        assert!(times > 0 && shown.contains("Polled%") == (verb == "halts"), "{said}");
    }
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
