// SPDX-License-Identifier: GPL-2.0-only
//! Is each exit of an idle guest charged to what caused it?

use crate::support::{base_kernel, compile, guest_on, host_for, kernel, PATIENCE};
use paratick_bench::{
    noise::Sides,
    wakeups::{record, Recorded},
};
use paratick_core::{
    cause::Cause,
    wakeups::{offenders, rounds, summary, Class, Offender, Source, Summary},
};
use paratick_machine::{guest::Guest, host::Host};
use std::time::Duration;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/idle/ticker.c");
const TICKER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/ticker");
const TIME: Duration = Duration::from_secs(5);

fn recorded(host: &Host, guest: &Guest, command: &[&str]) -> (Recorded, Summary, Vec<Offender>) {
    let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
    let both = Sides { host: true, guest: true };
    let recorded = record(host, guest, both, TIME, &command, PATIENCE).unwrap();
    let (Some(seen), Some(woken)) = (&recorded.host, &recorded.guest) else {
        panic!("both sides were asked");
    };
    let rounds = rounds(woken, Some((seen, guest.pid())));
    let (sums, offenders) = (summary(woken, &rounds), offenders(&rounds));
    println!("{sums:?}");
    for one in &offenders {
        println!("{} {:?}", one.source, one);
    }
    // Nothing is lost, nothing counts twice, and each exit has a reason.
    assert_eq!(sums.unexplained, 0);
    assert_eq!(offenders.iter().map(Offender::all_exits).sum::<u64>(), sums.all_exits());
    assert!(sums.all_exits() > 0);
    assert_eq!(sums.idle_entries, sums.exits[&Cause::Halt], "each idle period is one halt");
    (recorded, sums, offenders)
}

fn of_program<'a>(offenders: &'a [Offender], name: &str) -> &'a Offender {
    let its = |one: &&Offender| one.source.process().is_some_and(|process| process.name == name);
    offenders.iter().find(its).expect("it wakes the guest")
}

/// On stock kernels and on ours: a program that wakes up 20 times a second is found, with its rate,
/// its class, and what it costs: an arm, an expiry or the halt, each time.
#[test]
fn who_wakes_a_guest_is_named_with_its_exits() {
    compile(PROGRAM, TICKER);
    for (image, mode) in [(base_kernel(), "tickless"), (kernel(), "paratick")] {
        let host = host_for(image.clone(), 2, &[]);
        let guest = guest_on(&host, image, 2, mode, &[]);
        let (_, _, offenders) = recorded(&host, &guest, &[TICKER, "50000000", "1"]);
        let ticker = of_program(&offenders, "ticker");
        let Source::Timer { timer } = &ticker.source else { panic!("{ticker:?}") };
        assert_eq!((timer.function.as_str(), timer.class), ("hrtimer_wakeup", Class::Slack));
        assert!((98..=101).contains(&ticker.expiries), "{mode}: {}", ticker.expiries);
        assert!(ticker.wakeups * 100 >= ticker.expiries * 95, "{mode}: {ticker:?}");
        let each = ticker.all_exits() as f64 / ticker.wakeups as f64;
        println!("{mode}: {each:.2} exits for each wake-up");
        match mode {
            "tickless" => assert!((2.5..5.0).contains(&each), "{each}"),
            _ => assert!((1.0..1.5).contains(&each), "{each}"),
        }
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
}

/// It wakes a program on the other CPU: that one's exits are for the same timer.
#[test]
fn a_wake_up_that_is_passed_on_is_charged_to_who_began_it() {
    compile(PROGRAM, TICKER);
    let host = host_for(kernel(), 2, &[]);
    let guest = guest_on(&host, kernel(), 2, "paratick", &[]);
    let (_, _, offenders) = recorded(&host, &guest, &[TICKER, "50000000", "1", "pass"]);
    let ticker = of_program(&offenders, "ticker");
    assert!((98..=101).contains(&ticker.expiries), "{}", ticker.expiries);
    let both = 2 * ticker.expiries;
    assert!((both * 95 / 100..=both + 2).contains(&ticker.wakeups), "{ticker:?}");
    assert!(ticker.exits[&Cause::Ipi] * 100 >= ticker.expiries * 95, "{ticker:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
