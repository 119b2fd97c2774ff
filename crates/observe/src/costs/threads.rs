// SPDX-License-Identifier: GPL-2.0-only
//! Threads that work for a VM beside its vCPUs, from /proc.

use paratick_core::units::{Hz, Nanos};
use std::{collections::BTreeSet, fs, path::Path};

/// Of /proc, on x86.
const USER_HZ: Hz = Hz(100);

/// Linux' flag of a thread that is the kernel's.
const PF_KTHREAD: u32 = 0x0020_0000;

/// Of the kernel's threads: behind it comes a process, or one of its threads.
const PIT: &str = "kvm-pit/";
const VHOST: &str = "vhost-";

/// How the kernel's functions begin in which halted vCPUs sleep.
const HALTED: &str = "kvm_vcpu_";

/// A thread's name has no more bytes.
const LONGEST: usize = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    /// On a CPU, so far.
    pub cpu_ns: u64,
    /// Of that, in user space, in steps of 10 ms.
    pub user_ns: u64,
    /// How often it went to sleep.
    pub slept: u64,
    /// The kernel's function in which it sleeps; none: it does not, or nobody tells.
    pub waits_in: Option<String>,
}

/// What a thread did meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    pub id: u32,
    pub name: String,
    /// How often it was woken.
    pub per_second: f64,
    /// On a CPU, as a share of one.
    pub share: f64,
    /// The kernel's function in which it slept at the end.
    pub waits_in: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    pub own: Vec<Thread>,
    /// The kernel's that work for it: KVM's PIT and, before Linux 6.4, vhost's.
    pub kernel: Vec<Thread>,
}

impl Threads {
    pub fn of(process: u32) -> Threads {
        let own: Vec<Thread> = all(format!("/proc/{process}/task"), |_| true).collect();
        let names = names(process, &own);
        let kernel = all("/proc", |name| names.contains(name));
        let kernel = kernel.filter(|thread| is_kernel_s(thread.id)).collect();
        Threads { own, kernel }
    }

    /// In which KVM emulates the VM's PIT.
    pub fn pit(&self) -> Option<&Thread> {
        self.kernel.iter().find(|thread| thread.name.starts_with(PIT))
    }

    fn all(&self) -> impl Iterator<Item = &Thread> {
        self.own.iter().chain(&self.kernel)
    }

    /// What those of this process and the kernel's did in so many ns, but for its vCPUs; the
    /// busiest first.
    pub fn since(&self, before: &Threads, vcpus: &BTreeSet<u32>, ns: u64) -> Vec<Work> {
        // A vCPU that made no exit is not known as one, but for where it sleeps.
        let halted = |it: &Thread| it.waits_in.as_ref().is_some_and(|at| at.starts_with(HALTED));
        let others = self.all().filter(|one| !vcpus.contains(&one.id) && !halted(one));
        let seconds = ns.max(1) as f64 / 1e9;
        let work = |now: &Thread| {
            let then = before.all().find(|then| then.id == now.id);
            let (cpu_ns, slept) = then.map_or((0, 0), |then| (then.cpu_ns, then.slept));
            let share = now.cpu_ns.saturating_sub(cpu_ns) as f64 / 1e9 / seconds;
            let per_second = now.slept.saturating_sub(slept) as f64 / seconds;
            let (name, waits_in) = (now.name.clone(), now.waits_in.clone());
            Work { id: now.id, name, per_second, share, waits_in }
        };
        let mut works: Vec<Work> = others.map(work).collect();
        works.sort_by(|one, other| other.share.total_cmp(&one.share));
        works
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

/// Those whose names are wanted.
fn all<P: AsRef<Path>>(folder: P, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Thread> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let id = entry.file_name().to_str()?.parse().ok()?;
        let name = read("comm")?.trim_end().to_string();
        if !wanted(&name) {
            return None;
        }
        let thread = of(id, name, &read("stat")?, read("schedstat").as_deref())?;
        let status = read("status")?;
        let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let slept = slept.and_then(|count| count.trim().parse().ok())?;
        let waits_in = read("wchan").filter(|function| !["", "0"].contains(&function.trim()));
        Some(Thread { slept, waits_in, ..thread })
    })
}

/// What the kernel's threads for this process are called: vhost's by the one of its threads that
/// asked for them.
fn names(process: u32, own: &[Thread]) -> BTreeSet<String> {
    let vhost = own.iter().map(|thread| format!("{VHOST}{}", thread.id));
    vhost.chain([format!("{PIT}{process}")]).collect()
}

