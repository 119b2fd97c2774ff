// SPDX-License-Identifier: GPL-2.0-only
//! What costs a VM exits: its timers and clocks, ends of interrupts, and the host's tick.

use super::{free, limits::rate, machine::Machine, unknown, Cost, Limits, Seen, State, LEAST};
use paratick_core::{
    cause::Cause,
    observed::{sum, Exits, NO_CLOCKS, WATCHED},
};

/// A host's tick costs from here on.
const FAST_HZ: u32 = 1000;

const DEVICES: [&str; 3] = ["HPET", "PIT", "RTC"];

/// Where the VMM's options are not known.
const NO_QEMU: &str = "the VMM is no QEMU: its command line is not read";

/// What a guest has that arms no device of these.
const TIMERS: &str = "give the guest a timer of its CPUs: Linux its APIC's (without nolapic_timer \
                      and the like), Windows Hyper-V's (-cpu …,hv-time,hv-vpindex,hv-synic,\
                      hv-stimer)";

impl Seen {
    /// With the exits that this is true of.
    pub fn exits(&self, what: &'static str, is: impl Fn(&Exits) -> bool) -> Cost {
        let all = sum(self.vm.exits.iter().filter(|exits| is(exits)));
        self.cost(what, self.vm.per_second(all.count), self.vm.share(all.cpu_ns()))
    }

