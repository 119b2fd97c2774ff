// SPDX-License-Identifier: GPL-2.0-only
//! What a VM's interrupts and kvm-clock cost, by what KVM keeps of the VM: AVIC or APICv, and the
//! page of kvm-clock.

use super::{free, unknown, Cost, Seen, State, LEAST};
use paratick_core::{cause::Cause, observed::Exits};
use paratick_instruments::untold::Offload;

/// What ends a reason, as the kernel calls that.
const MENDS: [(&str, &str); 3] = [
    ("PIT_REINJ", "QEMU: -global kvm-pit.lost_tick_policy=discard"),
    ("HYPERV", "QEMU: -cpu …,hv-avic"),
    ("ABSENT", "QEMU: -machine …,kernel-irqchip=on"),
];

impl Seen {
    /// Whether the processor delivers interrupts to the guest; with the exits for those without.
    pub fn delivery(&self) -> Cost {
        let what = "AVIC or APICv";
        let Some(offload) = self.host.offload else {
            return unknown(what, "the processor is neither AMD's nor Intel's");
        };
        let Offload { name, module, switch } = offload;
        let exits = self.exits(what, is_spared);
        let of = "exits for ends of interrupts, IPIs and interrupt windows";
        match (self.host.offload_is_on, self.host.has_offload) {
            (Some(true), _) => self.inhibited(exits, name),
            (_, Some(false)) => Cost { state: State::Absent, ..exits }
                .found(format!("the processor has no {name}{}: {of}", self.as_kvm_says())),
            (Some(false), Some(true)) => exits.found(format!("KVM's {name} is off: {of}")).mend(
                format!("once no VM runs: modprobe -r {module}; modprobe {module} {switch}=1"),
            ),
            _ => unknown(what, format!("{module} does not tell whether {name} is on")),
        }
    }

    fn inhibited(&self, exits: Cost, name: &str) -> Cost {
        let what = exits.what;
        let kept = match &self.kept {
            Ok(kept) => kept,
            Err(why) => return unknown(what, why.clone()),
        };
        let Some(read) = &kept.read else {
            return match self.vm.exits.iter().any(is_of_it) {
                true => free(what, format!("{name} is in use, by its exits")),
                false => unknown(
                    what,
                    format!("KVM's {name} is on; without BTF, nobody tells of this VM's"),
                ),
            };
        };
        let changes = self.vm.per_second(kept.changes);
        let reasons = if read.always.is_empty() { &read.at_times } else { &read.always };
        if reasons.is_empty() {
            return free(what, format!("{name} is in use"));
        }
        let at_times = if read.always.is_empty() { "at times " } else { "" };
        let found = format!(
            "{name} is {at_times}inhibited: {}, with {changes:.0} changes a second",
            reasons.join(", ")
        );
        let mend = |reason: &String| {
            let known = MENDS.iter().find(|(name, _)| name == reason);
            known.map_or("no line mends it", |(_, mend)| mend)
        };
        let mends = reasons.iter().map(mend).collect::<Vec<_>>();
        exits.found(found).mend(mends.join("; "))
    }

    /// Where nothing is there to be inhibited, KVM keeps one reason, and no others.
    fn as_kvm_says(&self) -> String {
        let read = self.kept.as_ref().ok().and_then(|kept| kept.read.as_ref());
        let always = read.map(|read| read.always.join(", ")).unwrap_or_default();
        if always.is_empty() {
            always
        } else {
            format!(" (KVM: {always})")
        }
    }

    /// A page by which a guest reads the time without an exit.  Its TSC needs no page.
    pub fn kvm_clock(&self) -> Cost {
        let what = "kvm-clock";
        if let Some(off) = self.machine.as_ref().and_then(|machine| machine.no_kvm_clock) {
            return free(what, format!("taken away by {off}"));
        }
        let kept = match &self.kept {
            Ok(kept) => kept,
            Err(why) => return unknown(what, why.clone()),
        };
        let has_clock = kept.read.as_ref().map(|read| read.has_clock);
        let rate = self.vm.per_second(kept.writes);
        let written = format!("KVM wrote its page {rate:.1} times a second");
        match (kept.writes, has_clock) {
            (0, Some(false)) => return free(what, "the guest did not ask for it"),
            (0, None) => return unknown(what, "without BTF, nobody tells whether it is used"),
            _ => {}
        }
        let (found, mend) = match self.machine.as_ref().map(|machine| machine.invariant_tsc) {
            None => ("whether the guest has a better TSC is not known", String::new()),
            Some(true) => (
                "the guest has an invariant TSC, too; which one it reads, no host sees",
                "in a Linux guest: echo tsc >\
                 /sys/devices/system/clocksource/clocksource0/current_clocksource"
                    .into(),
            ),
            Some(false) if self.host.tsc => (
                "the host's clock is its TSC, the guest's is not invariant",
                "QEMU: -cpu …,+invtsc (then it does not migrate)".into(),
            ),
            Some(false) => ("the host's clock is not its TSC either", String::new()),
        };
        // Reading it makes no exit, so what that costs is not seen.
        let state = if rate >= LEAST.0 { State::Costs } else { State::Unknown };
        let found = format!("{written}; {found}");
        Cost { what, state, per_second: Some(rate), share: None, found, mend }
    }
}

/// An exit that neither AVIC nor APICv needs.
fn is_spared(exits: &Exits) -> bool {
    let about = exits.kind.about.as_deref();
    let apic = matches!(about, Some("X2APIC_EOI" | "APIC, EOI" | "X2APIC_ICR" | "APIC, ICR"));
    let window = ["vintr", "INTERRUPT_WINDOW"].contains(&&*exits.kind.reason);
    apic && matches!(exits.kind.cause, Cause::Eoi | Cause::Ipi) && !is_of_it(exits) || window
}

/// An exit that only AVIC or APICv makes.
fn is_of_it(exits: &Exits) -> bool {
    let reason = &*exits.kind.reason;
    reason.starts_with("avic_") || ["EOI_INDUCED", "APIC_WRITE"].contains(&reason)
}
