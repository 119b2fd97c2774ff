// SPDX-License-Identifier: GPL-2.0-only
//! Guests that wait for a device: disks of several kinds, and a network.

use super::{kept, long, plain, short, Figure, Kept};
use crate::generated::table;
use paratick_core::{mode::Mode, stats};
use paratick_view::{
    change::{Versus, OURS, PAPERS, TICKLESS},
    number,
};

/// fio's averages by how long the disk takes for a request.
pub fn latencies() -> String {
    let files = ["io-10us", "io-100us", "io-1ms"].map(|file| kept(file).expect("it is there"));
    let figures = [Figure::OF_IO[0], Figure::Fio, Figure::OF_IO[2]];
    let rows = files.iter().flat_map(|kept| {
        let (all, ns) = (kept.workloads(), kept.rest.disk_latency_ns.expect("it is given"));
        OURS.map(|mode| {
            let versus = Versus { mode, ..PAPERS };
            let of = figures.map(|figure| long(kept.average(&all, versus, figure)));
            format!("| {} | {mode} | {} |", plain(number::nanos(ns)), of.join(" | "))
        })
    });
    let head = "| a request takes | | exits | fio's throughput | work per CPU time |\n\
                |---|---|---|---|---|";
    kept::same_origin(&files).below(table(head, rows))
}

/// The head of a table of [`by_cause`] after two other columns, and with these behind.
fn cause_head(causes: &[&str], behind: &[&str]) -> String {
    let names = causes.iter().map(|cause| cause.replace('_', "-")).collect::<Vec<_>>().join(" | ");
    let lines = "---|".repeat(4 + causes.len() + behind.len());
    format!("| | | exits | {names} | others | {} |\n|{lines}", behind.join(" | "))
}

/// Exits in a mode: all, those of these causes and of others; means of the workloads' medians.
fn by_cause(kept: &Kept, causes: &[&str], workloads: &[&str], mode: &str) -> String {
    let of = |workload: &str| &kept.rest.causes[workload][mode];
    let mean = |value: &dyn Fn(&str) -> f64| {
        let sum = workloads.iter().map(|one| value(one)).sum::<f64>();
        plain(number::whole(sum / workloads.len() as f64))
    };
    let sum = |workload: &str, is_in: &dyn Fn(&str) -> bool| -> f64 {
        of(workload).iter().filter(|(cause, _)| is_in(cause)).map(|(_, count)| count).sum()
    };
    let exits = mean(&|one| stats::median(&kept.rest.samples[one][mode]["exits"]).expect("it ran"));
    let each = causes.iter().map(|cause| mean(&|one| sum(one, &|name| name == *cause)));
    let others = mean(&|one| sum(one, &|name| !causes.contains(&name)));
    let cells: Vec<_> = [exits].into_iter().chain(each).chain([others]).collect();
    cells.join(" | ")
}

/// Exits of the same four jobs by cause, on disks of both kinds: means of the jobs' medians; and
/// what our modes change.
pub fn disk_devices() -> String {
    const CAUSES: [&str; 8] = ["arm", "expiry", "host_tick", "halt", "ipi", "eoi", "clock", "io"];
    let [Some(virtio), Some(nvme)] = ["io", "io-nvme"].map(kept) else {
        return "Not measured.".into();
    };
    let jobs = nvme.workloads();
    let modes = [PAPERS.baseline, OURS[0], OURS[1]];
    let row = |kept: &Kept, mode: Mode| {
        let name = mode.to_string();
        let exits = by_cause(kept, &CAUSES, &jobs, &name);
        let changes = [Figure::OF_IO[0], Figure::Fio].map(|figure| match mode == PAPERS.baseline {
            true => "–".into(),
            false => short(kept.average(&jobs, Versus { mode, ..PAPERS }, figure)),
        });
        let device = match mode == modes[0] {
            true => kept.rest.disk_device.to_string(),
            false => String::new(),
        };
        format!("| {device} | {name} | {exits} | {} |", changes.join(" | "))
    };
    let rows = [&virtio, &nvme].into_iter().flat_map(|kept| modes.map(|mode| row(kept, mode)));
    nvme.below_command(table(&cause_head(&CAUSES, &["exits", "fio"]), rows))
}

