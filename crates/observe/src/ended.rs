// SPDX-License-Identifier: GPL-2.0-only
//! VMs that have ended: the last of them each by itself, and those before as a sum.  Pure.

use paratick_core::observed::{Exits, Vm};

/// So many are kept apart.
const KEPT: usize = 1_000;

#[derive(Default)]
pub struct Ended {
    /// In the order in which they ended.
    vms: Vec<Vm>,
    sum: Option<Vm>,
    summed: u64,
}

impl Ended {
    pub fn push(&mut self, vm: Vm) {
        self.vms.push(vm);
        if self.vms.len() > KEPT {
            let vm = self.vms.remove(0);
            self.summed += 1;
            match &mut self.sum {
                Some(sum) => add(sum, vm),
                None => self.sum = Some(Vm { process: 0, others: Vec::new(), ..vm }),
            }
            if let Some(sum) = &mut self.sum {
                sum.name = format!("{} that ended earlier", self.summed);
            }
        }
    }

    pub fn into_vms(self) -> Vec<Vm> {
        self.vms.into_iter().chain(self.sum).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Vm> {
        self.vms.iter().chain(&self.sum)
    }

    /// How many are only in the sum.
    pub fn summed(&self) -> u64 {
        self.summed
    }
}

/// The time of a sum is that of all its VMs together.
fn add(sum: &mut Vm, vm: Vm) {
    sum.ns += vm.ns;
    sum.lost += vm.lost;
    for more in vm.exits {
        let same = |one: &&mut Exits| one.vcpu == more.vcpu && one.kind == more.kind;
        match sum.exits.iter_mut().find(same) {
            Some(one) => one.spent += &more.spent,
            None => sum.exits.push(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::{
        cause::Cause,
        observed::{Kind, Spent},
    };

    fn vm(process: u32) -> Vm {
        // An odd one halts, an even one arms.
        let cause = if process % 2 == 0 { Cause::Arm } else { Cause::Halt };
        let kind = Kind { cause, reason: "r".into(), about: None };
        let spent = Spent { count: u64::from(process), ..Spent::default() };
        let exits = vec![Exits { vcpu: 0, kind, spent }];
        let name = format!("vm-{process}");
        Vm { name, others: Vec::new(), process, ended: true, ns: 10, lost: 1, exits }
    }

    #[test]
    fn of_many_the_first_are_a_sum_and_nothing_is_lost() {
        let mut ended = Ended::default();
        let last = KEPT as u32 + 4;
        (1..=last).for_each(|process| ended.push(vm(process)));
        let all: Vec<&Vm> = ended.all().collect();
        assert_eq!((all.len(), ended.summed(), all[0].process), (KEPT + 1, 4, 5));
        let sum = all[KEPT];
        assert_eq!((sum.name.as_str(), sum.process), ("4 that ended earlier", 0));
        assert_eq!((sum.ns, sum.lost), (40, 4));
        let counts: Vec<_> =
            sum.exits.iter().map(|one| (one.kind.cause, one.spent.count)).collect();
        assert_eq!(counts, [(Cause::Halt, 1 + 3), (Cause::Arm, 2 + 4)]);
        let total: u64 = all.iter().map(|vm| vm.all().count).sum();
        assert_eq!(total, (1..=u64::from(last)).sum::<u64>());
    }
}
