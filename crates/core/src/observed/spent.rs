// SPDX-License-Identifier: GPL-2.0-only
//! How many exits of one kind there were, and where their time went.

use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Sub};

/// Each bucket ends at twice the last one's end, the first at 128 ns (bpf/vcpu.h).
const FIRST_END: u32 = 7;
/// The last one has no end.
const BUCKETS: usize = 32;

/// From exits to the entries after them; the parts of the time are disjoint, and all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    pub count: u64,
    /// In the kernel.
    pub kvm_ns: u64,
    /// In the VMM, outside KVM_RUN.
    pub vmm_ns: u64,
    /// The host's interrupts and softirqs, in the vCPU's context.
    pub interrupts_ns: u64,
    /// The thread slept: the guest had nothing to do, or the VMM waited.
    pub blocked_ns: u64,
    /// It could have run, and another one did.
    pub steal_ns: u64,
    /// Exits by their length; the last buckets are left out where they are empty.  One that has not
    /// ended yet is in none.
    pub lengths: Vec<u64>,
}

impl Spent {
    pub fn ns(&self) -> u64 {
        self.cpu_ns() + self.blocked_ns + self.steal_ns
    }

    /// What the host's CPUs did for it.
    pub fn cpu_ns(&self) -> u64 {
        self.kvm_ns + self.vmm_ns + self.interrupts_ns
    }

    pub fn mean_ns(&self) -> Option<u64> {
        self.ns().checked_div(self.count)
    }

    /// A time that this share of the exits did not exceed: the end of a bucket, which may be twice
    /// of what it would be exactly.
    pub fn at_most(&self, share: f64) -> Option<Bound> {
        let all: u64 = self.lengths.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.lengths.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(match bucket + 1 < BUCKETS {
            true => Bound::AtMost(1 << (bucket as u32 + FIRST_END)),
            false => Bound::Above(1 << (bucket as u32 + FIRST_END - 1)),
        })
    }
}

/// In ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtMost(u64),
    Above(u64),
}

impl AddAssign<&Spent> for Spent {
    fn add_assign(&mut self, more: &Spent) {
        self.count += more.count;
        self.kvm_ns += more.kvm_ns;
        self.vmm_ns += more.vmm_ns;
        self.interrupts_ns += more.interrupts_ns;
        self.blocked_ns += more.blocked_ns;
        self.steal_ns += more.steal_ns;
        self.lengths.resize(self.lengths.len().max(more.lengths.len()), 0);
        for (length, more) in self.lengths.iter_mut().zip(&more.lengths) {
            *length += more;
        }
    }
}

/// What came since an earlier look.
impl Sub for &Spent {
    type Output = Spent;

    fn sub(self, earlier: &Spent) -> Spent {
        let before = |at: usize| earlier.lengths.get(at).copied().unwrap_or(0);
        let lengths = self.lengths.iter().enumerate();
        Spent {
            count: self.count.saturating_sub(earlier.count),
            kvm_ns: self.kvm_ns.saturating_sub(earlier.kvm_ns),
            vmm_ns: self.vmm_ns.saturating_sub(earlier.vmm_ns),
            interrupts_ns: self.interrupts_ns.saturating_sub(earlier.interrupts_ns),
            blocked_ns: self.blocked_ns.saturating_sub(earlier.blocked_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            lengths: lengths.map(|(at, now)| now.saturating_sub(before(at))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percentile_is_the_end_of_its_bucket() {
        let spent = Spent { lengths: vec![0, 98, 0, 1, 1], ..Spent::default() };
        assert_eq!(spent.at_most(0.5), Some(Bound::AtMost(256)));
        assert_eq!(spent.at_most(0.99), Some(Bound::AtMost(1024)));
        assert_eq!(spent.at_most(1.0), Some(Bound::AtMost(2048)));
        assert_eq!(Spent::default().at_most(0.99), None);
        let mut lengths = vec![0; BUCKETS];
        lengths[BUCKETS - 1] = 1;
        let long = Spent { lengths, ..Spent::default() };
        assert_eq!(long.at_most(0.99), Some(Bound::Above(1 << 37)));
    }

    fn any_spent() -> impl Strategy<Value = Spent> {
        let parts = prop::array::uniform5(0u64..1 << 40);
        let lengths = prop::collection::vec(0u64..1000, 0..BUCKETS);
        (0u64..1 << 40, parts, lengths).prop_map(|(count, [a, b, c, d, e], lengths)| Spent {
            count,
            kvm_ns: a,
            vmm_ns: b,
            interrupts_ns: c,
            blocked_ns: d,
            steal_ns: e,
            lengths,
        })
    }

    proptest! {
        #[test]
        fn what_was_added_is_what_came_since(before in any_spent(), more in any_spent()) {
            let mut after = before.clone();
            after += &more;
            prop_assert_eq!(after.ns(), before.ns() + more.ns());
            let since = &after - &before;
            prop_assert_eq!(since.ns(), more.ns());
            prop_assert_eq!(since.count, more.count);
            prop_assert_eq!(since.lengths.iter().sum::<u64>(), more.lengths.iter().sum::<u64>());
        }
    }
}
