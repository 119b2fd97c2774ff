// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use paratick_core::{
    cause::Cause,
    noise::{
        budget as plan, by_source, host_sources, ledger, Clock, Disturbance, Exits, Gap,
        GuestNoise, HostNoise, Instant, Kind, Knob, SamplingProgram, Told, TscOffset,
    },
};

pub(crate) fn recorded() -> (GuestNoise, HostNoise) {
    let at = |ns| Instant { tsc: ns, ns };
    let clock = Clock { begin: at(0), end: at(10_000_000) };
    let tick = Disturbance {
        kind: Kind::Irq,
        name: "virtual_tick".into(),
        begin_ns: 101_000,
        end_ns: 106_000,
    };
    let gap = |cpu, begin_ns, ns, disturbances: Vec<Disturbance>| Gap {
        cpu,
        begin_ns,
        ns,
        written_ns: 0,
        interference: disturbances.len() as u32,
        disturbances,
        told: None,
        stolen_ns: None,
    };
    let gaps = vec![
        gap(0, 100_000, 7_000, vec![tick]),
        gap(0, 200_000, 41_000, vec![]),
        gap(1, 300_000, 9_000, vec![]),
    ];
    let absence =
        |vcpu, begin_ns, [kvm_ns, vmm_ns, waited_ns]: [u64; 3], cause, reason: &str| Absence {
            process: 5,
            vcpu,
            begin_ns,
            ns: kvm_ns + vmm_ns + waited_ns,
            kvm_ns,
            vmm_ns,
            blocked_ns: 0,
            waited_ns,
            interrupted_ns: 0,
            cause,
            reason: reason.into(),
            about: None,
            tick: false,
            class: if vmm_ns > 0 { Class::Heavy } else { Class::Light },
            exit_cpu: 0,
            entry_cpu: 0,
            held: false,
            audited: false,
            taker: (waited_ns > 0).then(|| "kworker/u:1".into()),
        };
    let absences = vec![
        absence(0, 200_500, [6_000, 0, 33_000], Cause::HostTick, "intr"),
        absence(1, 300_400, [8_000, 0, 0], Cause::Io, "interrupt"),
    ];
    let offset = |vcpu| TscOffset { process: 5, vcpu, offset: 0 };
    let host = HostNoise::whole(clock, vec![offset(0), offset(1)], absences);
    (GuestNoise { clock, begin_ns: 0, end_ns: 10_000_000, program: None, gaps }, host)
}

#[test]
fn noise_is_shown_from_its_sum_to_its_worst_gap() {
    let (guest, host) = recorded();
    let book = ledger(&guest, Some((&host, 5)));
    let events = book.entries.iter().flat_map(|entry| &entry.events);
    let sources = by_source(events.map(|event| (event.source.clone(), event.ns)));
    let text = [
        cpus(&book).text(),
        parts(&book, true).text(),
        ranks(&sources, "What it came from").text(),
        advice(&sources, true).join("\n") + "\n",
        chain(&book.entries[1]) + "\n",
    ];
    insta::assert_snapshot!(text.join("\n"));
}

/// The guest's kernel was told of one gap, and stock kernels are of none.
#[test]
fn a_guest_alone_shows_what_its_kernel_was_told() {
    let (mut guest, _) = recorded();
    let stock = ledger(&guest, None);
    let exits = Exits { light: 1, host_ticks: 1, ..Exits::default() };
    let parts = Parts { kvm: 7_000, waited: 33_000, rest: 1_000, ..Parts::default() };
    guest.gaps[1].told = Some(Told { exits, parts });
    let book = ledger(&guest, None);
    let text = [
        parts_of(&stock).text(),
        parts_of(&book).text(),
        super::exits(&book).unwrap() + "\n",
        chain(&book.entries[1]) + "\n",
    ];
    assert_eq!(super::exits(&stock), None);
    insta::assert_snapshot!(text.join("\n"));
}

/// What it cannot know is said.
#[test]
fn a_program_that_samples_says_what_it_is() {
    let (mut guest, _) = recorded();
    guest.program = Some(SamplingProgram {
        reading_ns: 21,
        telling_ns: 1_900,
        telling_ppm: 1_234,
        page_faults: 1,
    });
    let without = ledger(&guest, None);
    guest.gaps[1].stolen_ns = Some(33_000);
    let book = ledger(&guest, None);
    let said = super::program(&book).unwrap();
    for part in ["every 21 ns", "1 page fault of its own", "takes 1.90 µs or more, 0.12 %"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(cpus(&book).text().starts_with("What a program that samples found"));
    // Steal has a row where the kernel has its clock, and else that is said.
    let has_row = |ledger| parts_of(ledger).text().contains("\nsteal ");
    assert!(has_row(&book) && !said.contains("not told apart"), "{said}");
    let said = super::program(&without).unwrap();
    assert!(!has_row(&without) && said.contains("Steal is not told apart"), "{said}");
    assert!(chain(&book.entries[1]).contains("steal 33.0 µs"), "{}", chain(&book.entries[1]));
}

fn parts_of(ledger: &Ledger) -> Table {
    super::parts(ledger, false)
}

#[test]
fn a_host_alone_shows_its_exits() {
    let (_, host) = recorded();
    let text = classes(&host.absences, 10_000_000).text()
        + "\n"
        + &ranks(&host_sources(&host.absences), "What their time came from").text();
    insta::assert_snapshot!(text);
}

#[test]
fn a_budget_names_the_knobs_that_meet_it() {
    let (guest, host) = recorded();
    let book = ledger(&guest, Some((&host, 5)));
    let texts = [100_000, 20_000, 1_000].map(|most| super::budget(&plan(&book, most)));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn what_knobs_did_stands_below_what_they_were_to_do() {
    let level = |longest_ns, over, noise_ns| Level { longest_ns, over, noise_ns };
    let trial = Trial {
        budget_ns: 20_000,
        before: level(41_000, 12, 300_000),
        predicted: level(9_000, 0, 20_000),
        measured: level(21_000, 1, 31_000),
        not_turned: vec![Knob::Quota],
        over: Vec::new(),
    };
    insta::assert_snapshot!(super::trial(&trial).text());
}
