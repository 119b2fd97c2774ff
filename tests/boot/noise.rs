// SPDX-License-Identifier: GPL-2.0-only
//! Does every moment that a guest loses have a name, and is it the right one?

use crate::support::{
    base_kernel, compile, endless, host_spec, kernel, mode, pair, resumed, row_of, sh, text, tools,
    PATIENCE,
};
use paratick_bench::noise::{
    quiet, quiet_host, record_beside, sample_on, Beside, Interrupted, NoiseRecorder, Recorded,
    Sides,
};
use paratick_core::{
    cause::Cause,
    isolation::Isolation,
    noise::{
        ledger, Absence, Class, Entry, Event, Exits, Kind, Ledger, Source, Stalls,
        TICK_DEFER_IRQ_EXIT,
    },
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::{backend::EMULATED, exec::Exec, guest::Guest, host::Host, spec::HostSpec};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/noise/exits.c");
const EXITS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/exits");

const BOTH: Sides = Sides::BOTH;

pub fn sampled(host: &Host, guest: &Guest, seconds: u64) -> (Recorded, Ledger) {
    sampled_beside(host, guest, seconds, None)
}

pub fn sampled_beside(
    host: &Host,
    guest: &Guest,
    seconds: u64,
    beside: Option<&Beside>,
) -> (Recorded, Ledger) {
    let time = Duration::from_secs(seconds);
    let recorded = record_beside(host, guest, BOTH, time, PATIENCE, beside).unwrap();
    let (Some(seen), Some(noise)) = (&recorded.host, &recorded.guest) else {
        panic!("both sides were asked");
    };
    let book = ledger(noise, Some((seen, guest.pid())));
    let parts = book.parts();
    println!(
        "{} gaps, {} unexplained, {:?}: {parts:?}",
        book.entries.len(),
        book.unexplained(),
        book.edges
    );
    // To the nanosecond, each and all.
    for entry in &book.entries {
        assert_eq!(entry.parts.sum(), entry.ns, "{entry:?}");
        assert_eq!(entry.events.iter().map(|event| event.ns).sum::<u64>(), entry.ns, "{entry:?}");
    }
    // The emulator, which knows nothing of KVM, saw as many.
    let audit = seen.audit.as_ref().unwrap();
    let ended = [Class::Light, Class::Heavy, Class::Halt].map(|class| seen.audited(class));
    println!("{ended:?} of {audit:?}: {:?}", seen.in_guests());
    assert_eq!(audit.world_switches, host.world_switches().map(|_| audit.exits));
    let going_on = audit.exits - ended.iter().sum::<u64>();
    assert!(audit.exits > 200 * seconds, "{audit:?}");
    assert!(going_on <= seen.tsc_offsets.len() as u64, "{going_on}");
    // No exit is missing but those that had not ended yet, and each is all accounted for.
    let vcpus = seen.tsc_offsets.len() as u64;
    let ended = seen.absences.len() as u64;
    assert!(seen.exits <= ended + vcpus, "{ended} of {}", seen.exits);
    assert!(ended <= seen.exits + 50, "{ended} of {}", seen.exits);
    for one in &seen.absences {
        let parts = [one.kvm_ns, one.vmm_ns, one.blocked_ns, one.waited_ns, one.interrupted_ns];
        assert_eq!(parts.iter().sum::<u64>(), one.ns, "{one:?}");
    }
    (recorded, book)
}

/// A host whose CPUs make no noise of their own but the stalls they are told to, and its guest.
pub fn quiet_pair(
    image: PathBuf,
    vcpus: u32,
    mode_name: &str,
    stalls: Option<Stalls>,
) -> (Host, Guest) {
    quiet_pair_of([image.clone(), image], vcpus, mode_name, stalls)
}

/// With different kernels: the host's and the guest's.
pub fn quiet_pair_of(
    [of_host, of_guest]: [PathBuf; 2],
    vcpus: u32,
    mode_name: &str,
    stalls: Option<Stalls>,
) -> (Host, Guest) {
    let mut spec = HostSpec::for_guests(EMULATED, of_host, vcpus, Size::mib(1024));
    let mut config = GuestConfig::new(of_guest, vcpus, Size::mib(512), mode(mode_name));
    quiet(&mut spec, &mut config, stalls);
    resumed(spec, config)
}

fn gaps_with(book: &Ledger, is: impl Fn(&Source) -> bool) -> usize {
    book.entries.iter().filter(|entry| entry.events.iter().any(|event| is(&event.source))).count()
}

/// On stock kernels and on ours.
#[test]
fn every_gap_has_a_cause() {
    for (image, mode, counts_looks) in
        [(base_kernel(), "tickless", false), (kernel(), "paratick", true)]
    {
        let (host, guest) = quiet_pair(image, 1, mode, None);
        let (recorded, book) = sampled(&host, &guest, 2);
        let audit = recorded.host.as_ref().unwrap().audit.as_ref().unwrap();
        assert!(audit.world_switches.is_some());
        // Between exits the emulator counted as much time: the rest is code beside world switches.
        let seen = recorded.host.as_ref().unwrap().in_guests().unwrap();
        let apart = seen.apart_ns();
        let more = 100.0 * (seen.ns as f64 / seen.instructions as f64 - 1.0);
        row_of(
            "in-guest",
            &[
                ("", json!(mode)),
                ("exits", json!(seen.exits)),
                ("between them, ns", json!(seen.ns)),
                ("instructions", json!(seen.instructions)),
                ("more, %", json!(more)),
                ("ns, each exit", json!(apart)),
            ],
        );
        assert!((500.0..2_500.0).contains(&apart) && more < 0.25, "{mode}: {seen:?}");
        let gaps = book.entries.len();
        assert!(gaps > 500, "{mode}: {gaps}");
        assert_eq!(book.unexplained(), 0, "{mode}");
        // What its osnoise takes for hardware are the exits with which nothing came that it knows,
        // and without the series a look of the scheduler's that is as long.
        let is_known = |event: &Event| {
            matches!(event.source, Source::Guest { kind, .. }
                if counts_looks || kind != Kind::Scheduler)
        };
        let is_exit = |event: &&Event| matches!(event.source, Source::Exit { .. });
        let hardware = book.entries.iter().filter(|entry| entry.unknown_to_guest).count();
        let (mut exits, mut looks) = (0, 0);
        for entry in book.entries.iter().filter(|entry| !entry.events.iter().any(is_known)) {
            match entry.events.iter().filter(is_exit).count() {
                0 => looks += 1,
                its => exits += its,
            }
        }
        println!(
            "{mode}: osnoise calls {hardware} of {gaps} gaps hardware: {exits} exits, {looks} looks"
        );
        assert_eq!(hardware, exits + looks, "{mode}");
        assert!(looks <= 3, "{mode}: {looks}");
        let arms = gaps_with(&book, |source| {
            matches!(source, Source::Exit { cause: Cause::Arm | Cause::Expiry, .. })
        });
        println!("{mode}: {arms} of {gaps} gaps with a timer's exit");
        match mode {
            // One of its 500 ticks may be due at the edge.
            "tickless" => assert!(arms >= 499, "{arms}"),
            _ => assert!(arms < 100, "{arms}"),
        }
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// Of the exits in a gap, those for each timer and all others, as [`Exits::by_cause`] has them.
fn exits_in(entry: &Entry) -> [u64; 5] {
    let causes = Exits::default().by_cause().map(|(cause, _)| cause);
    let mut counts = [0; 5];
    for event in &entry.events {
        if let Source::Exit { cause, .. } = &event.source {
            counts[causes.iter().position(|one| one == cause).unwrap_or(4)] += 1;
        }
    }
    counts
}

/// A tenant's kernel is told of each exit that the host sees, in the same gap.
#[test]
fn a_guest_alone_has_the_exits_that_its_host_sees() {
    for mode in ["tickless", "paratick"] {
        let (host, guest) = quiet_pair(kernel(), 1, mode, None);
        let (recorded, seen) = sampled(&host, &guest, 1);
        let told = ledger(recorded.guest.as_ref().unwrap(), None);
        println!("{mode}: {:?}, {:?}", told.exits(), told.parts());
        for entry in &told.entries {
            assert_eq!(entry.parts.sum(), entry.ns, "{entry:?}");
            assert_eq!(entry.events.iter().map(|event| event.ns).sum::<u64>(), entry.ns);
        }
        assert_eq!(told.unexplained(), 0, "{mode}");
        let pairs = || told.entries.iter().zip(&seen.entries);
        let differ = pairs().filter(|(told, seen)| {
            told.exits.map(|exits| exits.by_cause().map(|(_, count)| count)) != Some(exits_in(seen))
        });
        let differ: Vec<_> = differ.collect();
        // The clocks are joined to some hundred ns: an exit may be in the next gap.
        assert!(differ.len() <= 2 && told.entries.len() > 200, "{mode}: {differ:?}");
        // The host's at 250 Hz.
        let ticks: u64 = pairs().map(|(_, seen)| exits_in(seen)[3]).sum();
        assert!((240..=260).contains(&ticks), "{mode}: {ticks}");
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// Two vCPUs that wander over three CPUs, with other things to do on both sides: most gaps are
/// several things at once.
#[test]
#[ignore = "3 minutes"]
fn of_busy_guests_on_busy_hosts_every_gap_has_a_cause() {
    // On stock kernels osnoise's own writing of an event is a part of the next gap.
    let with_series = &["tickless", "paratick"][..];
    for (image, modes, most) in [(base_kernel(), &["tickless"][..], 3), (kernel(), with_series, 0)]
    {
        let mut spec = HostSpec::for_guests(EMULATED, image.clone(), 2, Size::mib(1024));
        quiet_host(&mut spec);
        for name in modes {
            let mut config = GuestConfig::new(image.clone(), 2, Size::mib(512), mode(name));
            config.unpinned = true;
            let (host, guest) = resumed(spec.clone(), config);
            let agent = tools().agent.display().to_string();
            let chores: Vec<String> =
                [&agent, "workload", "chores", "--threads", "4"].map(String::from).into();
            let beside = Beside { on_host: chores.clone(), in_guest: chores };
            let (_, book) = sampled_beside(&host, &guest, 1, Some(&beside));
            let gaps = book.entries.len();
            assert!(gaps > 500, "{name}: {gaps}");
            let is_unexplained = |entry: &&Entry| {
                entry.events.iter().any(|event| matches!(event.source, Source::Unexplained))
            };
            let unexplained: Vec<_> = book.entries.iter().filter(is_unexplained).collect();
            assert!(unexplained.len() <= most, "{name}: {unexplained:?}");
            let steal = gaps_with(&book, |source| matches!(source, Source::Preempted { .. }));
            assert!(steal > 0, "{name}: nobody preempted a vCPU");
            let writes = |source: &Source| match source {
                Source::Guest { name, .. } => name == TICK_DEFER_IRQ_EXIT,
                _ => false,
            };
            let writes = gaps_with(&book, writes);
            println!("{name}: {gaps} gaps, {writes} with a deadline that is written");
            assert_eq!(writes > 0, *name == "paratick", "{name}");
            guest.shutdown().unwrap();
        }
    }
}

/// Each side sends NMIs to its CPUs: the guest's are a part of a gap of their own, and the host's
/// are exits.
#[test]
fn nmis_are_the_guest_s_own_or_exits() {
    const EACH: usize = 6;
    let (host, guest) = quiet_pair(kernel(), 2, "tickless", None);
    sample_on(&guest, "1").unwrap();
    // A stack of each CPU that is not idle, from CPU 0; not on the console.
    let script = format!(
        "dmesg -n 1; for nmi in $(seq {EACH}); do sleep 0.4; \
         taskset -c 0 sh -c 'echo l >/proc/sysrq-trigger'; done; sleep 1"
    );
    let script: Vec<String> = ["sh", "-c", &script].map(String::from).into();
    let beside = Beside { on_host: script.clone(), in_guest: script };
    let (recorded, book) = sampled_beside(&host, &guest, 1, Some(&beside));
    assert_eq!(book.unexplained(), 0);
    // The host handles them before its trace has the exit.
    let is_nmi =
        |event: &Event| matches!(&event.source, Source::Exit { reason, .. } if reason == "nmi");
    let lengths = book.entries.iter().flat_map(|gap| &gap.events).filter(|event| is_nmi(event));
    let longest = lengths.map(|event| event.ns).max();
    println!("the longest exit for an NMI: {longest:?} ns");
    assert!(longest > Some(100_000), "{longest:?}");
    let guest_s = book.entries.iter().filter(|gap| gap.parts.nmi > 0).count();
    let absences = recorded.host.unwrap().absences;
    let host_s = absences.iter().filter(|one| one.reason == "nmi" && one.vcpu == 1);
    let classes: Vec<Class> = host_s.map(|one| one.class).collect();
    println!("{guest_s} gaps with NMIs of the guest, {} exits for the host's", classes.len());
    // Those of one second; and of all, but while the vCPU is not in the guest.
    assert!((1..EACH).contains(&guest_s), "{guest_s}");
    assert!((EACH - 2..=EACH).contains(&classes.len()), "{}", classes.len());
    assert!(classes.iter().all(|class| *class == Class::Light), "{classes:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Time that nobody in the machine knows of, as an SMI takes it: each is found, with its length.
#[test]
fn stalls_are_found_one_by_one() {
    for (stalls, mode) in
        [("3us@5007us", "paratick"), ("30us@10007us", "tickless"), ("300us@49130us", "paratick")]
    {
        let stalls: Stalls = stalls.parse().unwrap();
        let (host, guest) = quiet_pair(kernel(), 1, mode, Some(stalls));
        let (recorded, book) = sampled(&host, &guest, 2);
        let (Some(seen), Some(noise)) = (&recorded.host, &recorded.guest) else {
            panic!("both sides were asked");
        };
        let found = stalls.found(&book, noise, seen, guest.pid()).unwrap();
        println!("{stalls}: {found:?}");
        let due = 2_000_000_000 / stalls.every_ns;
        assert!((due - 1..=due + 1).contains(&(found.due as u64)), "{found:?}");
        // Between two of its periods of a second osnoise does not look.
        assert!(found.missed <= 2, "{found:?}");
        // The emulator's machine has its own, now and then.
        assert!(found.others * 100 <= found.due + 100, "{found:?}");
        // Exits and interrupts take 1 % of the time, and make the stall a part of themselves.
        assert!(found.hidden * 20 <= found.due + 20, "{found:?}");
        assert_eq!(found.due, found.hidden + found.missed + found.lengths_ns.len());
        // osnoise's loop, and now and then the edges of an exit or an interrupt.
        let (least, most) = (found.lengths_ns.iter().min(), found.lengths_ns.iter().max());
        assert!(*least.unwrap() >= stalls.ns && *most.unwrap() <= stalls.ns + 5_000, "{found:?}");
        // What comes due in a stall, host's tick or guest's, is handled at its end.
        let ticks = 2.0 * stalls.ns as f64 / 4e6;
        let usual = found.lengths_ns.iter().filter(|ns| **ns <= stalls.ns + 200).count();
        assert!(usual as f64 >= found.lengths_ns.len() as f64 * (0.9 - ticks), "{found:?}");
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// With its host's and its own CPUs isolated, and two things off that isolating leaves on: the
/// watchdog of the clock source, which goes from CPU to CPU, and the scheduler's server for fair
/// tasks.  For a program in user space: osnoise never leaves the kernel, and RCU wants its tick.
#[test]
fn a_program_on_an_isolated_cpu_has_no_exit_for_the_guest_s_timers() {
    const SECONDS: u64 = 3;
    for name in ["tickless", "paratick"] {
        let mut spec = HostSpec::for_guests(EMULATED, kernel(), 2, Size::mib(1024));
        let mut config = GuestConfig::new(kernel(), 2, Size::mib(512), mode(name));
        quiet(&mut spec, &mut config, None);
        spec.boot.append.extend(Isolation::Both.host_parameters(2));
        config.append.extend(Isolation::Both.guest_parameters(2));
        config.append.push("tsc=nowatchdog".into());
        let (host, guest) = resumed(spec, config);
        host.start::<NoiseRecorder>().unwrap();
        // It is given a second to get going, and half a one to end.
        let work = format!(
            "echo 0 >/sys/kernel/debug/sched/fair_server/cpu1/runtime && \
             timeout {} taskset -c 1 {}",
            SECONDS + 2,
            endless("cpu")
        );
        assert_eq!(guest.exec(sh(&work)).unwrap().code, 124);
        let seen = host.read::<NoiseRecorder>().unwrap();
        let end = seen.clock.end.ns - 500_000_000;
        let while_it_runs = end - SECONDS * 1_000_000_000..end;
        let mut causes = BTreeMap::<Cause, usize>::new();
        for one in seen.absences.iter().filter(|one| one.vcpu == 1) {
            if while_it_runs.contains(&one.begin_ns) {
                *causes.entry(one.cause).or_default() += 1;
            }
        }
        println!("{name}: in {SECONDS} s {causes:?}");
        let its = |cause| causes.get(&cause).copied().unwrap_or_default();
        let named = [Cause::Arm, Cause::Stop, Cause::Expiry, Cause::HostTick, Cause::Ipi].map(its);
        let others = causes.values().sum::<usize>() - named.iter().sum::<usize>();
        let names = ["arm", "stop", "expiry", "host-tick", "ipi"];
        let cells = names.into_iter().zip(named.map(|count| json!(count)));
        let cells = [("", json!(name))].into_iter().chain(cells).chain([("others", json!(others))]);
        row_of("isolated-program", &cells.collect::<Vec<_>>());
        // Else this vCPU was not looked at.
        assert!(causes.contains_key(&Cause::HostTick), "{name}: {causes:?}");
        for of_its_timers in [Cause::Arm, Cause::Stop, Cause::Expiry] {
            assert!(!causes.contains_key(&of_its_timers), "{name}: {causes:?}");
        }
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// osnoise knows the vector: it would book each tick as hardware noise otherwise.
#[test]
fn a_virtual_tick_is_no_hardware_noise() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "paratick-ticks", &[]);
    let (recorded, book) = sampled(&host, &guest, 2);
    let gaps = recorded.guest.unwrap().gaps;
    let ticks = |kind: &dyn Fn(&str) -> bool| {
        let all = gaps.iter().flat_map(|gap| &gap.disturbances);
        all.filter(|one| one.kind == Kind::Irq && kind(&one.name)).count()
    };
    let virtual_ticks = ticks(&|name| name.contains("tick"));
    let own = ticks(&|name| name.contains("timer"));
    println!("{virtual_ticks} virtual ticks, {own} interrupts of its own timer");
    let due = book.window_ns * 250 / 1_000_000_000;
    assert!((due * 97 / 100..=due * 103 / 100 + 2).contains(&(virtual_ticks as u64)), "of {due}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// Another task on the vCPU's pCPU is found by its name, and so is each of its turns.
#[test]
fn who_takes_the_pcpu_is_named() {
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);
    let pcpu = guest.pins()[0].to_string();
    let turn = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; sleep 0.05";
    let script = format!(
        "taskset -c {pcpu} sh -c 'while :; do {turn}; done' </dev/null >/dev/null 2>&1 & echo $!"
    );
    let started = host.exec(sh(&script)).unwrap();
    let pid = text(&started.stdout).trim().to_string();
    let (_, book) = sampled(&host, &guest, 2);
    // It starts a `sleep` each time.
    let taken =
        |source: &Source| matches!(source, Source::Preempted { by } if by == "sh" || by == "sleep");
    let turns = gaps_with(&book, taken);
    let steal: u64 = book.entries.iter().map(|entry| entry.parts.waited).sum();
    println!("{turns} turns, {steal} ns of steal");
    assert!(turns >= 30, "{turns}");
    let of = |entry: &Entry| -> u64 {
        entry.events.iter().filter(|event| taken(&event.source)).map(|event| event.ns).sum()
    };
    let its: u64 = book.entries.iter().map(of).sum();
    assert!(its * 10 >= steal * 9, "{its} of {steal}");
    host.exec(Exec::new(["kill", &pid]).timeout(PATIENCE)).unwrap();
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// The thesis's two micro-guests: an instruction that KVM emulates, and a port of the VMM's.
#[test]
fn a_cpuid_is_light_and_a_port_of_the_vmm_is_heavy() {
    const ROUNDS: usize = 1_000;
    compile(PROGRAM, EXITS);
    let (host, guest) = pair(host_spec(kernel(), 1, &[]), kernel(), 1, "tickless", &[]);
    host.start::<NoiseRecorder>().unwrap();
    let argv = [EXITS, &ROUNDS.to_string()];
    let result = guest.exec(Exec::new(argv).timeout(PATIENCE)).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let seen = host.read::<NoiseRecorder>().unwrap();
    let mut reasons = BTreeMap::<_, usize>::new();
    for one in &seen.absences {
        *reasons.entry((&one.reason, one.class.to_string())).or_default() += 1;
    }
    println!("{reasons:?}");
    let those = |reason: &str, class: Class| -> Vec<&Absence> {
        let all = seen.absences.iter();
        all.filter(|one| one.reason == reason && one.class == class).collect()
    };
    let (cpuids, ports) = (those("cpuid", Class::Light), those("io", Class::Heavy));
    let ns = |those: &[&Absence]| those.iter().map(|one| one.ns).sum::<u64>() / those.len() as u64;
    let vmm: u64 = ports.iter().map(|one| one.vmm_ns).sum();
    println!(
        "{} CPUIDs of {} ns, {} port reads of {} ns, {vmm} ns of them in the VMM",
        cpuids.len(),
        ns(&cpuids),
        ports.len(),
        ns(&ports)
    );
    for (exit, class, those) in
        [("CPUID", "light", &cpuids), ("a read of a port of the VMM's", "heavy", &ports)]
    {
        let vmm = those.iter().map(|one| one.vmm_ns).sum::<u64>() / those.len() as u64;
        let (count, ns) = (those.len(), ns(those));
        let (exit, class) = (("exit", json!(exit)), ("class", json!(class)));
        let took =
            [("exits", json!(count)), ("ns", json!(ns)), ("of these in the VMM", json!(vmm))];
        row_of("weights", &[&[exit, class], &took[..]].concat());
    }
    // The C library asks the processor what it is, too.
    assert!((ROUNDS..=ROUNDS + 100).contains(&cpuids.len()), "{}", cpuids.len());
    // An address and its data.
    assert!((2 * ROUNDS..=2 * ROUNDS + 20).contains(&ports.len()), "{}", ports.len());
    assert!(cpuids.iter().all(|one| one.vmm_ns == 0));
    assert!(ns(&ports) > 2 * ns(&cpuids) && vmm > 0);
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}

/// A clock that nobody can tell, and a guest that ends in the middle.
#[test]
fn what_was_recorded_is_kept_and_marked_where_something_is_missing() {
    let (host, guest) = quiet_pair(kernel(), 1, "tickless", None);
    let failed = |beside: Option<&Beside>| {
        let time = Duration::from_secs(2);
        let error = record_beside(&host, &guest, BOTH, time, PATIENCE, beside).unwrap_err();
        println!("{error:#}");
        let Interrupted(kept) = error.downcast::<Interrupted>().unwrap();
        (kept.host.unwrap().absences.len(), kept.guest, kept.process, kept.incomplete.unwrap())
    };
    let on_host = |line: &str| assert_eq!(host.exec(sh(line)).unwrap().code, 0, "{line}");
    on_host("umount /sys/kernel/debug");
    let (exits, noise, process, why) = failed(None);
    assert!(exits > 1_000 && noise.unwrap().gaps.len() > 500, "{exits}");
    assert!(process.is_none() && why.contains("cannot be joined"), "{why}");
    on_host("mount -t debugfs none /sys/kernel/debug");
    // What is run gets more arguments, which a shell takes for its own.
    let shell = |line: String| ["sh", "-c", &line, "sh"].map(String::from).to_vec();
    let beside = Beside {
        on_host: shell(format!("sleep 2; kill -9 {}", guest.pid())),
        in_guest: shell("sleep 5".into()),
    };
    let (exits, noise, process, why) = failed(Some(&beside));
    assert!(exits > 1_000 && noise.is_none(), "{exits}");
    assert!(process.is_some() && !why.is_empty(), "{why}");
    host.shutdown().unwrap();
}
