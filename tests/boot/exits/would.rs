// SPDX-License-Identifier: GPL-2.0-only
//! What would spare a VM exits does.

use super::{counted, run};
use crate::{
    hz::kernel_at,
    support::{endless, kernel, mode, parallel_spec, row_of, sh, text, tools},
};
use paratick_core::{
    observed::{sum, Observed, Spares, Ticks, Vm},
    size::Size,
    units::Hz,
    wire::GuestConfig,
};
use paratick_machine::{guest::Guest, host::Host, snapshot};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf, thread};

/// Exits for each second in which this runs.
fn exits_of(vm: &Vm) -> f64 {
    vm.per_second(vm.all().count)
}

fn of<'a>(seen: &'a Observed, guest: &Guest) -> &'a Vm {
    seen.vms.iter().find(|vm| vm.process == guest.pid()).expect("it runs")
}

fn spared(seen: &Observed, guest: &Guest) -> f64 {
    let would = seen.would();
    let series = would.iter().find(|one| one.process == guest.pid() && one.by == Spares::Series);
    series.map_or(0.0, |one| one.spares_per_second)
}

/// By a tick of this rate instead of its own.
fn slower(seen: &Observed, guest: &Guest) -> BTreeMap<Ticks, f64> {
    let would = seen.would();
    let its = would.iter().filter(|one| one.process == guest.pid());
    its.filter_map(|one| Some((one.ticks?, one.spares_per_second))).collect()
}

/// What is counted for some seconds in which all guests run this, and what else is said meanwhile.
fn beside(
    host: &Host,
    guests: &[Guest],
    load: &str,
    time: &str,
    meanwhile: &str,
) -> (Observed, String) {
    let script = format!(
        "rm -f /tmp/stop; {load} >/dev/null & until [ -e /tmp/stop ]; do sleep 1; done; kill $!"
    );
    thread::scope(|scope| {
        let runs = guests.iter().map(|guest| scope.spawn(|| guest.exec(sh(&script)).unwrap()));
        let runs: Vec<_> = runs.collect();
        run(host, "sleep 1");
        let (seen, _) = counted(host, "", &format!("--for {time}"), "true");
        let said = text(&run(host, meanwhile).stdout);
        for guest in guests {
            guest.exec(sh("touch /tmp/stop")).unwrap();
        }
        runs.into_iter().for_each(|run| drop(run.join().unwrap()));
        (seen, said)
    })
}

fn guest(host: &Host, kernel: PathBuf, mode_name: &str, cpu: u32) -> Guest {
    let mut config = GuestConfig::new(kernel, 1, Size::mib(256), mode(mode_name));
    config.pins = vec![cpu];
    host.start_guest(config).unwrap()
}

/// A guest of today's kernel and one with the series, side by side, with the same load: one that
/// sleeps again and again, and one that computes.
#[test]
fn the_series_spare_what_was_predicted() {
    let host = snapshot::host(parallel_spec(2), &tools(), &mut |_| {}).unwrap();
    let guests = [("tickless", 1), ("paratick", 2)]
        .map(|(mode_name, cpu)| guest(&host, kernel(), mode_name, cpu));
    for load in [endless("sleep"), endless("cpu")] {
        let both = "$P exits --for 1s; $P exits --for 1s --format json";
        let (seen, said) = beside(&host, &guests, &load, "2s", both);
        let (table, json) = said.split_once("\n{").expect(&said);
        println!("{table}");
        let (_, table) = table.split_once("What would spare exits").expect(table);
        assert!(table.contains("paratick's series "), "{table}");
        assert!(json.contains("\"by\": \"series\""), "{json}");
        let [today, series] = [&guests[0], &guests[1]].map(|guest| exits_of(of(&seen, guest)));
        let spared = spared(&seen, &guests[0]);
        println!("{load}: {today} - {spared}: {series}");
        assert!(today >= 100.0 && spared >= 0.5 * today);
        assert!(((today - spared) / series - 1.0).abs() <= 0.1);
    }
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}

/// Two guests whose kernels have other ticks, side by side, with the same load: both rates are
/// found, and the slower one makes what was predicted of the faster.  Where a program has a timer
/// of its own, or sleeps, nothing is said.
#[test]
#[ignore = "builds a kernel with another tick rate, 10 minutes"]
fn a_slower_tick_spares_what_was_predicted() {
    let host = snapshot::host(parallel_spec(2), &tools(), &mut |_| {}).unwrap();
    let guests =
        [(1000, 1), (250, 2)].map(|(hz, cpu)| guest(&host, kernel_at(hz), "tickless", cpu));
    for load in [endless("cpu"), endless("mix --busy-us 19000 --sleep-us 1000")] {
        let (seen, said) = beside(&host, &guests, &load, "4s", "$P exits --for 4s");
        println!("{said}");
        assert!(said.contains("  a tick of 250 Hz, not 1000 "), "{said}");
        let [of_fast, of_slow] = [0, 1].map(|nth| slower(&seen, &guests[nth]));
        let ticks = |from, to| Ticks { guest_hz: Hz(from), to_hz: Hz(to) };
        let known: Vec<_> = of_fast.keys().chain(of_slow.keys()).copied().collect();
        assert_eq!(known, [ticks(1000, 100), ticks(1000, 250), ticks(250, 100)]);
        let [all, made] = [0, 1].map(|nth| exits_of(of(&seen, &guests[nth])));
        let spared = of_fast[&ticks(1000, 250)];
        println!("{load}: {all} - {spared}: {made}");
        let name = if load == endless("cpu") { "computes" } else { "sleeps for 1 ms in 20" };
        row_of(
            "slower-tick",
            &[
                ("a guest that", json!(name)),
                ("1000 Hz", json!(all)),
                ("predicted of 250 Hz", json!(all - spared)),
                ("250 Hz", json!(made)),
            ],
        );
        // A slower tick also falls into fewer sleeps, which spares halts and more arms.
        assert!((-0.03..=0.06).contains(&((all - spared - made) / all)));
    }
    for load in ["itimer", "mix --busy-us 1000 --sleep-us 1000", "sleep"] {
        let (seen, _) = beside(&host, &guests, &endless(load), "4s", "true");
        for guest in &guests {
            let vm = of(&seen, guest);
            let counts = vm.causes().into_iter().map(|(cause, of)| (cause, sum(of).count));
            println!("{load}: {:?}", counts.collect::<Vec<_>>());
            assert_eq!(slower(&seen, guest).len(), 0, "{load}");
        }
    }
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}
