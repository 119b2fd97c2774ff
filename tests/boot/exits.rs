// SPDX-License-Identifier: GPL-2.0-only
//! `paratick exits` on a machine whose VMs run already, or come and go.  The machine is the lab's
//! host.

mod again;
mod calibrate;
mod cost;
mod many;
mod recorded;
mod steal;
mod would;

use crate::support::{
    compile, endless, host_for, host_spec, kernel, mode, sh, stock, text, tools, STOP,
};
use paratick_build::kernel::DEFAULT_BASE;
use paratick_core::{
    cause::Cause,
    observed::{sum, Kind, Observed, Vm},
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::{exec::ExecResult, host::Host, snapshot};
use std::{path::PathBuf, thread};

pub const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/exits/vm.c");
/// As a VMM is called whose VMs have names.
pub const VMM: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/firecracker");

fn program() -> String {
    format!("env HOME=/tmp {}", assert_cmd::cargo::cargo_bin("paratick").display())
}

/// Runs a script on the machine in which `$P` is the program, and `$VMM` what makes VMs.
pub fn run(host: &Host, script: &str) -> ExecResult {
    let result = host.exec(sh(&format!("P='{}'; VMM={VMM}; {script}", program()))).unwrap();
    println!("{}", text(&result.stderr));
    result
}

/// What is counted while `meanwhile` runs, and what that prints.
fn counted(host: &Host, with: &str, options: &str, meanwhile: &str) -> (Observed, String) {
    let script = format!(
        "{with} $P exits {options} --format json >/tmp/seen 2>/tmp/said & \
         I=$!; until grep -q counting /tmp/said; do kill -0 $I || break; sleep 0.05; done; \
         {{ {meanwhile}; }} >/tmp/meanwhile; wait $I; cat /tmp/said >&2; cat /tmp/meanwhile; \
         echo =; cat /tmp/seen"
    );
    let said = text(&run(host, &script).stdout);
    let (meanwhile, seen) = said.split_once("=\n").unwrap();
    (serde_json::from_str(seen).expect(seen), meanwhile.into())
}

fn cause(vm: &Vm, cause: Cause) -> u64 {
    sum(vm.exits.iter().filter(|exits| exits.kind.cause == cause)).count
}

fn parts_are_the_whole(vm: &Vm) {
    for exits in &vm.exits {
        let spent = &exits.spent;
        let ended: u64 = spent.lengths.iter().sum();
        assert!(ended == spent.count || ended + 1 == spent.count, "{exits:?}");
        assert!(spent.ns() > 0 && spent.at_most(0.99).is_some() || ended == 0, "{exits:?}");
    }
}

/// VMs with 1 to 3 vCPUs, some at the same time, begin and end while exits are counted.
fn counts_are_those_of_kvm_s_statistics(kernel: PathBuf, with: &str) {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel, 3, &[]), &tools(), &mut |_| {}).unwrap();
    let vms = "for n in 1 2 3 4 5 6; do $VMM 1 $((n * 100)) --id one-$n 2000 & \
        $VMM 3 $((n * 70)) --id three-$n; sleep 0.1; wait $!; done";
    let (seen, printed) = counted(&host, with, "--for 6s", vms);
    assert_eq!(seen.lost, 0);
    let lines: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().collect()).collect();
    println!("{lines:?}");
    assert_eq!((lines.len(), seen.vms.len()), (12, 12));
    for line in lines {
        let process: u32 = line[1].parse().unwrap();
        let vm = seen.vms.iter().find(|vm| vm.process == process).expect(line[0]);
        assert_eq!((vm.ended, vm.lost), (true, 0));
        // One that ends at once is gone before it is looked for.
        let named = vm.name == line[0];
        assert!(named || line[0].starts_with("three") && vm.name == line[1], "{}", vm.name);
        assert_eq!(vm.all().count.to_string(), line[2], "{vm:?}");
        assert_eq!(vm.vcpus(), if line[0].starts_with("one") { 1 } else { 3 });
        parts_are_the_whole(vm);
        let of = |is: &dyn Fn(&Kind) -> bool| sum(vm.exits.iter().filter(|one| is(&one.kind)));
        let rounds: u64 = line[0].split_once('-').unwrap().1.parse().unwrap();
        let rounds = rounds * if vm.vcpus() == 1 { 100 } else { 3 * 70 };
        let (cpuid, port) =
            (of(&|kind| &*kind.reason == "cpuid"), of(&|kind| &*kind.reason == "io"));
        assert_eq!((cpuid.count, port.count), (rounds, rounds), "{vm:?}");
        assert!(cpuid.vmm_ns == 0 && port.vmm_ns > 0);
        // Each port is a kind of its own, up to the room of one vCPU.
        let many = of(&|kind| kind.words() == "too many to keep apart").count;
        assert_eq!(many > 0, line[0] == "one-6", "{many}");
        assert_eq!(cause(vm, Cause::Halt), vm.vcpus() as u64);
    }
    host.shutdown().unwrap();
}

