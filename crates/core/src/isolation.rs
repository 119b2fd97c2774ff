// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs are kept free of everything but the work: the tuning of a thesis of 2023 (section
//! 4.3.2), on the host, in the guest, or on both.

use serde::{Deserialize, Serialize};

/// Which CPUs are kept free of all but the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Isolation {
    /// Everything may run anywhere, vCPUs too.
    None,
    /// Each vCPU has a pCPU of its own, from 1 on, which the host keeps free.
    Host,
    /// The guest keeps its CPUs from 1 on free.
    Guest,
    /// Both sides do.
    Both,
}

impl Isolation {
    pub const ALL: [Isolation; 4] = {
        use Isolation::*;
        [None, Host, Guest, Both]
    };

    pub fn of_host(self) -> bool {
        matches!(self, Isolation::Host | Isolation::Both)
    }

    pub fn of_guest(self) -> bool {
        matches!(self, Isolation::Guest | Isolation::Both)
    }

    /// The isolated CPUs of a host for a guest of `vcpus`, as the kernel lists them.
    pub fn host_cpus(self, vcpus: u32) -> Option<String> {
        self.of_host().then(|| pcpus(vcpus))
    }

    /// The same of the guest.
    pub fn guest_cpus(self, vcpus: u32) -> Option<String> {
        self.of_guest().then(|| sampled(vcpus))
    }

    /// Kernel parameters of the host.
    pub fn host_parameters(self, vcpus: u32) -> Vec<String> {
        self.host_cpus(vcpus).map_or(Vec::new(), |cpus| parameters(&cpus))
    }

    pub fn guest_parameters(self, vcpus: u32) -> Vec<String> {
        self.guest_cpus(vcpus).map_or(Vec::new(), |cpus| parameters(&cpus))
    }
}

/// Those of a host on which a guest's vCPUs are pinned, each on one of its own.
pub fn pcpus(vcpus: u32) -> String {
    list(1, vcpus)
}

/// The guest's CPUs that osnoise samples, isolated or not: all but the one for its housekeeping.
pub fn sampled(vcpus: u32) -> String {
    list(1, vcpus.saturating_sub(1))
}

/// No task is put there, no timer or RCU callback has to run there, no interrupt goes there; and
/// kernel threads go with `nohz_full`.
fn parameters(cpus: &str) -> Vec<String> {
    vec![
        format!("isolcpus=managed_irq,domain,{cpus}"),
        format!("nohz_full={cpus}"),
        format!("rcu_nocbs={cpus}"),
        "irqaffinity=0".into(),
    ]
}

fn list(first: u32, last: u32) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_have_isolated_pcpus_and_the_guest_keeps_one_for_itself() {
        assert_eq!(Isolation::Both.host_cpus(3).as_deref(), Some("1-3"));
        assert_eq!(Isolation::Both.guest_cpus(3).as_deref(), Some("1-2"));
        assert_eq!(Isolation::Guest.guest_cpus(2).as_deref(), Some("1"));
        assert_eq!((Isolation::Guest.host_cpus(3), Isolation::Host.guest_cpus(3)), (None, None));
    }

    #[test]
    fn only_the_side_that_is_isolated_gets_parameters() {
        for isolation in Isolation::ALL {
            assert_eq!(isolation.of_host(), !isolation.host_parameters(3).is_empty());
            assert_eq!(isolation.of_guest(), !isolation.guest_parameters(3).is_empty());
            assert_eq!(isolation.to_string().parse(), Ok(isolation));
        }
        let both = Isolation::Both.guest_parameters(3);
        assert!(both.contains(&"nohz_full=1-2".to_string()), "{both:?}");
    }
}
