// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of several VMs, of which some are asked for.

use std::collections::{BTreeMap, BTreeSet};

/// What was recorded of vCPUs, each by the process of its VM and its number there.
pub trait OfVms {
    fn vcpus(&self) -> BTreeSet<(u32, u32)>;

    /// Leaves out what is not of these.
    fn only(&mut self, has: impl Fn(u32, u32) -> bool);

    /// Those of processes that run a VM with a name.
    fn names(&self) -> &BTreeMap<u32, String>;

    fn set_names(&mut self, names: BTreeMap<u32, String>);

    /// A VM, by its name where it has one.
    fn name(&self, process: u32) -> String {
        match self.names().get(&process) {
            Some(name) => format!("{name} (pid {process})"),
            None => format!("pid {process}"),
        }
    }
}
