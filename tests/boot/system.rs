// SPDX-License-Identifier: GPL-2.0-only
//! Guests with a whole system of Debian's, which systemd boots.

use crate::{
    idle::{assert_close, of_program, recorded_with, Found, LONG, PROGRAM, SLACK, TICKER},
    support::{compile, host_spec, kernel, mode, resumed, sh, stock, text},
};
use paratick_bench::wakeups::Load;
use paratick_build::root;
use paratick_core::{size::Size, wire::GuestConfig};
use paratick_machine::{guest::Guest, host::Host};
use paratick_service::guest::MACHINE;
use std::path::PathBuf;

fn booted(kernel: PathBuf, system: &str, its_mode: &str) -> (Host, Guest) {
    let mut config = GuestConfig::new(kernel.clone(), 2, Size::mib(512), mode(its_mode));
    config.system = Some(root::ensure(&system.parse().unwrap(), &mut |_| {}).unwrap());
    resumed(host_spec(kernel, 2, &[]), config)
}

/// With the series and with Debian's own kernel: every unit has begun, and its root can be written
/// to, without a trace in the folder that it came from.
#[test]
#[ignore = "minutes, mmdebstrap and a network"]
fn debian_12_and_13_boot_with_systemd() {
    let ours = (kernel(), "debian:13", "paratick");
    let stock = (stock("6.12").bzimage, "debian:12", "tickless");
    for (image, system, its_mode) in [ours, stock] {
        let (host, guest) = booted(image, system, its_mode);
        let result = guest.exec(sh("cat /proc/1/comm; systemctl is-system-running; \
            . /etc/os-release; echo debian:$VERSION_ID; systemctl is-active cron; \
            echo new >/etc/new; cat /etc/new; stat -c '%a %U:%G' /etc/shadow /tmp /root"));
        let said = text(&result.unwrap().stdout);
        let as_installed = "640 root:shadow\n1777 root:root\n700 root:root";
        let expected = format!("systemd\nrunning\n{system}\nactive\nnew\n{as_installed}\n");
        assert_eq!(said, expected);
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
    }
    let folder = root::ensure(&"debian:13".parse().unwrap(), &mut |_| {}).unwrap();
    assert!(!folder.join("etc/new").exists());
}

/// A service that wakes up 20 times a second is named by its unit.  What TimerSlackNSec= of that
/// unit would save is predicted, and counted in another guest.
#[test]
#[ignore = "minutes, mmdebstrap and a network"]
fn a_unit_is_named_and_its_slack_is_predicted() {
    compile(PROGRAM, TICKER);
    let found = |slack: u64| {
        let (host, guest) = booted(kernel(), "debian:13", "tickless");
        let service = format!(
            "systemd-run --quiet --wait --unit=ticker -p TimerSlackNSec={slack} \
             {MACHINE}{TICKER} 50000000"
        );
        let command = ["sh", "-c", &service].map(String::from);
        let found =
            recorded_with(&host, &guest, Load { command: &command, ..Load::default() }, LONG);
        guest.shutdown().unwrap();
        host.shutdown().unwrap();
        found
    };
    let Found { saving, offenders, .. } = found(50_000);
    let unit = of_program(&offenders, "ticker").source.process().unwrap().unit.clone();
    assert_eq!(unit.as_deref(), Some("ticker.service"));
    let Found { sums, offenders, .. } = found(SLACK);
    let counted = of_program(&offenders, "ticker").expiries;
    println!("{saving:?}; counted {counted}, {} exits", sums.all_exits());
    assert!(saving.predicted_expiries * 2 < saving.expiries, "{saving:?}");
    assert_close(saving.predicted_expiries as f64, counted, 0.10);
    assert_close(saving.predicted_exits, sums.all_exits(), 0.10);
}