/// Nobody in particular counts, who has the capabilities that the help names.
#[test]
fn vms_that_come_and_go_have_the_counts_of_kvm_s_statistics() {
    let caps = "+bpf,+perfmon,+syslog,+dac_read_search";
    let nobody = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,{caps} \
         --ambient-caps=-all,{caps}"
    );
    counts_are_those_of_kvm_s_statistics(kernel(), &nobody);
}

#[test]
fn so_they_do_on_a_kernel_of_debian_s() {
    let stock = stock(DEFAULT_BASE);
    counts_are_those_of_kvm_s_statistics(stock.bzimage, "");
}

/// Two guests with the same name: one sleeps, one computes.
#[test]
fn each_of_two_vms_is_shown_alone_and_as_kvm_counts_it() {
    let host = host_for(kernel(), 2, &[]);
    let [sleeps, computes] = [1, 2].map(|cpu| {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(512), mode("tickless"));
        config.pins = vec![cpu];
        host.start_guest(config).unwrap()
    });
    let name = run(&host, "$P exits --vm paratick-guest --for 1s");
    let error = text(&name.stderr);
    assert_eq!(name.code, 2, "{error}");
    assert!(error.contains("2 VMs are called 'paratick-guest'\nhint: give the process"), "{error}");
    let [sleeper, computer] = thread::scope(|scope| {
        let both = [
            scope.spawn(|| sleeps.exec(sh(&endless("sleep")))),
            scope.spawn(|| computes.exec(sh(&endless("cpu")))),
        ];
        let one = |process: u32| {
            let stop = format!(
                "D=/sys/kernel/debug/kvm/{process}-*/exits; exits() {{ kill -STOP {process}; \
                 sleep 0.2; cat $D; }}; exits; kill -CONT {process}; sleep 1; exits"
            );
            let before = format!("kill -STOP {process}; sleep 0.2; kill -0 {process}");
            run(&host, &before);
            let seen = counted(&host, "", &format!("--vm {process} --for 3s"), &stop);
            run(&host, &format!("kill -CONT {process}"));
            seen
        };
        let seen = [sleeps.pid(), computes.pid()].map(one);
        for guest in [&sleeps, &computes] {
            guest.exec(sh(STOP)).unwrap();
        }
        for done in both {
            done.join().unwrap().unwrap();
        }
        seen
    });
    let alone = |(mut seen, by_kvm): (Observed, String), process: u32| {
        let by_kvm: Vec<u64> = by_kvm.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(seen.vms.len(), 1, "{seen:?}");
        let vm = seen.vms.remove(0);
        println!("{by_kvm:?} {}: {:?}", vm.process, vm.causes());
        assert_eq!((vm.process, vm.ended), (process, false));
        assert_eq!(vm.all().count, by_kvm[1] - by_kvm[0]);
        parts_are_the_whole(&vm);
        vm
    };
    let [sleeper, computer] = [alone(sleeper, sleeps.pid()), alone(computer, computes.pid())];
    // It halts and arms for its sleeps, and the other one has the host's ticks.
    assert!(cause(&sleeper, Cause::Halt) >= 100 && cause(&sleeper, Cause::Arm) >= 100);
    assert!(sleeper.all().blocked_ns > 2 * sleeper.all().cpu_ns());
    assert!(cause(&computer, Cause::Halt) < 20 && cause(&computer, Cause::HostTick) >= 200);
    sleeps.shutdown().unwrap();
    computes.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// There is nothing to look at, or nobody may: that is said, with what to do.
#[test]
fn what_keeps_exits_from_being_counted_is_said() {
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let no_tracefs = "unshare -m sh -c 'mount -t tmpfs none /sys/kernel && exec \"$@\"' sh";
    let no_kvm = "unshare -m sh -c 'mount -t tmpfs none /dev && exec \"$@\"' sh";
    for (with, options, code, why) in [
        (no_tracefs, "", 69, "there is no tracefs"),
        (no_kvm, "", 69, "there is no /dev/kvm"),
        ("setpriv --bounding-set=-all --inh-caps=-all", "", 69, "CAP_BPF and CAP_PERFMON"),
        ("unshare -p -f", "", 69, "--pid=host"),
        ("", "", 69, "no vCPU made an exit on this machine"),
        ("", "--vm web", 2, "no VM 'web' runs on this machine\nhint: start it first"),
        ("", "--top", 2, "--top needs a terminal"),
    ] {
        let result = run(&host, &format!("{with} $P exits --for 1s {options}"));
        let error = text(&result.stderr);
        assert!(result.code == code && result.stdout.is_empty(), "{}: {error}", result.code);
        assert!(error.contains(why) && error.contains("\nhint: "), "{error}");
    }
    host.shutdown().unwrap();
}

