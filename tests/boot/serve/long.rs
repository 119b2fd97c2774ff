// SPDX-License-Identifier: GPL-2.0-only
//! What takes minutes, or packages that nothing else needs.

use super::{capabilities, number, packaged, samples, serving, sum, TOP};
use crate::{
    exits::{run, SOURCE, VMM},
    support::{compile, host_spec, kernel, text, tools},
};
use paratick_core::size::Size;
use paratick_machine::{host::Host, snapshot};
use std::{fs, process::Command};

/// With room for a Prometheus, or for 50 VMs.
fn machine() -> Host {
    compile(SOURCE, VMM);
    let mut spec = host_spec(kernel(), 3, &[]);
    spec.boot.memory = spec.boot.memory + Size::mib(1024);
    snapshot::host(spec, &tools(), &mut |_| {}).unwrap()
}

/// Every query of the dashboard, with its variables as for all hosts and VMs.
fn queries() -> Vec<String> {
    let dashboard: serde_json::Value =
        serde_json::from_str(&packaged("paratick-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let shown = targets.map(|target| target["expr"].as_str().unwrap().to_string());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    // label_values(METRIC, LABEL)
    let variables = variables.filter_map(|variable| variable["definition"].as_str());
    let metrics = variables.map(|values| {
        let metric = values.strip_prefix("label_values(").unwrap().rsplit_once(", ").unwrap();
        format!("count by ({}) ({})", metric.1.trim_end_matches(')'), metric.0)
    });
    let all = shown.chain(metrics);
    all.map(|query| {
        let query = query.replace("$__rate_interval", "1m").replace("$__range", "5m");
        let query = query.replace("$instance", ".*").replace("$vm", ".*");
        assert!(!query.contains('$'), "{query}");
        query
    })
    .collect()
}

/// What the rules record, and what the alert watches, without its threshold.
fn recorded() -> Vec<String> {
    let rules = packaged("paratick.rules.yml");
    let lines = || rules.lines().map(str::trim);
    let names = lines().filter_map(|line| line.strip_prefix("- record: "));
    let alerts = lines().filter_map(|line| line.strip_prefix("expr: ")?.strip_suffix(" > 0"));
    let all: Vec<_> = names.chain(alerts).map(String::from).collect();
    assert!(all.iter().any(|query| query.contains("paratick_lost_total")), "{all:?}");
    all
}

/// What promtool thinks of a file of its kind.
fn check(what: &str, input: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in");
    fs::write(&file, input).unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["check", what]);
    match what {
        "rules" => promtool.arg(&file),
        _ => promtool.stdin(fs::File::open(&file).unwrap()),
    };
    let output = promtool.output().expect("promtool; scripts/bootstrap --with operators");
    let said = text(&output.stdout) + &text(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}");
}

/// Debian's Prometheus scrapes it, and has something for each query of the dashboard and each rule.
#[test]
#[ignore = "1 minute; scripts/bootstrap --with operators"]
fn prometheus_reads_it_and_the_dashboard_shows_something() {
    let host = machine();
    let queries: Vec<String> = [queries(), recorded()].concat();
    assert!(queries.len() >= 18, "{queries:?}");
    let asked = queries.iter().map(|query| {
        format!("promtool query instant -o json http://127.0.0.1:9090 '{query}' || echo FAILED; ")
    });
    let script = serving(&capabilities())
        + &format!(
            "printf '%s\\n' 'global: {{scrape_interval: 2s, evaluation_interval: 2s}}' \
             'rule_files: [{TOP}/packaging/paratick.rules.yml]' 'scrape_configs: \
             [{{job_name: paratick, static_configs: [{{targets: [\"127.0.0.1:10186\"]}}]}}]' \
             >/tmp/p.yml; \
             for n in 1 2; do $VMM 1 100000 --id busy-$n 5000 >/dev/null & done; \
             prometheus --config.file=/tmp/p.yml --storage.tsdb.path=/tmp/tsdb \
             --web.listen-address=127.0.0.1:9090 2>/tmp/prom.log & \
             until grep -q 'ready to receive' /tmp/prom.log; do \
             kill -0 $! || break; sleep 1; done; \
             sleep 60; scrape; echo =; "
        )
        + &asked.collect::<String>()
        + "promtool query instant http://127.0.0.1:9090 up; \
           echo =; tail -n 20 /tmp/prom.log";
    let said = text(&run(&host, &script).stdout);
    let [scrape, answers, log] = said.split("=\n").collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    println!("{answers}{log}");
    check("metrics", scrape.split_once("\r\n\r\n").unwrap().1);
    check("rules", &packaged("paratick.rules.yml"));
    for (query, answer) in queries.iter().zip(answers.lines()) {
        let values: serde_json::Value = serde_json::from_str(answer).expect(answer);
        assert!(!values.as_array().unwrap().is_empty(), "nothing for {query}");
    }
    assert!(answers.contains("up{instance=\"127.0.0.1:10186\", job=\"paratick\"} => 1"));
    host.shutdown().unwrap();
}

/// 50 VMs with 2 vCPUs each, of eleven kinds of exits or so, and a scrape a second for ten minutes.
#[test]
#[ignore = "4 to 13 minutes"]
fn many_scrapes_of_many_vms_are_exact_and_need_little_memory() {
    let host = machine();
    // Memory in kB, threads, CPU time in user and system mode in 10 ms, and the time in s.  A CPU
    // of this machine has an instruction each ns.
    let used = "used() { echo $(grep -hE '^(VmRSS|Threads):' /proc/$S/status | tr -dc '0-9\\n') \
                $(cut -d' ' -f14,15 /proc/$S/stat) $(cut -d' ' -f1 /proc/uptime); }; ";
    let script = serving(&capabilities())
        + used
        + "for n in $(seq 50); do PORTS=7 $VMM 2 1000000 --id vm-$n 5000000 >/dev/null & \
           V=\"$V $!\"; done; for i in $(seq 600); do scrape >/tmp/scrape; sleep 1; \
           case $i in 100|300|600) used;; esac; done; \
           echo =; kill -STOP $V; sleep 2; for v in $V; do \
           echo $v $(cat /sys/kernel/debug/kvm/$v-*/exits); done; echo =; scrape; kill -KILL $V";
    let said = text(&run(&host, &script).stdout);
    let [used, stopped, last] = said.split("=\n").collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    println!("{used}");
    let used: Vec<[f64; 5]> = used
        .lines()
        .map(|line| line.split(' ').map(number).collect::<Vec<_>>().try_into().expect(line))
        .collect();
    assert!(used.len() == 3 && used.iter().all(|[_, threads, ..]| *threads <= 2.0), "{used:?}");
    let kilobytes: Vec<f64> = used.iter().map(|[kilobytes, ..]| *kilobytes).collect();
    let share = |[one, other]: &[[f64; 5]; 2]| {
        (other[2] + other[3] - one[2] - one[3]) / 100.0 / (other[4] - one[4])
    };
    let shares: Vec<f64> = used.windows(2).map(|two| share(two.try_into().unwrap())).collect();
    println!("kB: {kilobytes:?}; of one CPU: {shares:?}; bytes of a scrape: {}", last.len());
    // 0.0078 was measured, by the lab's clock.
    assert!(shares.iter().all(|share| *share < 0.01), "{shares:?}");
    // 12 080 was measured.
    assert!(kilobytes.iter().all(|one| *one < 14_000.0), "{kilobytes:?}");
    let last = samples(last);
    assert_eq!((stopped.lines().count(), last["paratick_lost_total"]), (50, 0.0));
    for line in stopped.lines() {
        let (process, exits) = line.split_once(' ').unwrap();
        let label = format!("pid=\"{process}\"");
        assert_eq!(sum(&last, "paratick_vm_exits_total", &label), number(exits), "{line}");
    }
    host.shutdown().unwrap();
}
