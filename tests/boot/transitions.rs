// SPDX-License-Identifier: GPL-2.0-only
//! Virtual ticks that come and go: at boot, by the administrator's switch, with CPUs, over
//! suspend, and when the host stops to deliver them.

use crate::{
    series::{active, has_only_its_own_ticks, said, PROMISED, STATE},
    support::{busy_ticks, host_spec, kernel, pair, sh, text, tools, PATIENCE},
};
use paratick_machine::{exec::Exec, guest::Guest};

/// Shell functions for the guest.
pub fn functions() -> String {
    let agent = tools().agent.display().to_string();
    format!(
        r#"
    set -e
    cd /sys/devices/system/cpu
    # Keeps CPU $1 busy for a second, and says how many virtual ticks it got.
    busy() {{
        taskset -c $1 {agent} workload ticks --work 1000 |
            sed 's/.*"virtual_ticks":\[//; s/\].*//' | cut -d, -f$(($1 + 1))
    }}
    expect() {{ test "$2" = "$(cat $1)" || {{ echo "$1 is $(cat $1), not $2"; exit 1; }}; }}
    quiet() {{ ! dmesg | grep 'virtual ticks have stopped'; }}
"#
    )
}

fn script(guest: &Guest, line: &str) -> String {
    let result = guest.exec(sh(&format!("{}{line}", functions()))).unwrap();
    let (out, error) = (text(&result.stdout), text(&result.stderr));
    assert_eq!(result.code, 0, "{line}: {out}{error}");
    println!("{out}");
    out.trim_end().to_string()
}

fn is_promised(ticks: &str) -> bool {
    ticks.parse().is_ok_and(|ticks: u64| PROMISED.contains(&ticks))
}

#[test]
fn cpus_keep_their_own_tick_where_they_have_to_and_say_so() {
    let spec = host_spec(kernel(), 2, &[]);
    for (append, expected) in [("no-paratick", "none"), ("nohz=off", ""), ("highres=off", "")] {
        let (host, guest) = pair(spec.clone(), kernel(), 1, "paratick", &[append]);
        let state = said(&guest, &format!("cat {STATE}/active || echo none"));
        assert_eq!(state, expected, "{append}");
        has_only_its_own_ticks(&host, &guest);
        guest.shutdown().unwrap();
    }
}

/// For kernels with `NO_HZ_FULL`; without it the parameter means nothing.
#[test]
fn a_nohz_full_cpu_keeps_its_own_tick() {
    let (_host, guest) =
        pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &["nohz_full=1"]);
    assert_eq!(active(&guest), "0");
    let ticks = script(&guest, "busy 0; busy 1");
    let (first, second) = ticks.split_once('\n').unwrap();
    assert!(is_promised(first), "{ticks}");
    assert_eq!(second, "0");
    guest.shutdown().unwrap();
}

/// Switches virtual ticks, and takes a CPU away, while both CPUs are busy.  In one process: with
/// all CPUs busy, what has to come over 9p takes the emulated host seconds.
const UNDER_LOAD: &str = r#"
use strict; use warnings;
chdir "/sys/devices/system/cpu" or die;
sub get {
    open my $f, "<", $_[0] or die "$_[0]: $!";
    local $/; my $text = <$f> // ""; $text =~ s{\s+$}{}r
}
sub put { open my $f, ">", $_[0] or die "$_[0]: $!"; syswrite $f, $_[1] or die "$_[0]: $!" }
sub ticks { my ($line) = get("/proc/interrupts") =~ /VTK:([ \d]+)/; split " ", $line }
sub active {
    my $is = get("virtual_tick/active");
    $is eq $_[0] or die "$is, not $_[0], has virtual ticks: $_[1]"
}
sub pause { select undef, undef, undef, $_[0] }
my @load;
for my $cpu (0, 1) {
    my $pid = fork // die;
    if (!$pid) {
        syscall 203, 0, 8, pack "Q", 1 << $cpu;
        exec "AGENT", "workload", "cpu", "--work", "1000000" or die
    }
    push @load, $pid;
}
for my $n (1 .. 10) {
    put "virtual_tick/control", "off"; active "", "off";
    my @before = ticks; pause 0.05; my @after = ticks;
    "@before" eq "@after" or die "off, but @before, @after";
    put "virtual_tick/control", "on"; active "0-1", "on";
    pause 0.1; @after = ticks;
    $after[$_] > $before[$_] or die "on, but @before, @after" for 0, 1;
}
for my $n (1 .. 10) {
    my $off = $n >= 4 && $n < 8;
    put "virtual_tick/control", "off" if $n == 4;
    put "cpu1/online", 0; active $off ? "" : "0", "offline $n"; pause 0.02;
    put "virtual_tick/control", "on" if $n == 7;
    $off &&= $n < 7;
    put "cpu1/online", 1; active $off ? "" : "0-1", "online $n"; pause 0.02;
}
kill KILL => @load;
"#;

