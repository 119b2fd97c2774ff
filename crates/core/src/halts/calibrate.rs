// SPDX-License-Identifier: GPL-2.0-only
//! What it costs to wake up from a block.

use super::recording::Halts;

/// Fewer halts say too little.
const LEAST: usize = 10;

/// How long it took to wake up, in ns: from when a blocked vCPU's thread was woken to the end of
/// the halt, in half of all blocks at most.  None without enough of them.
///
/// A poll would have seen the end as early as the thread was woken.  What it takes to switch the
/// thread out is not in it.
pub fn calibrate(halts: &Halts) -> Option<u32> {
    let all = halts.vcpus.iter().flat_map(|vcpu| &vcpu.halts).filter(|halt| halt.waited);
    let mut late: Vec<u64> = all.filter_map(|halt| halt.ns.checked_sub(halt.woken_ns?)).collect();
    late.sort_unstable();
    let median = late.get(late.len() / 2).filter(|_| late.len() >= LEAST)?;
    u32::try_from(*median).ok().filter(|cost| *cost > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halts::{Halt, Side, VcpuHalts};

    fn recorded(halts: Vec<Halt>) -> Halts {
        let (side, rule) = (Side::Host, None);
        let vcpu = VcpuHalts { side, rule, halts, ..VcpuHalts::default() };
        Halts { window_ns: 1_000_000, vcpus: vec![vcpu], ..Halts::default() }
    }

    #[test]
    fn a_block_costs_what_it_takes_to_wake_up() {
        let woken =
            |late_ns: u64| Halt { woken_ns: Some(50_000), ..Halt::blocked(0, 50_000 + late_ns) };
        let halts: Vec<Halt> = (1..=20).map(|nth| woken(nth * 1000)).collect();
        assert_eq!(calibrate(&recorded(halts.clone())), Some(11_000));
        assert_eq!(calibrate(&recorded(halts[..9].to_vec())), None);
        assert_eq!(calibrate(&recorded(vec![Halt::blocked(0, 50_000); 20])), None);
    }
}
