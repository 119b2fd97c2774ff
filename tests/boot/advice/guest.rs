// SPDX-License-Identifier: GPL-2.0-only
//! What a guest does to itself, by its osnoise: the advice is followed by its kernel parameters.

use crate::support::{guest_on, host_for, kernel, PATIENCE};
use paratick_bench::noise::{record_beside, sample_on, Beside, Sides};
use paratick_core::noise::{by_source, guest_parameters, ledger, Kind, Knob, Rank, Source};
use std::time::Duration;

/// On which osnoise samples, and which is to be kept free.
const CPU: &str = "1";

/// What takes that CPU from osnoise for a second, in a guest as it is and in one with the knob
/// turned, while both run this.  With `both`, its host looks, too.
fn before_and_after(knob: Knob, beside: &[&str], both: bool) -> [Vec<Rank>; 2] {
    let sides = Sides { host: both, ..Sides::GUEST };
    let host = host_for(kernel(), 2, &[]);
    let parameters = guest_parameters(&[knob], CPU);
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let ranks = [&[][..], &parameters].map(|append| {
        let guest = guest_on(&host, kernel(), 2, "tickless", append);
        sample_on(&guest, CPU).unwrap();
        let beside = Beside {
            // Both get more arguments, which a shell takes for its own: the third is ms.
            on_host: ["sh", "-c", "exit 0"].map(String::from).into(),
            in_guest: beside.iter().map(|word| word.to_string()).collect(),
        };
        let time = Duration::from_secs(1);
        let seen = record_beside(&host, &guest, sides, time, PATIENCE, Some(&beside)).unwrap();
        guest.shutdown().unwrap();
        let book = ledger(seen.guest.as_ref().unwrap(), seen.joined());
        let events = book.entries.iter().flat_map(|entry| &entry.events);
        let ranks = by_source(events.map(|event| (event.source.clone(), event.ns)));
        println!("{append:?}");
        ranks.iter().for_each(|rank| println!("  {} {:?}", rank.count, rank.source));
        ranks
    });
    host.shutdown().unwrap();
    ranks
}

/// How often there was what this knob is advised against.
fn against(knob: Knob, ranks: &[Rank]) -> u64 {
    ranks.iter().filter(|rank| rank.source.knob() == Some(knob)).map(|rank| rank.count).sum()
}

fn of(ranks: &[Rank], is: impl Fn(Kind, &str) -> bool) -> u64 {
    let is = |rank: &&Rank| match &rank.source {
        Source::Guest { kind, name } => is(*kind, name),
        _ => false,
    };
    ranks.iter().filter(is).map(|rank| rank.count).sum()
}

#[test]
fn threads_of_a_guest_keep_away_from_an_isolated_cpu() {
    let chores = ["paratick-agent", "workload", "chores", "--threads", "4"];
    let [before, after] = before_and_after(Knob::GuestThreads, &chores, false);
    let its = |ranks: &[Rank]| of(ranks, |kind, name| kind == Kind::Thread && name == "exe");
    // How many of them that CPU gets is chance: 10, 31 and 42 were seen.
    assert!(its(&before) >= 5, "{}", its(&before));
    assert_eq!(its(&after), 0);
    let (all, left) = (against(Knob::GuestThreads, &before), against(Knob::GuestThreads, &after));
    assert!(left * 20 <= all, "{left} of {all}");
}

/// Each name that is not known yet is asked of the host, by virtio.
#[test]
fn interrupts_of_devices_go_where_they_are_sent() {
    let asks = "taskset -c 0 timeout $(($3 / 1000 + 1)) \
                sh -c 'i=0; while :; do i=$((i+1)); [ -e /no$i ]; done'; exit 0";
    let [before, after] = before_and_after(Knob::GuestInterrupts, &["sh", "-c", asks], false);
    let knob = Knob::GuestInterrupts;
    let (all, left) = (against(knob, &before), against(knob, &after));
    assert!(all >= 20, "{all}");
    assert!(left * 20 <= all, "{left} of {all}");
}

#[test]
fn an_isolated_cpu_sends_no_more_ipis() {
    let chores = ["paratick-agent", "workload", "chores", "--threads", "4"];
    let knob = Knob::GuestIpis;
    let [before, after] = before_and_after(knob, &chores, true);
    let (all, left) = (against(knob, &before), against(knob, &after));
    assert!(all >= 5, "{all}");
    assert!(left * 5 <= all, "{left} of {all}");
}
