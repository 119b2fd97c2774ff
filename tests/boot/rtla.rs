// SPDX-License-Identifier: GPL-2.0-only
//! What Debian's rtla prints of osnoise, and what `--format rtla-top` does, in the same guest.

use crate::{
    noise::quiet_pair,
    support::{kernel, row_of, sh, text},
};
use paratick_bench::noise::OsnoiseRecorder;
use paratick_core::noise::ledger;
use paratick_view::rtla;
use serde_json::json;

/// Of a second: noise in us; and hardware's, NMIs, interrupts, softirqs, threads.
fn of_a_second(top: &str) -> [f64; 6] {
    let line = top.lines().find(|line| line.trim_start().starts_with("0 #")).expect(top);
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<f64>().expect(line);
    [3, 7, 8, 9, 10, 11].map(|at| number(at) / number(2) * 1e6)
}

/// rtla has its samples from the tracer's own sums, we from each sample's events.
#[test]
#[ignore = "needs rtla"]
fn rtla_and_its_table_here_say_the_same() {
    let (host, guest) = quiet_pair(kernel(), 1, "tickless", None);
    guest.start::<OsnoiseRecorder>().unwrap();
    let result = guest.exec(sh("cd /tmp && rtla osnoise top -q -d 12s")).unwrap();
    assert_eq!(result.code, 0, "{}", text(&result.stderr));
    let theirs = text(&result.stdout);
    let noise = guest.read::<OsnoiseRecorder>().unwrap();
    let mut book = ledger(&noise, None);
    // Without the time in which rtla starts and ends.
    let (begin, end) = (noise.begin_ns + 3_000_000_000, noise.end_ns - 3_000_000_000);
    book.entries.retain(|entry| (begin..end).contains(&entry.begin_ns));
    book.window_ns = end - begin;
    let ours = rtla::top(&book, false);
    println!("{theirs}\n{ours}");
    let [theirs, ours] = [of_a_second(&theirs), of_a_second(&ours)];
    for (who, [noise, hardware, nmis, irqs, softirqs, threads]) in
        [("rtla of Debian 12", theirs), ("`--format rtla-top`", ours)]
    {
        let counts = [hardware, nmis, irqs, softirqs, threads];
        let names = ["hardware", "NMI", "IRQ", "softirq", "thread"];
        let cells = names.into_iter().zip(counts).map(|(name, count)| (name, json!(count)));
        let noise = ("noise, µs", json!(noise));
        let cells = [("in a second", json!(who)), noise].into_iter().chain(cells);
        row_of("rtla", &cells.collect::<Vec<_>>());
    }
    let same = |at: usize, share: f64| (theirs[at] - ours[at]).abs() <= share * theirs[at] + 1.0;
    assert!(theirs[3] > 200.0 && same(3, 0.02), "interrupts: {theirs:?} {ours:?}");
    assert!(same(0, 0.1) && same(1, 0.02) && same(2, 0.02), "{theirs:?} {ours:?}");
    guest.shutdown().unwrap();
    host.shutdown().unwrap();
}