/// Who is interrupted tells and keeps what was counted.
#[test]
fn an_interrupted_look_keeps_what_it_has() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    // A shell's background processes ignore SIGINT.
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let script = format!(
            "$VMM 1 100000 --id busy-one 20000 >/dev/null & L=$!; \
             env --default-signal=INT $P exits --for 10m --format json --save /tmp/kept.json \
             >/tmp/seen & I=$!; sleep 4; kill -{signal} $I; wait $I; C=$?; kill $L; \
             cat /tmp/seen; echo =; cat /tmp/kept.json; exit $C"
        );
        let result = run(&host, &script);
        assert_eq!(result.code, code, "{}", text(&result.stderr));
        let said = text(&result.stdout);
        let both = said.split("=\n").map(|one| serde_json::from_str::<Observed>(one).unwrap());
        for seen in both {
            assert!(seen.vms.len() == 1 && seen.vms[0].all().count > 100, "{seen:?}");
        }
        assert_eq!(said.matches("busy-one").count(), 2);
    }
    host.shutdown().unwrap();
}

/// Each verb shows its VMs, one of them opened; then the terminal is as it was, whoever ends it.
#[test]
fn top_gives_the_terminal_back() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    const Q: &str = "printf q";
    const CTRL_C: &str = "printf '\\003'";
    const TERM: &str = "pkill -TERM -x paratick >/dev/null; sleep 3";
    // Where `Enter opens` stood before, of `Esc closes`; what stays is not drawn again.
    const OPENED: &str = "sc cl";
    const VM: &str = "busy-one";
    for (verb, seen, end, code) in [
        ("exits --save /tmp/top.json", [VM, OPENED], Q, 0),
        ("exits", [VM, OPENED], CTRL_C, 130),
        ("exits", [VM, OPENED], TERM, 143),
        ("noise", [VM, OPENED], TERM, 143),
        ("idle", [VM, OPENED], Q, 0),
        // Its HLT is the VMM's.
        ("halts", ["0 VMs", "Polled%"], CTRL_C, 130),
    ] {
        let script = format!(
            "$VMM 1 100000 --id busy-one 20000 >/dev/null & L=$!; \
             {{ sleep 12; printf '\\r'; sleep 12; printf '\\r'; sleep 8; {end}; sleep 1; }} | \
             script -qec \"stty rows 24 cols 80; $P {verb} --top\" /tmp/typed \
             >/dev/null; echo code $?; kill $L; cat /tmp/typed"
        );
        let said = text(&run(&host, &script).stdout);
        let (taken, rest) = said.split_once("\x1b[?1049h").expect(&said);
        assert!(taken.contains(&format!("code {code}\n")), "{verb}: {taken}");
        let (shown, after) = rest.split_once("\x1b[?1049l").expect(rest);
        assert!(seen.iter().all(|word| shown.contains(word)), "{verb}: {shown}");
        assert!(after.contains("\x1b[?25h") && !after.contains("last "), "{verb}: {after}");
    }
    host.shutdown().unwrap();
}

/// An older file has more in it than a look at nothing, and a full disk takes no count away.
#[test]
fn what_was_kept_and_what_was_counted_stay() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 1, &[]), &tools(), &mut |_| {}).unwrap();
    let nothing = run(&host, "echo older >/tmp/kept; $P exits --for 200ms --save /tmp/kept");
    assert_eq!(nothing.code, 69, "{}", text(&nothing.stderr));
    assert_eq!(text(&run(&host, "cat /tmp/kept").stdout), "older\n");
    let none = "no vCPU made an exit";
    assert!(text(&nothing.stderr).contains(none), "{}", text(&nothing.stderr));
    // As where a KVM tells of no exit.
    let silent = run(
        &host,
        "$VMM 1 1000000 --id silent 5000000 & sleep 1; kill -STOP $!; $P exits --for 200ms
         code=$?; kill -KILL $!; exit $code",
    );
    let error = text(&silent.stderr);
    assert!(silent.code == 69 && error.contains("though VMs run here"), "{error}");
    assert!(!error.contains(none), "{error}");
    // Whoever is interrupted has not looked for long enough to say that.
    let early = "$VMM 1 1000000 --id silent 5000000 & V=$!; sleep 1; kill -STOP $V; set -m
                 $P exits --for 60s --save /tmp/kept & sleep 3; kill -INT $!; wait $!; C=$?
                 kill -KILL $V; exit $C";
    let early = run(&host, early);
    assert_eq!((early.code, text(&early.stdout)), (130, String::new()), "{}", text(&early.stderr));
    assert_eq!(text(&run(&host, "cat /tmp/kept").stdout), "older\n");
    let full = run(
        &host,
        "mkdir /tmp/full && mount -t tmpfs -o size=4k none /tmp/full && echo older >/tmp/full/kept
         $VMM 1 3000 --id one 2000 & sleep 0.2; $P exits --for 500ms --save /tmp/full/kept",
    );
    let (out, error) = (text(&full.stdout), text(&full.stderr));
    assert!(full.code == 69 && error.contains("hint: make room there"), "{} {error}", full.code);
    assert!(out.contains("one (process"), "{out}");
    assert_eq!(text(&run(&host, "cat /tmp/full/kept").stdout), "older\n");
    host.shutdown().unwrap();
}
