// SPDX-License-Identifier: GPL-2.0-only
//! From expiries and timerlat's own trace to activations.

use super::raw::{Expiry, VIA_TICK, VIA_TIMER};
use anyhow::{bail, Result};
use paratick_core::latency::{Activation, Via};
use std::collections::HashMap;

/// What timerlat measured: for the interrupt, and for the thread.
#[derive(Default)]
struct Numbers {
    irq_ns: Option<u64>,
    thread_ns: Option<u64>,
}

/// Those of which timerlat told both numbers, in the order of time.
pub fn gather(expiries: &[Expiry], trace: &str) -> Result<Vec<Activation>> {
    let mut numbers: HashMap<(u32, u64), Numbers> = HashMap::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let Some(said) = parse(line) else {
            bail!("timerlat's trace has a line that cannot be read: {line:?}");
        };
        let of = numbers.entry((said.cpu, said.number)).or_default();
        let place = if said.in_thread { &mut of.thread_ns } else { &mut of.irq_ns };
        if place.replace(said.ns).is_some() {
            bail!(
                "timerlat began anew while it was recorded: CPU {} has two activations {}\n\
                 hint: leave CPUs and the settings in osnoise/ of tracefs alone meanwhile",
                said.cpu,
                said.number
            );
        }
    }
    let mut activations = Vec::with_capacity(expiries.len());
    for expiry in expiries {
        let measured = numbers.remove(&(expiry.cpu, expiry.number)).unwrap_or_default();
        let (Some(irq_ns), Some(thread_ns)) = (measured.irq_ns, measured.thread_ns) else {
            continue;
        };
        activations.push(activation(expiry, irq_ns, thread_ns)?);
    }
    activations.sort_by_key(|one| (one.deadline_ns, one.cpu));
    Ok(activations)
}

/// So long after our program saw the expiry, timerlat reads the clock at most, in ns.
const SOON: u64 = 1_000_000;

fn activation(expiry: &Expiry, irq_ns: u64, thread_ns: u64) -> Result<Activation> {
    // What is joined by its number must fit by its time.
    let measured = expiry.deadline_ns.saturating_add(irq_ns);
    if !(expiry.expire_ns..expiry.expire_ns.saturating_add(SOON)).contains(&measured) {
        bail!(
            "timerlat's number {} of CPU {} does not belong to the expiry that was seen: it read \
             the clock at {measured} ns, and the timer expired at {} ns",
            expiry.number,
            expiry.cpu,
            expiry.expire_ns
        );
    }
    Ok(told(expiry, irq_ns, thread_ns))
}

/// What both samplers' activations have in common.
pub fn told(expiry: &Expiry, irq_ns: u64, thread_ns: u64) -> Activation {
    Activation {
        cpu: expiry.cpu,
        number: expiry.number,
        deadline_ns: expiry.deadline_ns,
        irq_began_ns: expiry.irq_ns,
        via: match expiry.via {
            VIA_TIMER => Via::LocalTimer,
            VIA_TICK => Via::VirtualTick,
            _ => Via::Other,
        },
        irq_ns,
        thread_ns,
    }
}

struct Said {
    cpu: u32,
    number: u64,
    in_thread: bool,
    ns: u64,
}

/// `  timerlat/0-93  [000] .....  54.029339: #1  context thread timer_latency  12 ns`
fn parse(line: &str) -> Option<Said> {
    let (head, said) = line.split_once(": #")?;
    let cpu = head.rsplit_once('[')?.1.split_once(']')?.0.parse().ok()?;
    match said.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [number, "context", context, "timer_latency", ns, "ns"] => Some(Said {
            cpu,
            number: number.parse().ok()?,
            in_thread: match context {
                "irq" => false,
                "thread" => true,
                _ => return None,
            },
            ns: ns.parse().ok()?,
        }),
        _ => None,
    }
}
