// SPDX-License-Identifier: GPL-2.0-only
//! `paratick serve` on a machine whose VMs come and go, as packaging/paratick.service runs it.  The
//! machine is the lab's host.

mod long;

use crate::{
    exits::{run, SOURCE, VMM},
    support::{compile, host_spec, kernel, stock, text, tools},
};
use paratick_machine::snapshot;
use std::{collections::BTreeMap, fs, path::PathBuf};

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn packaged(file: &str) -> String {
    fs::read_to_string(format!("{TOP}/packaging/{file}")).unwrap()
}

/// What the unit gives its process, in lower case and without `cap_`.
fn capabilities() -> Vec<String> {
    let unit = packaged("paratick.service");
    let of = |key: &str| {
        let names = unit.lines().filter_map(|line| line.strip_prefix(key));
        let names = names.flat_map(|names| names.split_whitespace());
        names.map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect::<Vec<_>>()
    };
    let given = of("AmbientCapabilities=");
    assert_eq!(given, of("CapabilityBoundingSet="));
    given
}

/// Without what only kernels of distributions ask for.
fn capabilities_of_linux() -> Vec<String> {
    capabilities().into_iter().filter(|one| one != "sys_admin").collect()
}

/// Runs what follows as nobody in particular, who has these capabilities and can get no others.
fn nobody(capabilities: &[String]) -> String {
    let with: Vec<String> = capabilities.iter().map(|one| format!("+{one}")).collect();
    let with = ["-all".to_string()].into_iter().chain(with).collect::<Vec<_>>().join(",");
    format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps={with} \
         --ambient-caps={with} --bounding-set={with}"
    )
}

/// `scrape`, and `$P serve` in the background as `$S`, which has begun.
fn serving(capabilities: &[String]) -> String {
    let nobody = nobody(capabilities);
    format!(
        "scrape() {{ bash -c 'exec 3<>/dev/tcp/127.0.0.1/10186; \
         printf \"GET /metrics HTTP/1.1\\r\\nAccept: $0\\r\\n\\r\\n\" >&3; cat <&3' $1; }}; \
         {nobody} $P serve 2>/tmp/said & S=$!; \
         until grep -q listening /tmp/said; do kill -0 $S || break; sleep 0.05; done; \
         cat /tmp/said >&2; "
    )
}

/// The samples of an answer, by name and labels.
fn samples(answer: &str) -> BTreeMap<&str, f64> {
    let (head, body) = answer.split_once("\r\n\r\n").expect(answer);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let sample = samples.map(|line| line.rsplit_once(' ').expect(line));
    sample.map(|(name, value)| (name, value.parse().expect(value))).collect()
}

/// Of all series of this name with this label.
fn sum(samples: &BTreeMap<&str, f64>, name: &str, label: &str) -> f64 {
    let those = samples.iter().filter(|(one, _)| {
        one.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')) && one.contains(label)
    });
    those.map(|(_, value)| value).sum()
}

/// VMs begin and end while they are scraped; two of one name are stopped, counted and go on.
fn counts_are_those_of_kvm_s_statistics(kernel: PathBuf, capabilities: &[String]) {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel, 3, &[]), &tools(), &mut |_| {}).unwrap();
    let script = serving(capabilities)
        + "grep -h CapEff /proc/$S/task/*/status | sort -u; echo =; \
           for n in 1 2; do $VMM 1 2000 --id twin $((n * 4000)) >>/tmp/vms & V=\"$V $!\"; done; \
           for n in 1 2 3; do $VMM 1 $((n * 100)) --id one-$n 2000 >>/tmp/vms & O=$!; \
           $VMM 3 $((n * 70)) --id three-$n >>/tmp/vms; scrape >/tmp/scrape.$n; wait $O; done; \
           kill -STOP $V; sleep 0.5; for v in $V; do \
           echo $v $(cat /sys/kernel/debug/kvm/$v-*/exits); done; echo =; \
           scrape; echo =; kill -CONT $V; wait $V; sleep 0.2; scrape application/openmetrics-text; \
           echo =; kill -TERM $S; wait $S; echo $?; echo =; cat /tmp/vms; \
           for n in 1 2 3; do echo =; cat /tmp/scrape.$n; done";
    let said = text(&run(&host, &script).stdout);
    let [has, stopped, then, last, code, ended, early @ ..] =
        &said.split("=\n").collect::<Vec<_>>()[..]
    else {
        panic!("{said}");
    };
    println!("{stopped}{ended}");
    // CAP_BPF and CAP_DAC_READ_SEARCH.
    assert_eq!(has.split_whitespace().collect::<Vec<_>>(), ["CapEff:", "0000008000000004"]);
    assert_eq!((code.trim(), stopped.lines().count(), ended.lines().count()), ("0", 2, 8));
    let then = samples(then);
    for line in stopped.lines() {
        let (process, exits) = line.split_once(' ').unwrap();
        let label = format!("vm=\"twin\",pid=\"{process}\"");
        let exits: f64 = exits.parse().unwrap();
        assert!(
            exits > 100.0 && sum(&then, "paratick_vm_exits_total", &label) == exits,
            "{then:?}"
        );
        assert_eq!(sum(&then, "paratick_vm_lost_total", &label), 0.0);
    }
    assert!(last.contains("application/openmetrics-text") && last.ends_with("# EOF\n"), "{last}");
    let last = samples(last);
    let all: f64 = ended.lines().map(|line| line.rsplit(' ').next().unwrap()).map(number).sum();
    assert_eq!(sum(&last, "paratick_host_exits_total", "cause="), all);
    assert_eq!(last["paratick_lost_total"], 0.0);
    // Series end with their VMs.
    assert!(!last.keys().any(|name| name.starts_with("paratick_vm_")), "{last:?}");
    for place in ["kvm", "vmm", "blocked"] {
        let label = format!("place=\"{place}\"");
        assert!(sum(&last, "paratick_host_exit_seconds_total", &label) > 0.0, "{place}: {last:?}");
    }
    // What a host counts never becomes less.
    let mut before = BTreeMap::new();
    for now in early.iter().map(|answer| samples(answer)).chain([then, last]) {
        let host: BTreeMap<_, _> =
            now.into_iter().filter(|(name, _)| name.starts_with("paratick_host_")).collect();
        let less = before.iter().find(|(name, value)| host.get(*name) < Some(value));
        assert!(less.is_none() && !host.is_empty(), "{less:?}");
        before = host;
    }
    host.shutdown().unwrap();
}

