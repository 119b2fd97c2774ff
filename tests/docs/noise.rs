// SPDX-License-Identifier: GPL-2.0-only
//! Noise by what is isolated, of `paratick bench noise`.

use crate::{
    generated::table,
    kept::{self, Kept},
    swept::number,
};
use paratick_view::number::{decimal, NARROW_SPACE};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Isolated {
    rows: Vec<Row>,
    /// What the thesis says, on hosts where everything was isolated that it names.
    claims: Vec<Held>,
}

/// Of a vCPU that samples, in a second: medians and intervals, times in us.
#[derive(Deserialize)]
struct Row {
    host_cpus: u32,
    isolated: String,
    mode: String,
    summary: BTreeMap<String, Option<[f64; 3]>>,
}

#[derive(Deserialize)]
struct Held {
    mode: String,
    claim: Claim,
    difference: [f64; 3],
    sign: String,
    concluded: bool,
}

#[derive(Deserialize)]
struct Claim {
    figure: String,
    with: String,
    against: String,
    thesis: String,
}

fn us(n: f64) -> String {
    match n.abs() < 100.0 {
        true => decimal(n).replace(NARROW_SPACE, " "),
        false => number(n),
    }
}

fn nothing(isolated: &str) -> &str {
    match isolated {
        "none" => "nothing",
        some => some,
    }
}

/// Times by what is isolated, on hosts of four CPUs, and of six with nothing isolated.
pub fn times() -> String {
    const FIGURES: [(&str, &str); 5] = [
        ("steal", "steal"),
        ("hypervisor", "KVM and VMM"),
        ("guest", "the guest's own"),
        ("hardware", "without a name"),
        ("longest", "longest gap"),
    ];
    let all: [Kept<Isolated>; 2] = ["noise", "noise-6"].map(kept::read);
    let rows = all.iter().flat_map(|kept| &kept.rest.rows).map(|row| {
        let of = |(name, _): (&str, &str)| row.summary[name].map_or("–".into(), |of| us(of[0]));
        let (mode, isolated) = (&row.mode, nothing(&row.isolated));
        format!("| {mode} | {} | {isolated} | {} |", row.host_cpus, FIGURES.map(of).join(" | "))
    });
    let names = FIGURES.map(|(_, name)| name).join(" | ");
    let lines = "---|".repeat(FIGURES.len() + 3);
    let head = format!("| | CPUs | isolated | {names} |\n|{lines}");
    kept::same_origin(&all).below(table(&head, rows))
}

/// What the thesis says of isolating, and what is seen.
pub fn claims() -> String {
    let kept: Kept<Isolated> = kept::read("noise");
    let rows = kept.rest.claims.iter().map(|held| {
        let Claim { figure, with, against, thesis } = &held.claim;
        let [median, low, high] = held.difference.map(us);
        let against = nothing(against);
        let what = format!("{figure}: {with} against {against}");
        let sign = &held.sign;
        let said = if sign == thesis { sign.clone() } else { format!("**{sign}**") };
        let said = if held.concluded { said } else { format!("({said})") };
        format!("| {} | {what} | {thesis} | {said} | {median} [{low}..{high}] |", held.mode)
    });
    let head = "| | isolated | the thesis | here | difference, µs |\n|---|---|---|---|---|";
    kept.below(table(head, rows))
}
