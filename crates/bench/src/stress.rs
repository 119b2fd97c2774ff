// SPDX-License-Identifier: GPL-2.0-only
//! Shows whether an emulator delivers each injected interrupt once: a QEMU without the fix fails.
//!
//! A guest with two vCPUs sends itself IPIs and sleeps on short timers, while the host's own timers
//! end the emulator's time slices at many points of the guest's handlers.  Two signs tell a broken
//! emulator: the guest has taken more interrupts than KVM has injected, which is proof; or it
//! deadlocks, because a handler ran where the guest had interrupts off.

use anyhow::{bail, Context, Result};
use paratick_build::{
    emulator::Emulator,
    tools::{self, Tools},
};
use paratick_core::{
    event::{Event, Events, Step},
    mode::Mode,
    size::Size,
    wire::GuestConfig,
};
use paratick_machine::{
    accel::Accel,
    backend::EMULATED,
    exec::{Exec, ExecResult},
    failure::Failure,
    guest::Guest,
    host::Host,
    spec::HostSpec,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// The guest's work: every kind of interrupt that a guest gets, many per second.
const ROUND: [(&str, u32); 3] = [("barrier", 4_000), ("pingpong", 2_000), ("sleep", 1_000)];
const ROUNDS: u32 = 3;
/// Sleeps of the host beside it, 100 us each: more than the rounds take.
const HOST_SLEEPS: u32 = 100_000_000;
const INJECTIONS: &str = "/sys/kernel/debug/kvm/irq_injections";
/// One step of a sound guest takes a tenth of the two boots before it, however slow the machine:
/// one that takes as long as they did hangs.  Never less than this, for the machine's own hiccups.
const LEAST_PATIENCE: Duration = Duration::from_secs(30);
/// A sound guest boots in little more time than its host took.
const LEAST_BOOT_LIMIT: Duration = Duration::from_secs(40);

pub struct Stress {
    pub emulator: Emulator,
    pub kernel: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub counts: Counts,
    pub took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Sound,
    /// The guest took more interrupts than were injected.
    Duplicates,
    /// The guest stopped making progress.
    Hung(String),
}

/// Interrupts of the guest while it was under stress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By KVM.
    pub injected: u64,
    /// By the guest's handlers.
    pub taken: u64,
}

impl Counts {
    /// More taken than injected: never in a sound emulator, since each look of the host's lies
    /// outside the guest's.
    fn duplicates(&self) -> u64 {
        self.taken.saturating_sub(self.injected)
    }
}

impl Stress {
    pub fn run(&self, events: Events) -> Result<Outcome> {
        let begun = Instant::now();
        let tools = Tools::with(self.emulator.clone(), tools::find_agent()?)?;
        let mut spec = HostSpec::for_guests(EMULATED, &self.kernel, 2, Size::mib(256));
        spec.emulation.accel = Accel::Tcg;
        let mut outcome =
            Outcome { verdict: Verdict::Sound, counts: Counts::default(), took: Duration::ZERO };
        let host = Host::boot(spec, &tools, events)?;
        outcome.verdict = match self.load(&host, &tools, begun, &mut outcome.counts, events) {
            Ok(()) if outcome.counts.duplicates() > 0 => Verdict::Duplicates,
            Ok(()) => Verdict::Sound,
            Err(error) => match error.downcast_ref() {
                Some(Failure::Trouble(_) | Failure::TimeLimit { .. }) => {
                    Verdict::Hung(format!("{error:#}"))
                }
                _ => return Err(error),
            },
        };
        outcome.took = begun.elapsed();
        Ok(outcome)
    }

