// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::{
    cause::Cause,
    noise::{Edges, Event, Kind, Parts as Sums},
};
use proptest::{collection::vec, prelude::*};

fn exit(cause: Cause) -> Source {
    Source::Exit { cause, reason: "interrupt".into(), tick: true }
}

fn guest(kind: Kind) -> Source {
    Source::Guest { kind, name: "any".into() }
}

/// All but the first two and the last have a knob of their own.
fn sources() -> [Source; 7] {
    [
        Source::Edges,
        Source::Unexplained,
        exit(Cause::HostTick),
        Source::Preempted { by: "cron".into() },
        guest(Kind::Thread),
        guest(Kind::Irq),
        exit(Cause::Other),
    ]
}

fn ledger(gaps: &[Vec<(usize, u64)>]) -> Ledger {
    let entry = |events: &Vec<(usize, u64)>| Entry {
        cpu: 0,
        begin_ns: 0,
        ns: events.iter().map(|(_, ns)| ns).sum(),
        unknown_to_guest: false,
        parts: Sums::default(),
        exits: None,
        events: (events.iter())
            .map(|&(at, ns)| Event { source: sources()[at].clone(), ns })
            .collect(),
    };
    Ledger {
        window_ns: 1_000_000,
        program: None,
        has_steal: true,
        edges: Edges::default(),
        entries: gaps.iter().map(entry).collect(),
    }
}

fn knobs(places: &[usize]) -> Vec<Knob> {
    let mut knobs: Vec<_> =
        places.iter().map(|at| sources()[*at].knob().expect("it has a knob")).collect();
    knobs.sort_unstable();
    knobs
}

#[test]
fn one_knob_is_enough_where_each_long_gap_has_it() {
    let gaps = [vec![(0, 500), (2, 9_000), (3, 5_000)], vec![(0, 500), (3, 12_000)]];
    let found = budget(&ledger(&gaps), 10_000);
    assert_eq!((found.over, found.knobs, found.still_over), (2, knobs(&[3]), 0));
    // Of the second gap nothing is left, not even its edges.
    assert_eq!((found.longest_ns, found.noise_ns), (9_500, 9_500));
    assert_eq!(found.left, [Source::Edges, exit(Cause::HostTick)]);
}

#[test]
fn what_is_short_enough_needs_no_knob() {
    let found = budget(&ledger(&[vec![(0, 500), (2, 9_000)]]), 10_000);
    assert_eq!((found.over, found.knobs.len(), found.longest_ns), (0, 0, 9_500));
    assert_eq!(budget(&ledger(&[]), 0).longest_ns, 0);
}

#[test]
fn what_no_knob_ends_is_named() {
    let found = budget(&ledger(&[vec![(1, 30_000), (4, 5_000)]]), 10_000);
    assert_eq!((found.still_over, found.knobs), (1, knobs(&[4])));
    assert_eq!((found.longest_ns, found.left), (30_000, vec![Source::Unexplained]));
}

#[test]
fn what_was_predicted_stands_beside_what_there_was() {
    let before = ledger(&[vec![(0, 500), (2, 9_000), (3, 5_000)], vec![(3, 12_000)]]);
    let after = ledger(&[vec![(0, 400), (2, 9_000)], vec![(1, 11_000)]]);
    let trial = Trial::of(&budget(&before, 10_000), &before, &after);
    let level = |longest_ns, over, noise_ns| Level { longest_ns, over, noise_ns };
    assert_eq!(trial.before, level(14_500, 2, 26_500));
    assert_eq!(trial.predicted, level(9_500, 0, 9_500));
    assert_eq!(trial.measured, level(11_000, 1, 20_400));
    assert!(trial.not_turned.is_empty());
    assert_eq!(trial.over, after.entries[1..]);
}

proptest! {
    /// It meets the budget if turning everything does, and no knob in it can be spared.
    #[test]
    fn no_knob_is_turned_in_vain(
        gaps in vec(vec((0usize..7, 1u64..20_000), 1..6), 1..20),
        most in 0u64..30_000,
    ) {
        let book = ledger(&gaps);
        let found = budget(&book, most);
        let after = |knobs: &[Knob]| {
            let left = |gap: &Vec<(usize, u64)>| {
                let turned = |at: usize| sources()[at].knob().is_some_and(|k| knobs.contains(&k));
                let rest: u64 = gap.iter().filter(|(at, _)| !turned(*at)).map(|(_, ns)| ns).sum();
                let only_edges = gap.iter().all(|(at, _)| *at == 0 || turned(*at))
                    && gap.iter().any(|(at, _)| *at != 0);
                if only_edges { 0 } else { rest }
            };
            gaps.iter().map(left).max().unwrap()
        };
        prop_assert_eq!(found.longest_ns, after(&found.knobs));
        if found.still_over == 0 {
            prop_assert!(found.longest_ns <= most);
            for at in 0..found.knobs.len() {
                let mut fewer = found.knobs.clone();
                fewer.remove(at);
                prop_assert!(after(&fewer) > most);
            }
        } else {
            prop_assert!(after(&knobs(&[2, 3, 4, 5])) > most);
        }
    }
}
