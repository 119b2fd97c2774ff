// SPDX-License-Identifier: GPL-2.0-only
//! System throughput: work for each nanosecond that the host's CPUs spend, for any cost of a world
//! switch.
//!
//! The CPU time of a sample is what host and guest executed, an instruction counted as a
//! nanosecond, and the cost of every world switch.  The counts are taken as they were measured: a
//! cost that is charged while the guest runs also moves its timers, and that is not in here.

use crate::{
    results::{Cell, Sample},
    stats::{self, Comparison, Observation},
    units::Nanos,
};

/// Beyond this no processor's world switch lies, and no break-even is looked for.
pub const LARGEST_COST: Nanos = Nanos(1_000_000);

/// What the host's CPUs spent on a sample, in nanoseconds.  None where the emulator did not count.
pub fn cpu_ns(sample: &Sample, cost: Nanos) -> Option<f64> {
    Some(Line::of(sample, 1)?.at(cost.0 as f64))
}

/// Throughput of a mode against a baseline's: 1.1 is 10 % more work for the same CPU time.  The
/// inverse of the ratio of their CPU times by unit of work, over the rounds that both have
/// ([`stats::compare`]).
pub fn relative(mode: &Cell, baseline: &Cell, cost: Nanos) -> Option<Comparison> {
    let spent = |cell| -> Vec<Observation> {
        lines(cell)
            .into_iter()
            .map(|(round, line)| Observation { round, value: line.at(cost.0 as f64) })
            .collect()
    };
    let spent = stats::compare(&spent(mode), &spent(baseline))?;
    // Of nothing spent there is no inverse.
    (spent.low > 0.0).then(|| spent.inverse())
}

/// The smallest cost, in nanoseconds, beyond which the other of the two has the higher throughput,
/// by their medians and whatever the interval.  None where that does not happen up to
/// [`LARGEST_COST`], or where they share no round.
pub fn break_even(mode: &Cell, baseline: &Cell) -> Option<f64> {
    let (mode, base) = (lines(mode), lines(baseline));
    let shared = |own: &[(u32, Line)], other: &[(u32, Line)]| -> Vec<Line> {
        let both = own.iter().filter(|(round, _)| other.iter().any(|(one, _)| one == round));
        both.map(|(_, line)| *line).collect()
    };
    let (mode, base) = (shared(&mode, &base), shared(&base, &mode));
    let mut turn = Turn::default();
    for cost in bends(&mode, &base) {
        let difference = median_at(&mode, cost)? - median_at(&base, cost)?;
        if let Some(found) = turn.next(cost, difference) {
            return Some(found);
        }
    }
    None
}

/// CPU time by unit of work, as it grows with the cost of a world switch.
#[derive(Clone, Copy, Debug)]
struct Line {
    instructions: f64,
    world_switches: f64,
}

impl Line {
    fn of(sample: &Sample, work: u64) -> Option<Line> {
        let instructions = sample.host_instructions? as f64 + sample.guest_instructions? as f64;
        let work = (work > 0).then_some(work as f64)?;
        Some(Line {
            instructions: instructions / work,
            world_switches: sample.world_switches? as f64 / work,
        })
    }

    fn at(&self, cost: f64) -> f64 {
        self.instructions + self.world_switches * cost
    }

    fn crossing(&self, other: &Line) -> Option<f64> {
        let apart = other.instructions - self.instructions;
        let slower = self.world_switches - other.world_switches;
        (slower != 0.0).then(|| apart / slower)
    }
}

/// With their rounds.
fn lines(cell: &Cell) -> Vec<(u32, Line)> {
    let with_round = |sample: &Sample| Some((sample.round, Line::of(sample, cell.work)?));
    cell.samples().iter().filter_map(with_round).collect()
}

fn median_at(lines: &[Line], cost: f64) -> Option<f64> {
    stats::median(&lines.iter().map(|line| line.at(cost)).collect::<Vec<_>>())
}

/// Costs between which both medians are straight lines: a median bends only where two samples of
/// its own side cross.
fn bends(mode: &[Line], base: &[Line]) -> Vec<f64> {
    let largest = LARGEST_COST.0 as f64;
    let mut costs = vec![0.0, largest];
    for side in [mode, base] {
        for (place, one) in side.iter().enumerate() {
            let crossings = side[..place].iter().filter_map(|other| one.crossing(other));
            costs.extend(crossings.filter(|cost| (0.0..largest).contains(cost)));
        }
    }
    costs.sort_unstable_by(f64::total_cmp);
    costs
}

/// Looks for a change of sign from one bend to the next.
#[derive(Default)]
struct Turn {
    /// The last bend at which there was a difference.
    last: Option<(f64, f64)>,
    /// The first bend since then at which there was none.
    zero: Option<f64>,
}

impl Turn {
    fn next(&mut self, cost: f64, difference: f64) -> Option<f64> {
        if difference == 0.0 {
            self.zero = self.zero.or(Some(cost));
            return None;
        }
        if let Some((last_cost, last)) = self.last {
            if (last < 0.0) != (difference < 0.0) {
                let part = last / (last - difference);
                return Some(self.zero.unwrap_or(last_cost + (cost - last_cost) * part));
            }
        }
        (self.last, self.zero) = (Some((cost, difference)), None);
        None
    }
}

#[cfg(test)]
mod tests;
