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
#[serde(from = "Written", into = "Written")]
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
    /// Of a recording that does not tell where its time went: the parts above are not known.
    pub unplaced_ns: Option<u64>,
    /// Exits by their length; the last buckets are left out where they are empty.  One that has not
    /// ended yet is in none.
    pub lengths: Vec<u64>,
}

/// In a file: a part that is not known is none.
#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    kvm_ns: Option<u64>,
    vmm_ns: Option<u64>,
    interrupts_ns: Option<u64>,
    blocked_ns: Option<u64>,
    steal_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unplaced_ns: Option<u64>,
    lengths: Vec<u64>,
}

impl From<Spent> for Written {
    fn from(spent: Spent) -> Written {
        let part = |ns| spent.unplaced_ns.is_none().then_some(ns);
        Written {
            count: spent.count,
            kvm_ns: part(spent.kvm_ns),
            vmm_ns: part(spent.vmm_ns),
            interrupts_ns: part(spent.interrupts_ns),
            blocked_ns: part(spent.blocked_ns),
            steal_ns: part(spent.steal_ns),
            unplaced_ns: spent.unplaced_ns,
            lengths: spent.lengths,
        }
    }
}

impl From<Written> for Spent {
    fn from(file: Written) -> Spent {
        let times = [file.kvm_ns, file.vmm_ns, file.interrupts_ns, file.blocked_ns, file.steal_ns];
        let is_known = times.iter().all(Option::is_some);
        let [kvm_ns, vmm_ns, interrupts_ns, blocked_ns, steal_ns] = times.map(|ns| ns.unwrap_or(0));
        let unplaced_ns = file.unplaced_ns.or((!is_known).then_some(0));
        let Written { count, lengths, .. } = file;
        Spent { count, kvm_ns, vmm_ns, interrupts_ns, blocked_ns, steal_ns, unplaced_ns, lengths }
    }
}

impl Spent {
    pub fn ns(&self) -> u64 {
        self.cpu_ns() + self.blocked_ns + self.steal_ns + self.unplaced_ns.unwrap_or(0)
    }

    /// An exit that ended so long after its begin.
    pub fn add_length(&mut self, ns: u64) {
        let bucket = (ns >> (FIRST_END - 1)).checked_ilog2().unwrap_or(0) as usize;
        let bucket = bucket.min(BUCKETS - 1);
        self.lengths.resize(self.lengths.len().max(bucket + 1), 0);
        self.lengths[bucket] += 1;
    }

    /// What the host's CPUs did for it.
    pub fn cpu_ns(&self) -> u64 {
        self.kvm_ns + self.vmm_ns + self.interrupts_ns
    }

    /// Of a recording, of those that ended; none where no time is known.
    pub fn mean_ns(&self) -> Option<u64> {
        let count = match self.unplaced_ns {
            None => self.count,
            Some(_) => self.lengths.iter().sum(),
        };
        self.ns().checked_div(count).filter(|_| self.ns() > 0)
    }

    /// Whether it is known where the time went.
    pub fn is_placed(&self) -> bool {
        self.unplaced_ns.is_none() && self.ns() > 0
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
        if let Some(ns) = more.unplaced_ns {
            *self.unplaced_ns.get_or_insert(0) += ns;
        }
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
            unplaced_ns: self
                .unplaced_ns
                .map(|ns| ns.saturating_sub(earlier.unplaced_ns.unwrap_or(0))),
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

    #[test]
    fn a_mean_is_of_those_whose_time_is_known() {
        let spent = |count, kvm_ns, unplaced_ns, lengths: &[u64]| {
            let lengths = lengths.to_vec();
            Spent { count, kvm_ns, unplaced_ns, lengths, ..Spent::default() }
        };
        let live = spent(4, 400, None, &[3]);
        assert_eq!((live.mean_ns(), live.is_placed()), (Some(100), true));
        let recorded = spent(4, 0, Some(390), &[3]);
        assert_eq!((recorded.mean_ns(), recorded.is_placed()), (Some(130), false));
        let without_entry = spent(1, 0, Some(0), &[]);
        assert_eq!((without_entry.mean_ns(), without_entry.is_placed()), (None, false));
    }

    #[test]
    fn a_part_that_is_not_known_is_null_in_a_file() {
        let live = Spent { count: 4, kvm_ns: 400, ..Spent::default() };
        let recorded = Spent { count: 4, unplaced_ns: Some(390), ..Spent::default() };
        let untimed = Spent { unplaced_ns: Some(0), ..recorded.clone() };
        for (spent, kvm_ns, blocked_ns) in
            [(&live, Some(400), Some(0)), (&recorded, None, None), (&untimed, None, None)]
        {
            let file = serde_json::to_value(spent).unwrap();
            assert_eq!(
                (file["kvm_ns"].as_u64(), file["blocked_ns"].as_u64()),
                (kvm_ns, blocked_ns)
            );
            assert_eq!(serde_json::from_value::<Spent>(file).unwrap(), *spent);
        }
        let mut all = untimed.clone();
        all += &recorded;
        assert_eq!((all.unplaced_ns, (&all - &recorded).unplaced_ns), (Some(390), Some(0)));
    }

    #[test]
    fn a_length_is_below_the_end_of_its_bucket_and_not_below_the_last_one_s() {
        for (ns, bound) in [(0, 128), (127, 128), (128, 256), (255, 256), (256, 512)] {
            let mut spent = Spent::default();
            spent.add_length(ns);
            assert_eq!(spent.at_most(0.99), Some(Bound::AtMost(bound)), "{ns}");
        }
        let mut spent = Spent::default();
        spent.add_length(u64::MAX);
        assert_eq!(spent.at_most(0.99), Some(Bound::Above(1 << 37)));
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
            unplaced_ns: None,
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
