// SPDX-License-Identifier: GPL-2.0-only
//! Why a guest that hands its deadlines over wrote some to its timer's register: a trace that the
//! guest makes of itself, since its host does not see that.

use super::{
    trace::{self, Record, Seen},
    VCPU,
};
use crate::tracefs::{Instance, Tracefs};
use anyhow::{Context, Result};
use paratick_core::cycle::Why;

const EVENT: &str = "timer/tick_deadline_write";
const BUFFER_KIB: u32 = 4 << 10;

/// Traces the guest's CPU that [`super::Cycle`] traces from outside.
pub struct DeadlineWrites(Instance);

impl DeadlineWrites {
    /// None where the guest's kernel cannot hand deadlines over.
    pub fn start() -> Result<Option<DeadlineWrites>> {
        let tracefs = Tracefs::open().context("the guest cannot trace itself")?;
        if !tracefs.has(EVENT) {
            return Ok(None);
        }
        let trace = tracefs.instance("writes")?;
        trace.set("buffer_size_kb", BUFFER_KIB)?;
        trace.set("tracing_cpumask", format!("{:x}", 1u64 << VCPU))?;
        trace.set("trace_clock", "x86-tsc")?;
        trace.set(&format!("events/{EVENT}/enable"), 1)?;
        trace.set("tracing_on", 1)?;
        Ok(Some(DeadlineWrites(trace)))
    }

    /// Those between two readings of the time stamp counter, in their order.
    pub fn read(self, (from, to): (u64, u64)) -> Result<Vec<Why>> {
        self.0.set("tracing_on", 0)?;
        trace::check_stats(&self.0.stats()?)?;
        let records = trace::parse(&self.0.trace()?)?;
        Ok(between(&records, from, to))
    }
}

fn between(records: &[Record], from: u64, to: u64) -> Vec<Why> {
    let inside = records.iter().filter(|record| (from..=to).contains(&record.clock));
    let why = |record: &Record| match record.what {
        Seen::DeadlineWrite(why) => Some(why),
        _ => None,
    };
    inside.filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_of_a_window_are_told_in_their_order() {
        let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/4   #P:2\n#\n\
            \x20     sleep-81      [000] d..2. 100: tick_deadline_write: why=tick expires=1\n\
            \x20     sleep-81      [000] d..2. 200: tick_deadline_write: why=user expires=2\n\
            \x20    <idle>-0       [000] d..2. 300: tick_deadline_write: why=switch expires=3\n\
            \x20     sleep-81      [000] d..2. 401: tick_deadline_write: why=user expires=4\n";
        let records = trace::parse(text).unwrap();
        assert_eq!(between(&records, 200, 400), [Why::User, Why::Switch]);
        // A reason that nobody has named yet is not guessed.
        assert!(trace::parse(&text.replace("why=tick", "why=7")).is_err());
    }
}
