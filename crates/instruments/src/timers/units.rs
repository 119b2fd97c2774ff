// SPDX-License-Identifier: GPL-2.0-only
//! Which of systemd's units a process is part of, by its control group.

use paratick_core::wakeups::{Event, What};
use std::{collections::BTreeMap, fs};

/// How the names of units that have processes end (systemd.unit(5)).
const KINDS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// Gives each process that started a timer, and still runs, the name of its unit.
pub(super) fn name(events: &mut [Event]) {
    let mut known: BTreeMap<u32, Option<String>> = BTreeMap::new();
    for event in events {
        let What::Expiry { timer, .. } = &mut event.what else { continue };
        let Some(process) = &mut timer.process else { continue };
        let Some(pid) = process.pid else { continue };
        let unit = known.entry(pid).or_insert_with(|| {
            fs::read_to_string(format!("/proc/{pid}/cgroup")).ok().and_then(|text| of(&text))
        });
        process.unit = unit.clone();
    }
}

/// Of the lines of /proc/PID/cgroup, the innermost unit (cgroups(7)).
fn of(lines: &str) -> Option<String> {
    // Of several hierarchies, version 2's has number 0, and version 1's for systemd its name.
    let paths = lines.lines().filter_map(|line| {
        let (hierarchy, path) = line.split_once(':')?.1.split_once(':')?;
        (hierarchy.is_empty() || hierarchy == "name=systemd").then_some(path)
    });
    let units = paths.filter_map(|path| {
        path.rsplit('/').find(|part| KINDS.iter().any(|kind| part.ends_with(kind)))
    });
    units.map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_unit_of_a_control_group_is_its_process_s() {
        assert_eq!(of("0::/system.slice/cron.service\n").as_deref(), Some("cron.service"));
        let nested = "0::/user.slice/user-0.slice/user@0.service/app.slice/a.service/inner\n";
        assert_eq!(of(nested).as_deref(), Some("a.service"));
        let old = "12:cpu:/x.service\n1:name=systemd:/system.slice/dbus.service\n0::/\n";
        assert_eq!(of(old).as_deref(), Some("dbus.service"));
        assert_eq!(of("0::/\n"), None);
    }
}