#[test]
fn the_switch_and_hotplug_work_under_load() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &[]);
    let program = UNDER_LOAD.replace("AGENT", tools().agent.to_str().unwrap());
    let perl = Exec::new(["perl", "-e", &program]).timeout(PATIENCE);
    let result = guest.exec(perl).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    // Longer than a CPU takes to notice that its ticks do not come.
    let ticks = script(&guest, "sleep 9; quiet; busy 0; busy 1");
    assert!(ticks.lines().all(is_promised), "{ticks}");

    said(&guest, &format!("echo off > {STATE}/control"));
    let off = has_only_its_own_ticks(&host, &guest);
    assert!(PROMISED.contains(&off.report("jiffies")), "{off:?}");
    said(&guest, &format!("echo on > {STATE}/control"));
    let on = busy_ticks(&host, &guest);
    assert!(PROMISED.contains(&on.report("virtual_ticks")), "{on:?}");
    assert!(PROMISED.contains(&on.report("jiffies")), "{on:?}");

    a_suspend_as_far_as_the_lab_can_is_survived(&guest);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Stops CPU 1's fair server when nothing runs there, and takes the CPU away with a server whose
/// period is so short that it has stopped by then.
const STOP_TWICE: &str = r#"
    server=/sys/kernel/debug/sched/fair_server/cpu1
    echo 1000000 >$server/runtime
    echo 4000000 >$server/period
    for n in $(seq 20); do
        taskset -c 1 true
        taskset -c 0 sh -c "echo $((1000000 + n)) >$server/runtime"
        echo 0 >cpu1/online
        echo 1 >cpu1/online
    done"#;

#[test]
fn a_fair_server_that_has_stopped_is_not_stopped_again() {
    let (host, guest) = pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &[]);
    // A warning on the guest's console, as without the lab's patch, is an error.
    script(&guest, STOP_TWICE);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Tasks are frozen and thawed.  Beyond that virtio-9p, the root file system, cannot suspend.
fn a_suspend_as_far_as_the_lab_can_is_survived(guest: &Guest) {
    let ticks = script(
        guest,
        r"
        echo 1 >/sys/module/suspend/parameters/pm_test_delay
        echo freezer >/sys/power/pm_test
        echo freeze >/sys/power/state
        expect virtual_tick/active 0-1
        quiet
        busy 0; busy 1",
    );
    assert!(ticks.lines().all(is_promised), "{ticks}");
}

/// On CPU 0, writes 0 to the MSR behind the kernel's back: the host delivers no more.  Says how
/// many seconds a busy CPU then is without ticks.
const STOP_DELIVERY: &str = r#"
    perl -e '
        sub now { open F, "/proc/uptime"; (split " ", <F>)[0] }
        sub ticks { open F, "/proc/interrupts"; (map { (split)[1] } grep /VTK:/, <F>)[0] }
        $cpus = pack "Q", 1; syscall 203, 0, 8, $cpus;
        $warm = now() + 0.1; 1 while now() < $warm;
        open M, "+<", "/dev/cpu/0/msr" or die; sysseek M, 0x4b564d10, 0;
        syswrite M, "\0" x 8 or die;
        $begin = now(); $before = ticks();
        1 while ticks() < $before + 2 && now() < $begin + 20;
        print now() - $begin, "\n"'"#;

/// The same from CPU 1, a thousand times a second: asking again does not help.  Where a write
/// comes late a tick slips through, and the guest takes two more looks of 4 s before it gives up.
pub const KEEP_DELIVERY_STOPPED: &str = r#"
    taskset -c 1 perl -e 'open M, "+<", "/dev/cpu/0/msr" or die;
        while (1) {
            sysseek M, 0x4b564d10, 0; syswrite M, "\0" x 8; select undef, undef, undef, 0.001
        }' &
    for n in $(seq 40); do
        test "$(cat virtual_tick/active)" = 1 && break
        busy 0 >/dev/null
    done
    kill $!
    expect virtual_tick/active 1
    dmesg | grep 'CPU0: virtual ticks have stopped'"#;

#[test]
fn a_guest_notices_when_the_host_stops_to_deliver() {
    let (host, guest) =
        pair(host_spec(kernel(), 2, &[]), kernel(), 2, "paratick", &["msr.allow_writes=on"]);
    // It looks every 4 s.  The first look may find ticks that came before they stopped.
    let without: f64 = script(&guest, STOP_DELIVERY).parse().unwrap();
    assert!((0.02..8.2).contains(&without), "{without} s");
    let ticks = script(&guest, "quiet; expect virtual_tick/active 0-1; busy 0");
    assert!(is_promised(&ticks), "{ticks}");
    script(&guest, KEEP_DELIVERY_STOPPED);
    // CPU 1 still has virtual ticks, and now and then one finds it awake.
    script(&guest, "echo 0 >cpu1/online; expect virtual_tick/active ''");
    let own = has_only_its_own_ticks(&host, &guest);
    assert!(PROMISED.contains(&own.report("jiffies")), "{own:?}");
    script(&guest, "echo 1 >cpu1/online; expect virtual_tick/active 1");
    // The administrator may try again.
    let ticks =
        script(&guest, "echo on >virtual_tick/control; expect virtual_tick/active 0-1; busy 0");
    assert!(is_promised(&ticks), "{ticks}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
