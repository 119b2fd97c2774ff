// SPDX-License-Identifier: GPL-2.0-only
//! What two looks at a machine's VMs differ in: by the VMs' names, and by cause.

use super::{sum, Missing, Observed, Vm};
use crate::cause::Cause;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    schema: &'static str,
    /// What the numbers below do not have in them.
    pub before: Missing,
    pub after: Missing,
    pub vms: Vec<VmChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmChange {
    pub name: String,
    pub causes: Vec<CauseChange>,
}

/// None: the VM was not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseChange {
    /// None: of all causes.
    pub cause: Option<Cause>,
    pub before: Option<Rate>,
    pub after: Option<Rate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// None, as the shares, where no time passed.
    pub exits_per_second: Option<f64>,
    /// KVM, VMM and interrupts, as a share of one CPU.  None, as steal, of a recording that does
    /// not tell.
    pub cpu: Option<f64>,
    pub steal: Option<f64>,
    pub mean_ns: Option<u64>,
}

/// VMs of one name, such as one that was started again.
type Side<'a> = BTreeMap<&'a str, Vec<&'a Vm>>;

impl Change {
    pub fn of(before: &Observed, after: &Observed) -> Change {
        let sides = [before, after].map(|seen| (seen.ns, by_name(seen)));
        let names: BTreeSet<&str> =
            sides.iter().flat_map(|(_, side)| side.keys().copied()).collect();
        let vms = names.into_iter().map(|name| {
            let [before, after] = sides.each_ref().map(|(ns, side)| those(*ns, side, name));
            VmChange { name: name.into(), causes: causes([&before, &after]) }
        });
        let vms = vms.collect();
        let (before, after) = (before.missing(), after.missing());
        Change { schema: "paratick-exits-change/1", before, after, vms }
    }
}

fn by_name(seen: &Observed) -> Side<'_> {
    let mut side = Side::new();
    for vm in &seen.vms {
        side.entry(&vm.name).or_default().push(vm);
    }
    side
}

/// VMs of one name, and how long they ran together.
type Those<'a> = (u64, Vec<&'a Vm>);

fn those<'a>(ns: u64, side: &Side<'a>, name: &str) -> Those<'a> {
    let vms = side.get(name).cloned().unwrap_or_default();
    // Each after the other, or at the same time: never longer than it was looked.
    (vms.iter().map(|vm| vm.ns).sum::<u64>().min(ns), vms)
}

fn causes([before, after]: [&Those; 2]) -> Vec<CauseChange> {
    let exits = before.1.iter().chain(&after.1).flat_map(|vm| &vm.exits);
    let causes: BTreeSet<Cause> = exits.map(|exits| exits.kind.cause).collect();
    let causes = causes.into_iter().map(Some).chain([None]);
    let row = |cause| CauseChange { cause, before: rate(before, cause), after: rate(after, cause) };
    causes.map(row).collect()
}

fn rate((ns, vms): &Those, cause: Option<Cause>) -> Option<Rate> {
    let by_time = |number: u64| (*ns > 0).then(|| number as f64 / *ns as f64);
    let exits = vms.iter().flat_map(|vm| &vm.exits);
    let spent = sum(exits.filter(|exits| cause.is_none_or(|cause| exits.kind.cause == cause)));
    let share = |part: u64| by_time(part).filter(|_| spent.unplaced_ns.is_none());
    (!vms.is_empty()).then(|| Rate {
        exits_per_second: by_time(spent.count).map(|each| each * 1e9),
        cpu: share(spent.cpu_ns()),
        steal: share(spent.steal_ns),
        mean_ns: spent.mean_ns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::tests::{exits, observed, vm};

    #[test]
    fn vms_are_compared_by_name_and_one_that_was_started_again_is_one() {
        let arm = |count| exits(0, Cause::Arm, "TSC_DEADLINE", count);
        let before = observed(vec![vm("web", 7, vec![arm(20)]), vm("old", 8, vec![arm(1)])]);
        let halt = exits(0, Cause::Halt, "hlt", 4);
        let mut after =
            observed(vec![vm("web", 9, vec![arm(30)]), vm("web", 10, vec![arm(10), halt])]);
        after.ns = 4_000_000_000;
        let change = Change::of(&before, &after);
        let names: Vec<&str> = change.vms.iter().map(|vm| vm.name.as_str()).collect();
        assert_eq!(names, ["old", "web"]);
        let rates = |vm: &VmChange| -> Vec<_> {
            let rate = |rate: &Option<Rate>| rate.and_then(|rate| rate.exits_per_second);
            vm.causes.iter().map(|one| (one.cause, rate(&one.before), rate(&one.after))).collect()
        };
        assert_eq!(rates(&change.vms[0])[0], (Some(Cause::Arm), Some(0.5), None));
        assert_eq!(
            rates(&change.vms[1]),
            [
                (Some(Cause::Arm), Some(10.0), Some(10.0)),
                (Some(Cause::Halt), Some(0.0), Some(1.0)),
                (None, Some(10.0), Some(11.0)),
            ]
        );
    }

    #[test]
    fn a_share_that_a_recording_does_not_tell_is_none() {
        let mut arm = exits(0, Cause::Arm, "TSC_DEADLINE", 20);
        let live = observed(vec![vm("web", 7, vec![arm.clone()])]);
        (arm.spent.kvm_ns, arm.spent.unplaced_ns) = (0, Some(20_000));
        let recorded = observed(vec![vm("web", 7, vec![arm])]);
        let change = Change::of(&live, &recorded);
        let [before, after] = [change.vms[0].causes[0].before, change.vms[0].causes[0].after];
        let parts = |rate: Option<Rate>| rate.map(|rate| (rate.cpu, rate.steal, rate.mean_ns));
        assert_eq!(parts(before), Some((Some(1e-5), Some(0.0), Some(1_000))));
        assert_eq!(parts(after), Some((None, None, Some(1_000))));
    }

    #[test]
    fn without_a_time_there_is_no_rate() {
        let mut web = vm("web", 7, vec![exits(0, Cause::Arm, "TSC_DEADLINE", 20)]);
        web.ns = 0;
        let change = Change::of(&observed(vec![web.clone()]), &observed(vec![web]));
        let rate = change.vms[0].causes[0].before.unwrap();
        assert_eq!((rate.exits_per_second, rate.cpu, rate.mean_ns), (None, None, Some(1_000)));
    }

    #[test]
    fn vms_of_one_name_that_run_at_once_are_added() {
        let arm = |count| exits(0, Cause::Arm, "TSC_DEADLINE", count);
        let before = observed(vec![vm("web", 7, vec![arm(20)])]);
        let after = observed(vec![vm("web", 7, vec![arm(20)]), vm("web", 8, vec![arm(20)])]);
        let change = Change::of(&before, &after);
        let [arms, _all] = &change.vms[0].causes[..] else { panic!("{change:?}") };
        let rates = [arms.before, arms.after].map(|rate| rate.unwrap().exits_per_second);
        assert_eq!(rates, [Some(10.0), Some(20.0)]);
    }
}