    /// Boots the guest and makes it work until something is wrong or enough is done.
    fn load(
        &self,
        host: &Host,
        tools: &Tools,
        begun: Instant,
        counts: &mut Counts,
        events: Events,
    ) -> Result<()> {
        let mode = "tickless".parse::<Mode>()?;
        let config = GuestConfig::new(&self.kernel, 2, Size::mib(256), mode);
        let limit = LEAST_BOOT_LIMIT.max(3 * begun.elapsed());
        events(Step::BootingGuest { vcpus: 2, mode }.into());
        let guest = host.start_guest_within(limit, config)?;
        let patience = LEAST_PATIENCE.max(begun.elapsed());
        let agent = tools.agent.display();
        shell(
            host,
            &format!("'{agent}' workload sleep --threads 1 --work {HOST_SLEEPS} >/dev/null 2>&1 &"),
        )?;
        // A lockup shows sooner than the kernel's defaults would have it.
        in_guest(
            &guest,
            "echo 2 >/proc/sys/kernel/watchdog_thresh; \
             echo 3 >/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout",
            patience,
        )?;
        let total = u64::from(ROUNDS) * ROUND.len() as u64;
        events(Step::StressingGuest.into());
        for done in 0..total {
            events(Event::Progress { done, total: Some(total), left: None });
            let (name, work) = ROUND[done as usize % ROUND.len()];
            // Whatever is taken between the guest's two looks is injected between the host's.
            let injected = injections(host)?;
            let taken = interrupts(&in_guest(&guest, "cat /proc/interrupts", patience)?);
            in_guest(
                &guest,
                &format!("'{agent}' workload {name} --threads 2 --work {work}"),
                patience,
            )?;
            counts.taken +=
                interrupts(&in_guest(&guest, "cat /proc/interrupts", patience)?) - taken;
            counts.injected += injections(host)? - injected;
            if counts.duplicates() > 0 {
                break;
            }
        }
        Ok(())
    }
}

fn shell(host: &Host, script: &str) -> Result<String> {
    let result = host.exec(Exec::new(["sh", "-c", script]))?;
    output(result, "on the host", script)
}

fn in_guest(guest: &Guest, script: &str, limit: Duration) -> Result<String> {
    let result = guest.exec(Exec::new(["sh", "-c", script]).timeout(limit))?;
    output(result, "in the guest", script)
}

fn output(result: ExecResult, place: &str, script: &str) -> Result<String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match result.code {
        0 => Ok(text(result.stdout)),
        code => bail!("{place}, `{script}` failed with {code}: {}", text(result.stderr)),
    }
}

fn injections(host: &Host) -> Result<u64> {
    let text = shell(host, &format!("cat {INJECTIONS}"))?;
    text.trim().parse().with_context(|| format!("{INJECTIONS} is {text:?}, not a number"))
}

/// Of `/proc/interrupts`: those that KVM injects one by one.  NMIs are none of them, and a TLB
/// shootdown is counted among the function calls too.
fn interrupts(text: &str) -> u64 {
    const NAMED: [&str; 4] = ["LOC", "RES", "CAL", "IWI"];
    text.lines()
        .filter_map(|line| line.trim_start().split_once(':'))
        .filter(|(label, _)| NAMED.contains(label) || label.parse::<u32>().is_ok())
        .flat_map(|(_, rest)| rest.split_whitespace().map_while(|word| word.parse::<u64>().ok()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_injected_interrupts_are_summed() {
        let text = "           CPU0       CPU1\n  \
              1:          9          0   IO-APIC   1-edge      i8042\n \
            NMI:          7          7   Non-maskable interrupts\n \
            LOC:        100        200   Local timer interrupts\n \
            TLB:          5          5   TLB shootdowns\n \
            CAL:         10         20   Function call interrupts\n \
            ERR:          3\n";
        assert_eq!(interrupts(text), 9 + 300 + 30);
    }

    #[test]
    fn fewer_taken_than_injected_is_no_duplicate() {
        let counts = |injected, taken| Counts { injected, taken };
        assert_eq!(counts(10, 9).duplicates(), 0);
        assert_eq!(counts(10, 13).duplicates(), 3);
    }
}