fn number(text: &str) -> f64 {
    text.parse().expect(text)
}

#[test]
fn scrapes_of_vms_that_come_and_go_have_the_counts_of_kvm_s_statistics() {
    counts_are_those_of_kvm_s_statistics(kernel(), &capabilities_of_linux());
}

#[test]
fn so_they_have_on_a_kernel_of_debian_s() {
    let stock = stock("6.12");
    counts_are_those_of_kvm_s_statistics(stock.bzimage, &capabilities());
}

/// Without any of them neither verb looks, and says which it lacks.
#[test]
fn each_capability_of_the_unit_is_needed() {
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let all = capabilities_of_linux();
    assert_eq!(all.len(), 4);
    // Into the home of whoever runs the tests, CAP_DAC_READ_SEARCH may be needed.
    assert_eq!(run(&host, "touch /tmp/look && mount --bind ${P##* } /tmp/look").code, 0);
    for verb in ["serve", "exits --for 1s"] {
        for lacks in &all {
            let others: Vec<String> = all.iter().filter(|one| *one != lacks).cloned().collect();
            let result = run(&host, &format!("{} /tmp/look {verb}", nobody(&others)));
            let error = text(&result.stderr);
            assert!(result.code == 69 && result.stdout.is_empty(), "{}: {error}", result.code);
            let named = format!(": it lacks CAP_{}\nhint: ", lacks.to_uppercase());
            assert!(error.contains(&named), "{error}");
        }
    }
    host.shutdown().unwrap();
}

/// Debian's kernels let CAP_PERFMON alone attach nothing, unless they are told to.
#[test]
fn on_debian_s_kernels_an_administrator_looks() {
    let stock = stock("6.12").bzimage;
    let host = snapshot::host(host_spec(stock, 2, &[]), &tools(), &mut |_| {}).unwrap();
    let few = nobody(&capabilities_of_linux());
    let result = run(&host, &format!("{few} $P serve"));
    let error = text(&result.stderr);
    assert!(result.code == 69 && error.contains("\nhint: have CAP_SYS_ADMIN, too"), "{error}");
    let allowed = "echo 2 >/proc/sys/kernel/perf_event_paranoid";
    let script = format!("{allowed}; timeout --preserve-status 20 {few} $P serve");
    let result = run(&host, &script);
    let said = text(&result.stderr);
    assert!(result.code == 0 && said.contains("listening on http://127.0.0.1:10186/"), "{said}");
    host.shutdown().unwrap();
}

/// The connection that starts it is answered, and systemd is told when it counts.
#[test]
fn systemd_may_pass_the_socket() {
    compile(SOURCE, VMM);
    let host = snapshot::host(host_spec(kernel(), 2, &[]), &tools(), &mut |_| {}).unwrap();
    let script = format!(
        "$VMM 1 100000 --id busy-one 20000 >/dev/null & L=$!; \
         perl {TOP}/tests/boot/serve/activate.pl {} $P serve --by-vcpu; kill $L",
        nobody(&capabilities())
    );
    let said = text(&run(&host, &script).stdout);
    let (state, rest) = said.split_once("HTTP/1.1 200 OK\r\n").expect(&said);
    assert_eq!(state, "notified READY=1\n");
    assert!(rest.ends_with("\nended 0\n"), "{rest}");
    let build = concat!("paratick_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    assert!(rest.contains(build) && rest.contains(",vcpu=\"0\",cause=\""), "{rest}");
    host.shutdown().unwrap();
}
