// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that follows another in the same machine: by kexec, and after a crash.

use crate::support::{host_for, host_spec, kernel, mode, sh, text, tools};
use paratick_core::{size::Size, wire::GuestConfig};
use paratick_machine::{backend::EMULATED, guest::command_line, host::Host};
use std::{fs, os::unix::fs::PermissionsExt};

const POLL: &str = "cpuidle_haltpoll.force=1";

/// The first process of both kernels.  The parameters `then=` say what the first does at its end.
const INIT: &str = r#"#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
then=$(sed -n 's/.*then=\([a-z]*\).*/\1/p' /proc/cmdline)
echo "kernel that will $then: active $(cat /sys/devices/system/cpu/virtual_tick/active)"
echo "kernel that will $then: $(AGENT workload ticks --work 500)"
record() { # where KVM writes about the first CPU's exits
    perl -e 'open M, "<", "/dev/cpu/0/msr"; sysseek M, 0x4b564d11, 0; sysread M, $where, 8;
        printf "%x", unpack "Q", $where'
}
echo "kernel that will $then: record $(record)"
# Whether the host polls for its CPUs (MSR_KVM_POLL_CONTROL)
echo "host polls until $then: $(perl -e 'for (glob "/dev/cpu/*/msr") {
    open M, "<", $_; sysseek M, 0x4b564d05, 0; sysread M, $is, 8; print unpack("Q", $is), " " }')"
if [ $then != end ]; then
    mount -t tracefs tracefs /sys/kernel/tracing
    echo osnoise >/sys/kernel/tracing/current_tracer
    sleep 0.5
    echo "kernel that will $then: record $(record)"
fi
load() { # FLAGS COMMAND-LINE
    perl -e 'open K, "<", $ARGV[0] or die; $line = "$ARGV[2]\0";
        syscall(320, fileno K, -1, length $line, $line, $ARGV[1] + 4)
            and die "kexec_file_load: $!"' \
        KERNEL $1 "$2"
}
next=$(sed 's/crashkernel=[^ ]*//; s/cpuidle[^ ]*//; s/then=[a-z]*/then=end/' /proc/cmdline)
case $then in
kexec) load 0 "$next"; perl -e 'syscall 169, 0xfee1dead, 672274793, 0x45584543, 0' ;;
# The end of the first process is the end of its kernel.
crash) load 2 "$next nr_cpus=1"; exit ;;
end) perl -e 'syscall 169, 0xfee1dead, 672274793, 0x4321fedc, 0' ;;
esac
sleep 1000000
"#;

/// Starts a guest without the lab's agents, and returns its console when it has powered off.
fn console(host: &Host, append: &[&str]) -> String {
    let tools = tools();
    let init = host.run_folder().join("init");
    let script = INIT
        .replace("AGENT", tools.agent.to_str().unwrap())
        .replace("KERNEL", kernel().to_str().unwrap());
    fs::write(&init, script).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = GuestConfig::new(kernel(), 2, Size::mib(512), mode("paratick"));
    spec.append = vec![
        "root=rootfs rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose".into(),
        format!("ro init={}", init.display()),
    ];
    spec.append.extend(append.iter().map(|word| word.to_string()));
    let places = EMULATED.places(host.run_folder());
    let mut line = command_line(spec, &host_spec(kernel(), 2, &[]), &tools, &places).unwrap();
    // Its root is the machine's from the start.
    let initrd = line.iter().position(|word| word == "-initrd").unwrap();
    line.drain(initrd..initrd + 2);
    let machine = format!("path={},", places.machine.display());
    let share = format!("path={},", places.machine.parent().unwrap().display());
    let quoted: Vec<String> =
        line.iter().map(|word| format!("'{}'", word.replace(&share, &machine))).collect();
    let line = format!("mkdir -p /run/paratick/guest1; timeout 1000 {}", quoted.join(" "));
    let result = host.exec(sh(&line)).unwrap();
    let console = text(&result.stdout);
    println!("{console}");
    assert_eq!(result.code, 0, "{console}{}", text(&result.stderr));
    console
}

/// Both CPUs had virtual ticks in this kernel, and the busy one as many as are due in 0.5 s.
fn had_ticks(console: &str, kernel_that_will: &str, active: &str) {
    let lines: Vec<_> = console
        .lines()
        .filter_map(|line| line.split_once(&format!("kernel that will {kernel_that_will}: ")))
        .map(|(_, said)| said.trim())
        .collect();
    assert_eq!(lines[0], format!("active {active}"));
    // Nobody writes into the memory of this kernel for the one before.
    assert_eq!(lines[2], "record 0");
    assert!(kernel_that_will == "end" || lines[3] != "record 0", "{lines:?}");
    let report: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    let ticks = report["virtual_ticks"].as_array().unwrap().iter();
    let busy = ticks.map(|n| n.as_u64().unwrap()).max().unwrap();
    // A tick that is late by more than a period is one with the next.
    assert!((117..=129).contains(&busy), "{report}");
}

/// The first kernel polls instead of the host, and the second one has not asked for that.
fn the_host_polls_again(console: &str, kernel_that_will: &str, cpus: usize) {
    let said = |then: &str| {
        let after = console.split_once(&format!("host polls until {then}: ")).unwrap().1;
        after.lines().next().unwrap().trim().to_string()
    };
    assert_eq!(said(kernel_that_will), "0 0");
    assert_eq!(said("end"), vec!["1"; cpus].join(" "));
}

fn is_clean(console: &str) {
    for bad in ["WARNING", "BUG", "Call Trace", "No irq handler", "virtual ticks have stopped"] {
        assert!(!console.contains(bad), "{bad}: {console}");
    }
}

#[test]
fn a_kernel_after_kexec_has_virtual_ticks_again() {
    let host = host_for(kernel(), 2, &[]);
    let console = console(&host, &["then=kexec", POLL]);
    is_clean(&console);
    had_ticks(&console, "kexec", "0-1");
    had_ticks(&console, "end", "0-1");
    the_host_polls_again(&console, "kexec", 2);
    host.shutdown().unwrap();
}

#[test]
fn a_kernel_after_a_crash_has_virtual_ticks_again() {
    let host = host_for(kernel(), 2, &[]);
    let console = console(&host, &["then=crash", "crashkernel=192M", POLL]);
    had_ticks(&console, "crash", "0-1");
    had_ticks(&console, "end", "0");
    the_host_polls_again(&console, "crash", 1);
    // The panic is meant; what follows its trace is the second kernel's.
    let (_, second) = console.split_once("</TASK>").unwrap();
    is_clean(second);
    host.shutdown().unwrap();
}
