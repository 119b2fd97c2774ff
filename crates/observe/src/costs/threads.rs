// SPDX-License-Identifier: GPL-2.0-only
//! Threads that work for a VM beside its vCPUs, from /proc.

use paratick_core::units::{Hz, Nanos};
use std::{fs, path::Path};

/// Of /proc, on x86.
const USER_HZ: Hz = Hz(100);

/// A thread's name has no more bytes.
const LONGEST: usize = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub name: String,
    /// On a CPU, so far.
    pub cpu_ns: u64,
    /// Of that, in user space, in steps of 10 ms.
    pub user_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    pub own: Vec<Thread>,
    /// In which KVM emulates the VM's PIT.
    pub pit: Option<Thread>,
}

impl Threads {
    pub fn of(process: u32) -> Threads {
        let own = all(format!("/proc/{process}/task")).collect();
        let pit = all("/proc").find(|thread| thread.name == format!("kvm-pit/{process}"));
        Threads { own, pit }
    }

    /// As QEMU names the threads of its objects; none where it does not.
    pub fn iothread(&self, id: &str) -> Option<&Thread> {
        let name = format!("IO {id}");
        let name = name.get(..LONGEST).unwrap_or(&name);
        let mut those = self.own.iter().filter(|thread| thread.name == name);
        // Of two that are called so, nobody tells which is which.
        those.next().filter(|_| those.next().is_none())
    }
}

fn all(folder: impl AsRef<Path>) -> impl Iterator<Item = Thread> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let name = read("comm")?.trim_end().to_string();
        of(name, &read("stat")?, read("schedstat").as_deref())
    })
}

/// The name in `stat` is in parentheses.
fn of(name: String, stat: &str, schedstat: Option<&str>) -> Option<Thread> {
    let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| {
        let ticks = rest.get(place)?.parse().ok()?;
        Some(Nanos::from_clock_ticks(ticks, USER_HZ).0)
    };
    let (user_ns, system_ns) = (ticks(11)?, ticks(12)?);
    let exact = schedstat.and_then(|text| text.split_whitespace().next()?.parse().ok());
    Some(Thread { name, cpu_ns: exact.unwrap_or(user_ns + system_ns), user_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "412 (IO) x) S 1 412 412 0 -1 0 0 0 0 0 300 40 0 0 20 0 9 0 4711 8 9 1844";

    #[test]
    fn times_are_read_behind_the_name() {
        let thread = of("IO) x".into(), STAT, Some("3400000007 5 6\n")).unwrap();
        assert_eq!((thread.user_ns, thread.cpu_ns), (3_000_000_000, 3_400_000_007));
        assert_eq!(of(String::new(), STAT, None).unwrap().cpu_ns, 3_400_000_000);
        assert_eq!(of(String::new(), "412 (x", None), None);
    }

    #[test]
    fn an_iothread_is_known_by_its_name_if_no_other_has_it() {
        let thread = |name: &str| of(name.into(), STAT, None).unwrap();
        let own = ["IO io0", "IO a-long-name-", "IO a-long-name-"].map(thread).into();
        let threads = Threads { own, pit: None };
        assert!(threads.iothread("io0").is_some() && threads.iothread("io").is_none());
        assert!(threads.iothread("a-long-name-1").is_none());
    }

    #[test]
    fn this_process_has_threads_and_no_pit() {
        let threads = Threads::of(std::process::id());
        assert!(!threads.own.is_empty() && threads.pit.is_none());
    }
}
