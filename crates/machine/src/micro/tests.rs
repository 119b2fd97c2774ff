// SPDX-License-Identifier: GPL-2.0-only

use super::*;

fn session(first: Vec<u64>, exits: Option<u64>) -> Result<Session, String> {
    Ok(Session { series: [first, vec![9; 4]], exits, eois: 0 })
}

fn ipi() -> &'static Kind {
    KINDS.iter().find(|kind| kind.entries.contains(&Entry::Ipi)).unwrap()
}

#[test]
fn a_row_has_cycles_or_says_why_it_has_none() {
    let measured = session(vec![4, 1, 3, 2], Some(9));
    let all: Vec<Row> = rows(ipi(), 4, &measured, false);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].cycles, Spread::of(vec![1, 2, 3, 4]));
    // The ninth ends the session; all of them are the sender's.
    assert_eq!((all[0].exits_per_sample, all[1].exits_per_sample), (Some(2.0), None));
    assert!(all.iter().all(|row| row.not_measured.is_none() && row.samples == 4));

    for row in rows(ipi(), 4, &Err("for a reason".into()), false) {
        assert_eq!((row.cycles, row.samples), (None, 0));
        assert_eq!(row.not_measured.as_deref(), Some("for a reason"));
    }
}

#[test]
fn cycles_of_an_emulator_are_none_but_its_exits_count() {
    let row = rows(ipi(), 4, &session(vec![4, 1, 3, 2], Some(5)), true).remove(0);
    assert_eq!((row.cycles, row.exits_per_sample), (None, Some(1.0)));
    assert_eq!(row.not_measured.as_deref(), Some(EMULATED));
}

#[test]
fn what_came_before_it_was_sent_is_not_measured() {
    let row = rows(ipi(), 4, &session(vec![4, -1_i64 as u64, 3, 2], None), false).remove(0);
    assert!(row.cycles.is_none() && row.not_measured.unwrap().contains("TSCs"));
}