    pub fn devices(&self) -> Vec<Cost> {
        let of = |what: &'static str| {
            let cost = self.exits(what, |exits| self.is_timer(exits, what));
            let (cost, found) = match (what, &self.machine) {
                ("PIT", _) => self.with_its_thread(cost),
                ("HPET", Some(Machine { hpet: false, .. })) => {
                    (cost, "the machine has none, by its command line".into())
                }
                _ => (cost, "by its exits".into()),
            };
            let off = if what == "HPET" { "QEMU: -machine …,hpet=off; and " } else { "" };
            cost.found(found).mend(format!("{off}{TIMERS}"))
        };
        let mut devices = DEVICES.map(of).to_vec();
        devices.extend(self.masked_line());
        devices.push(self.time_of_day());
        devices
    }

    /// Whether exits were for this device as a timer.  One that is only read is a clock, and
    /// beside the RTC are the time and a PC's settings.
    fn is_timer(&self, exits: &Exits, device: &str) -> bool {
        let arms =
            |one: &Exits| is_of(one, device) && matches!(one.kind.cause, Cause::Arm | Cause::Eoi);
        arms(exits) || device != "RTC" && is_of(exits, device) && self.vm.exits.iter().any(arms)
    }

    /// No kernel reads the RTC again and again, so no timer and no clock would spare its reads.
    fn time_of_day(&self) -> Cost {
        let is = |exits: &Exits| is_of(exits, "RTC") && exits.kind.cause == Cause::Clock;
        self.exits("RTC's time", is)
            .found("reads of the time of day, by a program of the guest's, such as hwclock")
            .mend("that program; the guest's timer and its clock have no part in them")
    }

    /// An HPET whose interrupts the guest has masked: QEMU goes on raising its line, and no exit
    /// tells.  Of the VMM's first thread the time is the HPET's if most of its wake-ups are.
    fn masked_line(&self) -> Option<Cost> {
        let kept = self.kept.as_ref().ok().filter(|kept| kept.unmasked == 0)?;
        let pulses = kept.pulses.filter(|pulses| *pulses > 0)?;
        let first = |limits: &Limits| {
            let first = limits.threads.own.iter().find(|thread| thread.id == self.vm.process);
            first.map(|thread| (thread.slept, thread.cpu_ns))
        };
        let (before, after) = first(&self.before).zip(first(&self.after))?;
        let [woken, ns] = [after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)];
        let its_ns = if pulses >= woken / 2 { ns } else { 0 };
        let cost = self.cost("masked HPET", self.vm.per_second(pulses), self.vm.share(its_ns));
        let cost = cost.found(format!(
            "the VMM raises line 0, which the guest has masked, and no exit tells; its first \
             thread wakes up {:.0} times a second",
            self.vm.per_second(woken)
        ));
        Some(cost.mend(
            "QEMU: -machine …,hpet=off (libvirt: <timer name='hpet' present='no'/>): the guest \
             uses another timer",
        ))
    }

    /// The host's kernel emulates the PIT, in a thread of its own.
    fn with_its_thread(&self, exits: Cost) -> (Cost, String) {
        let ns = |limits: &Limits| limits.threads.pit().map(|thread| thread.cpu_ns);
        let Some((before, after)) = ns(&self.before).zip(ns(&self.after)) else {
            return (exits, "by its exits".into());
        };
        let share = exits.share.unwrap_or(0.0) + self.vm.share(after.saturating_sub(before));
        let cost = self.cost(exits.what, exits.per_second.unwrap_or(0.0), share);
        (cost, "by its exits, and the time of the thread kvm-pit".into())
    }

    /// A guest that knows Hyper-V, and does not have its timer, uses one of the devices.
    pub fn hyperv(&self) -> Cost {
        let what = "Hyper-V's timer";
        let used = self.exits(what, |exits| {
            let about = exits.kind.about.as_deref().unwrap_or_default();
            ["HV_STIMER", "HV_EOI", "HV_EOM"].iter().any(|msr| about.starts_with(msr))
        });
        if used.state == State::Costs {
            return used.found("in use: its MSRs, and those that end its interrupts").mend(
                "a Linux guest: QEMU: -cpu … without kvm=off and hv-…: its APIC's timer needs no \
                 exit for the end of an interrupt; Windows has no better one",
            );
        }
        match &self.machine {
            None => unknown(what, NO_QEMU),
            Some(machine) if machine.hyperv && !machine.stimer => {
                let is = |exits: &Exits| DEVICES.iter().any(|one| self.is_timer(exits, one));
                self.exits(what, is)
                    .found("missing beside others of Hyper-V's features; HPET, PIT and RTC cost")
                    .mend("QEMU: -cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer")
            }
            Some(machine) if machine.stimer => used.found("given"),
            Some(_) => free(what, "none of Hyper-V's features is given"),
        }
    }

    /// A clock that is read by an exit, and the TSC, which needs none.
    pub fn clocks(&self) -> Cost {
        let is = |exits: &Exits| {
            let about = exits.kind.about.as_deref().unwrap_or_default();
            exits.kind.cause == Cause::Clock
                && !NO_CLOCKS.contains(&about)
                && !is_of(exits, "RTC")
                && !DEVICES.iter().any(|one| self.is_timer(exits, one))
        };
        let cost = self.exits("clock", is);
        let few = cost.share < Some(LEAST.1) && cost.per_second < Some(WATCHED);
        let cost = Cost { state: if few { State::Free } else { cost.state }, ..cost };
        match &self.machine {
            Some(machine) if !machine.invariant_tsc => {
                cost.found("clocks that are read by exits; its TSC is not invariant").mend(
                    "QEMU: -cpu …,+invtsc, where the host's TSC is (then it does not migrate); \
                     Windows: hv-time",
                )
            }
            _ => cost.found("clocks that are read by exits").mend(
                "in a Linux guest: echo tsc >\
                 /sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
        }
    }

    /// A guest that shares a page with KVM needs no exit to end most interrupts.
    pub fn eoi(&self) -> Cost {
        let what = "paravirtual EOI";
        let Some(machine) = &self.machine else { return unknown(what, NO_QEMU) };
        let Some(off) = machine.no_pv_eoi.filter(|_| !machine.vapic) else {
            let found = match machine.vapic {
                true => "Hyper-V's is given (hv-vapic)",
                false => "given",
            };
            return free(what, found);
        };
        let is = |exits: &Exits| {
            let about = exits.kind.about.as_deref();
            exits.kind.cause == Cause::Eoi && matches!(about, Some("X2APIC_EOI" | "APIC, EOI"))
        };
        self.exits(what, is)
            .found(format!("lost by {off}: ends of interrupts"))
            .mend(format!("QEMU: -cpu … without {off}; Windows: hv-vapic"))
    }

    pub fn tick(&self) -> Cost {
        let what = "host's tick";
        let Some(ticks) = self.before.jiffies.zip(self.after.jiffies) else {
            return unknown(what, "/proc/timer_list does not tell its rate");
        };
        let Some(hz) = rate(ticks) else {
            return unknown(what, "its rate is not clear: look longer, with --for 1s");
        };
        let cost = self.exits(what, |exits| exits.kind.cause == Cause::HostTick);
        let state = if hz < FAST_HZ { State::Free } else { cost.state };
        Cost { state, ..cost }
            .found(format!("it has {hz} Hz"))
            .mend("a kernel with CONFIG_HZ=250 on the host")
    }
}

/// Whether exits were about this device, as `paratick exits` says.
fn is_of(exits: &Exits, device: &str) -> bool {
    let about = exits.kind.about.as_deref().unwrap_or_default();
    about.strip_prefix(device).is_some_and(|rest| rest.starts_with(','))
}