/// Exits of two guests that talk to each other, by cause, and what modes change: each test where
/// the host's kernel moves packets, and the tests' mean where QEMU does.
pub fn networks() -> String {
    const CAUSES: [&str; 5] = ["arm", "halt", "ipi", "eoi", "io"];
    let [Some(vhost), Some(qemu)] = ["network", "network-qemu"].map(kept) else {
        return "Not measured.".into();
    };
    let tests = vhost.workloads();
    let modes = [PAPERS.baseline, TICKLESS, OURS[0], OURS[1]];
    let rows = |kept: &Kept, tests: &[&str], of: &str| {
        let row = |mode: Mode| {
            let changes = Figure::OF_PROGRAMS.map(|figure| match mode == PAPERS.baseline {
                true => "–".into(),
                false => short(kept.average(tests, Versus { mode, ..PAPERS }, figure)),
            });
            let first = if mode == modes[0] { of } else { "" };
            let exits = by_cause(kept, &CAUSES, tests, &mode.to_string());
            format!("| {first} | {mode} | {exits} | {} |", changes.join(" | "))
        };
        modes.map(row)
    };
    let mut all: Vec<_> = tests.iter().flat_map(|test| rows(&vhost, &[test], test)).collect();
    all.extend(rows(&vhost, &tests, "mean, vhost"));
    all.extend(rows(&qemu, &tests, "mean, qemu"));
    let head = cause_head(&CAUSES, &["exits", "throughput", "time"]);
    vhost.below_command(table(&head, all.into_iter())) + &qemu.below_command(String::new())
}

/// How long a request takes over one connection, and what all of them take of exits and of the
/// host's CPU time, where the host polls and guests do.
pub fn network_polls() -> String {
    const POLLS: &str = ", host 200000 ns";
    let Some(kept) = kept("network-polls") else { return "Not measured.".into() };
    let of = &kept.rest.samples["request"];
    let cells = |name: &str| {
        let median = |figure: &str| stats::median(&of[name][figure]).expect("it ran");
        let [request, cpu] = ["redis_request_ns", "cpu_ns"]
            .map(|figure| plain(number::nanos(median(figure) as u64)));
        format!("{request} | {} | {cpu}", plain(number::whole(median("exits"))))
    };
    // As scripts/table names what ran on the host that polls.
    let row = |mode| format!("| {mode} | {} | {} |", cells(mode), cells(&format!("{mode}{POLLS}")));
    let modes = ["tickless", "tickless+poll", "paratick+nopoll", "paratick"];
    assert_eq!(of.len(), 2 * modes.len());
    let head = "| | a request | exits | CPU time | … where the host polls | exits | CPU time |\n\
        |---|---|---|---|---|---|---|";
    kept.below_command(table(head, modes.into_iter().map(row)))
}

/// fio's averages in guests that poll, against those that do not.
pub fn disk_polls() -> String {
    let kept = kept("io-polls").expect("it is there");
    let all = kept.workloads();
    let figures = [Figure::OF_IO[0], Figure::Fio, Figure::OF_IO[2]];
    let rows = ["tickless+poll", "paratick+nopoll", "paratick"].iter().map(|mode| {
        let versus = Versus { mode: mode.parse().unwrap(), baseline: TICKLESS };
        let of = figures.map(|figure| long(kept.average(&all, versus, figure)));
        format!("| {mode} | {} |", of.join(" | "))
    });
    let head = "| | exits | fio's throughput | work per CPU time |\n|---|---|---|---|";
    kept.below_command(table(head, rows))
}
