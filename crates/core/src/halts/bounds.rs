// SPDX-License-Identifier: GPL-2.0-only
//! What was traced of a VM's halts says of its maximum, where nobody could read it.

use super::{
    maximum::Maximum,
    recording::{Halt, Traced, VcpuHalts},
    rule::{HostRule, Rule},
};

/// From the halts of all vCPUs of a VM, if the module had this rule all the time.
///
/// A limit in force is at most the maximum.  It grows only after halts below the maximum, and
/// shrinks only after those above it.  Where it stops short of what it would grow to, that is the
/// maximum.
pub fn traced_maximum<'a>(vcpus: impl IntoIterator<Item = &'a VcpuHalts>, module: Rule) -> Maximum {
    let Rule::Host(module) = module else { return Maximum::Unknown };
    let mut bounds = Bounds { least: 0, most: u64::MAX };
    for vcpu in vcpus {
        let mut grown = None;
        for halt in &vcpu.halts {
            bounds.meet(halt, grown, &module);
            grown = halt.traced.map(|traced| traced.new).or(halt.limit_ns).or(grown);
        }
    }
    bounds.beside(module.max)
}

struct Bounds {
    least: u64,
    most: u64,
}

impl Bounds {
    /// `grown` is the limit after the halt before, as far as that is known.
    fn meet(&mut self, halt: &Halt, grown: Option<u32>, module: &HostRule) {
        if let Some(limit) = halt.traced.map(|traced| traced.old).or(halt.limit_ns) {
            self.least = self.least.max(limit.into());
            if limit > 0 && grown.is_some_and(|grown| limit < grown) {
                self.most = self.most.min(limit.into());
            }
        }
        // After a wake-up that is none, the limit shrinks however long the halt was.
        let Some(Traced { old, new }) = halt.traced.filter(|_| halt.valid) else { return };
        if new > old {
            self.least = self.least.max(halt.ns.saturating_add(1)).max(u64::from(old) + 1);
            // Kernels before 5.17 trace what was cut off.
            if new < old.wrapping_mul(module.grow).max(module.grow_start) {
                self.least = self.least.max(new.into());
                self.most = self.most.min(new.into());
            }
        }
        if new < old {
            self.most = self.most.min(halt.ns.saturating_sub(1));
        }
    }

    /// What they say where the module has this maximum.
    fn beside(&self, module: u32) -> Maximum {
        let fits = (self.least..=self.most).contains(&module.into());
        // Where they exclude each other, it was changed meanwhile.
        if fits || self.least > self.most {
            return Maximum::Unknown;
        }
        match u32::try_from(self.least) {
            Ok(least) => Maximum::Traced { least, most: u32::try_from(self.most).ok() },
            Err(_) => Maximum::Unknown,
        }
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
