// SPDX-License-Identifier: GPL-2.0-only
//! What costs a VM beside its exits: polls, quotas, and iothreads.

use super::{free, limits::Quota, machine::Iothread, unknown, Cost, Limits, Seen};

/// Of one CPU: the time in user space has steps of 10 ms.
const LEAST_OF_IOTHREAD: f64 = 0.01;

impl Seen {
    pub fn polling(&self) -> Cost {
        let what = "polling in vain";
        let maximum = match self.halt_poll_ns {
            Some(ns) => format!("halt_poll_ns is {ns}"),
            None => "halt_poll_ns is not known".into(),
        };
        let Some((before, after)) = self.before.polls.zip(self.after.polls) else {
            return unknown(what, format!("{maximum}; debugfs does not tell of polls"));
        };
        let [good, vain] = [after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)]
            .map(|ns| self.vm.share(ns));
        let cost = self.cost(what, 0.0, vain);
        Cost { per_second: None, ..cost }
            .found(format!("{maximum}; polls that found work: {:.1} % of a CPU", good * 100.0))
            .mend(
                "echo 0 >/sys/module/kvm/parameters/halt_poll_ns, for all VMs: wake-ups take \
                 longer; `paratick halts` weighs both",
            )
    }

    /// One for each group that has a quota.
    pub fn quotas(&self) -> Vec<Cost> {
        let what = "quota";
        let Some((before, after)) = self.before.quotas.as_ref().zip(self.after.quotas.as_ref())
        else {
            let why = "no cgroups of version 2 with the controller cpu at /sys/fs/cgroup";
            return vec![unknown(what, why)];
        };
        if after.is_empty() {
            return vec![free(what, "no group of its threads has one")];
        }
        let none = Quota::default();
        let groups = after.iter().map(|(group, now)| {
            let then = before.get(group).unwrap_or(&none);
            let times = now.throttled.saturating_sub(then.throttled);
            let us = now.throttled_us.saturating_sub(then.throttled_us);
            self.cost(what, self.vm.per_second(times), self.vm.share(us * 1000))
                .found(format!("{group}: cpu.max is {}", now.max))
                .mend(format!("echo max >/sys/fs/cgroup{group}/cpu.max"))
        });
        groups.collect()
    }

    /// One for each, as far as it computes itself: there it polls.
    pub fn iothreads(&self) -> Vec<Cost> {
        let what = "iothread";
        let iothreads = self.machine.iter().flat_map(|machine| &machine.iothreads);
        let cost = |iothread: &Iothread| {
            let (id, poll) = (&iothread.id, iothread.poll_max_ns);
            let user_ns = |limits: &Limits| limits.threads.iothread(id).map(|t| t.user_ns);
            let Some((before, after)) = user_ns(&self.before).zip(user_ns(&self.after)) else {
                return unknown(what, format!("{id}: no thread is named so (debug-threads=on)"));
            };
            let share = self.vm.share(after.saturating_sub(before));
            if poll == 0 || share < LEAST_OF_IOTHREAD {
                let cost = Cost { share: Some(share), ..free(what, "") };
                return cost.found(format!("{id}: poll-max-ns is {poll}"));
            }
            let cost = self.cost(what, 0.0, share);
            Cost { per_second: None, ..cost }
                .found(format!("{id}: poll-max-ns is {poll}; its time in user space"))
                .mend(format!(
                    "QEMU: -object iothread,id={id},poll-max-ns=0; at once, in its monitor: \
                     qom-set /objects/{id} poll-max-ns 0"
                ))
        };
        iothreads.map(cost).collect()
    }
}
