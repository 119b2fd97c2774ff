// SPDX-License-Identifier: GPL-2.0-only
//! What one can turn against noise, and the kernel parameters that turn it.

use serde::{Serialize, Serializer};
use std::{collections::BTreeSet, fmt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Knob {
    GuestTicks,
    GuestClock,
    GuestIpis,
    GuestInterrupts,
    GuestThreads,
    HostTicks,
    HostSlices,
    HostDevices,
    HostWorkers,
    HostTasks,
    Quota,
    HaltPolling,
}

impl Knob {
    pub fn text(self) -> &'static str {
        match self {
            Knob::GuestTicks => "guest: nohz_full= on CPUs with one task",
            Knob::GuestClock => {
                "guest: its local APIC's timer and the TSC in place of that device \
                 (clocksource=tsc and tsc=nowatchdog; no nolapic, nolapic_timer or \
                 lapic=notscdeadline)"
            }
            Knob::GuestIpis => "guest: isolcpus= and rcu_nocbs= on the CPU that sends it",
            Knob::GuestInterrupts => "guest: irqaffinity= to other CPUs",
            Knob::GuestThreads => "guest: isolcpus=domain,…",
            Knob::HostTicks => "host: nohz_full= on the vCPUs' pCPUs",
            Knob::HostSlices => "host: NO_HRTICK in /sys/kernel/debug/sched/features",
            Knob::HostDevices => "host: irqaffinity= away from the vCPUs' pCPUs",
            Knob::HostWorkers => "host: /sys/devices/virtual/workqueue/cpumask",
            Knob::HostTasks => "host: isolcpus=domain,managed_irq,… and pinned vCPUs",
            Knob::Quota => "host: cpu.max of the VM's cgroup",
            Knob::HaltPolling => "host: kvm.halt_poll_ns (paratick halts says how much)",
        }
    }

    /// The kernel parameters of the guest that turn it.
    fn of_guest(self) -> &'static [Parameter] {
        use Parameter::*;
        match self {
            Knob::GuestTicks => &[NohzFull],
            Knob::GuestIpis => &[Domain, RcuNocbs],
            Knob::GuestInterrupts => &[IrqAffinity],
            Knob::GuestThreads => &[Domain],
            _ => &[],
        }
    }

    /// Those of the host.
    fn of_host(self) -> &'static [Parameter] {
        use Parameter::*;
        match self {
            Knob::HostTicks => &[NohzFull],
            Knob::HostDevices => &[IrqAffinity],
            Knob::HostWorkers => &[Domain],
            Knob::HostTasks => &[Domain, ManagedIrq],
            _ => &[],
        }
    }

    /// Whether only a guest can tell that it ends what it is to end: programs send IPIs, too.
    pub fn needs_the_guest(self) -> bool {
        self == Knob::GuestIpis
    }

    /// Whether kernel parameters turn it.
    pub fn is_turned_by_a_boot(self) -> bool {
        !(self.of_guest().is_empty() && self.of_host().is_empty())
    }
}

/// Kernel parameters that turn a guest's knobs for `cpus`, a list as the kernel reads it.
pub fn guest_parameters(knobs: &[Knob], cpus: &str) -> Vec<String> {
    parameters(knobs.iter().flat_map(|knob| knob.of_guest()).copied().collect(), cpus)
}

/// The same of its host, whose vCPUs run on `cpus`.
pub fn host_parameters(knobs: &[Knob], cpus: &str) -> Vec<String> {
    parameters(knobs.iter().flat_map(|knob| knob.of_host()).copied().collect(), cpus)
}

fn parameters(wanted: BTreeSet<Parameter>, cpus: &str) -> Vec<String> {
    let has = |one| wanted.contains(&one);
    let flags = [(Parameter::ManagedIrq, "managed_irq,"), (Parameter::Domain, "domain,")];
    let flags: String = flags.iter().filter(|(one, _)| has(*one)).map(|(_, flag)| *flag).collect();
    let given = [
        (!flags.is_empty(), format!("isolcpus={flags}{cpus}")),
        (has(Parameter::NohzFull), format!("nohz_full={cpus}")),
        (has(Parameter::RcuNocbs), format!("rcu_nocbs={cpus}")),
        (has(Parameter::IrqAffinity), "irqaffinity=0".to_string()),
    ];
    given.into_iter().filter(|(is, _)| *is).map(|(_, parameter)| parameter).collect()
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Knob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// CPU 0 is for the housekeeping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parameter {
    Domain,
    ManagedIrq,
    NohzFull,
    RcuNocbs,
    IrqAffinity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_of_a_side_come_together_and_leave_the_other_side_alone() {
        let knobs = [Knob::GuestThreads, Knob::GuestIpis, Knob::GuestTicks, Knob::HostTasks];
        let guest = ["isolcpus=domain,1-2", "nohz_full=1-2", "rcu_nocbs=1-2"];
        assert_eq!(guest_parameters(&knobs, "1-2"), guest);
        assert_eq!(host_parameters(&knobs, "1-3"), ["isolcpus=managed_irq,domain,1-3"]);
        assert!(host_parameters(&knobs[..3], "1-3").is_empty());
        assert_eq!(host_parameters(&[Knob::HostDevices], "1"), ["irqaffinity=0"]);
    }

    #[test]
    fn what_no_kernel_parameter_turns_has_none() {
        for knob in [Knob::GuestClock, Knob::Quota, Knob::HaltPolling] {
            assert!(!knob.is_turned_by_a_boot(), "{knob}");
        }
        assert!(Knob::HostTicks.is_turned_by_a_boot() && Knob::GuestIpis.is_turned_by_a_boot());
    }
}