/// Whoever starts a program may name it so, too.
fn is_kernel_s(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = rest.split_whitespace().nth(6).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// The name in `stat` is in parentheses.
fn of(id: u32, name: String, stat: &str, schedstat: Option<&str>) -> Option<Thread> {
    let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| {
        let ticks = rest.get(place)?.parse().ok()?;
        Some(Nanos::from_clock_ticks(ticks, USER_HZ).0)
    };
    let (user_ns, system_ns) = (ticks(11)?, ticks(12)?);
    let exact = schedstat.and_then(|text| text.split_whitespace().next()?.parse().ok());
    let cpu_ns = exact.unwrap_or(user_ns + system_ns);
    Some(Thread { id, name, cpu_ns, user_ns, slept: 0, waits_in: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    const STAT: &str = "412 (IO) x) S 1 412 412 0 -1 0 0 0 0 0 300 40 0 0 20 0 9 0 4711 8 9 1844";

    #[test]
    fn times_are_read_behind_the_name() {
        let thread = of(1, "IO) x".into(), STAT, Some("3400000007 5 6\n")).unwrap();
        assert_eq!((thread.user_ns, thread.cpu_ns), (3_000_000_000, 3_400_000_007));
        assert_eq!(of(1, String::new(), STAT, None).unwrap().cpu_ns, 3_400_000_000);
        assert_eq!(of(1, String::new(), "412 (x", None), None);
    }

    #[test]
    fn an_iothread_is_known_by_its_name_if_no_other_has_it() {
        let thread = |name: &str| of(1, name.into(), STAT, None).unwrap();
        let own = ["IO io0", "IO a-long-name-", "IO a-long-name-"].map(thread).into();
        let threads = Threads { own, kernel: Vec::new() };
        assert!(threads.iothread("io0").is_some() && threads.iothread("io").is_none());
        assert!(threads.iothread("a-long-name-1").is_none());
    }

    #[test]
    fn work_is_what_came_since_and_no_vcpu_s() {
        let thread = |id, seconds: u64, slept| {
            let thread = of(id, id.to_string(), STAT, None).unwrap();
            Thread { cpu_ns: seconds * 1_000_000_000, slept, ..thread }
        };
        let before = Threads { own: vec![thread(1, 5, 100), thread(2, 5, 0)], kernel: vec![] };
        let halted = Thread { waits_in: Some("kvm_vcpu_block".into()), ..thread(5, 9, 9) };
        let own = [thread(1, 6, 140), thread(2, 7, 9), thread(3, 0, 3), thread(4, 2, 0), halted];
        let now = Threads { own: own.into(), kernel: vec![thread(9, 0, 4000)] };
        let works = now.since(&before, &BTreeSet::from([2]), 2_000_000_000);
        let works: Vec<_> = works.iter().map(|one| (one.id, one.share, one.per_second)).collect();
        assert_eq!(works, [(4, 1.0, 0.0), (1, 0.5, 20.0), (3, 0.0, 1.5), (9, 0.0, 2000.0)]);
    }

    #[test]
    fn the_kernel_s_threads_are_named_by_the_process_or_a_thread_of_it() {
        let own = [7, 9].map(|id| of(id, "CPU 0/KVM".into(), STAT, None).unwrap());
        let names: Vec<_> = names(7, &own).into_iter().collect();
        assert_eq!(names, ["kvm-pit/7", "vhost-7", "vhost-9"]);
        // kthreadd, where this sees it: a container has its own first processes.
        let is_kthreadd = fs::read_to_string("/proc/2/comm").is_ok_and(|it| it == "kthreadd\n");
        assert_eq!(is_kernel_s(2), is_kthreadd);
    }

    /// Nor does a program become one by its name.
    #[test]
    fn this_process_has_threads_and_none_of_the_kernel_s() {
        let named = format!("{VHOST}{}", std::process::id());
        let script = format!("echo {named} >/proc/self/comm; echo; read end");
        let mut child = Command::new("sh");
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let is = |name: &str| name == named;
        assert_eq!(all("/proc", is).map(|thread| thread.id).collect::<Vec<_>>(), [child.id()]);
        let threads = Threads::of(std::process::id());
        assert!(!threads.own.is_empty() && threads.kernel.is_empty() && threads.pit().is_none());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
