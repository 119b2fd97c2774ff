// SPDX-License-Identifier: GPL-2.0-only
//! What would spare a VM exits does.

use super::{counted, run};
use crate::support::{kernel, mode, parallel_spec, sh, text, tools};
use paratick_core::{
    observed::{Observed, Spares, Vm},
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::snapshot;
use std::thread;

/// Exits for each second in which this runs.
fn exits_of(vm: &Vm) -> f64 {
    vm.per_second(vm.all().count)
}

fn spared(seen: &Observed, vm: &Vm) -> f64 {
    let would = seen.would();
    let series = would.iter().find(|one| one.process == vm.process && one.by == Spares::Series);
    series.map_or(0.0, |one| one.spares_per_second)
}

/// A guest of today's kernel and one with the series, side by side, with the same load: one that
/// sleeps again and again, and one that computes.
#[test]
fn the_series_spare_what_was_predicted() {
    let host = snapshot::host(parallel_spec(2), &tools(), &mut |_| {}).unwrap();
    let guests = [("tickless", 1), ("paratick", 2)].map(|(name, cpu)| {
        let mut config = GuestConfig::new(kernel(), 1, Size::mib(256), mode(name));
        config.pins = vec![cpu];
        host.start_guest(config).unwrap()
    });
    let sleeps = format!("{} workload sleep --window 0 --work 1000000", tools().agent.display());
    for load in [sleeps.as_str(), "sh -c 'while :; do :; done'"] {
        let script = format!(
            "rm -f /tmp/stop; {load} >/dev/null & until [ -e /tmp/stop ]; do sleep 1; done; kill $!"
        );
        let (seen, said) = thread::scope(|scope| {
            let runs = guests.iter().map(|guest| scope.spawn(|| guest.exec(sh(&script)).unwrap()));
            let runs: Vec<_> = runs.collect();
            run(&host, "sleep 1");
            let (seen, _) = counted(&host, "", "--for 2s", "true");
            let said = run(&host, "$P exits --for 1s; $P exits --for 1s --format json");
            let said = text(&said.stdout);
            for guest in &guests {
                guest.exec(sh("touch /tmp/stop")).unwrap();
            }
            runs.into_iter().for_each(|run| drop(run.join().unwrap()));
            (seen, said)
        });
        let (table, json) = said.split_once("\n{").expect(&said);
        println!("{table}");
        let (_, table) = table.split_once("What would spare exits").expect(table);
        assert!(table.contains("paratick's series "), "{table}");
        assert!(json.contains("\"by\": \"series\""), "{json}");
        let [today, series] = [&guests[0], &guests[1]].map(|guest| {
            let vm = seen.vms.iter().find(|vm| vm.process == guest.pid());
            vm.expect("both run")
        });
        let (all, spared) = (exits_of(today), spared(&seen, today));
        println!("{load}: {all} - {spared}: {}", exits_of(series));
        assert!(all >= 100.0 && spared >= 0.5 * all);
        assert!(((all - spared) / exits_of(series) - 1.0).abs() <= 0.1);
    }
    for guest in guests {
        guest.shutdown().unwrap();
    }
    host.shutdown().unwrap();
}
