// SPDX-License-Identifier: GPL-2.0-only
//! What "Getting maximum mileage out of tickless" (Ottawa Linux Symposium, 2007) prints in its
//! Tables 1 to 4, a totally idle laptop of two cores, at 1000 Hz, and in Table 5, a busy server.

/// A row of them; some are printed twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    pub table: u8,
    pub row: &'static str,
    pub interrupts: f64,
    /// In a second.  The fraction that is printed repeats the whole number (see [`ERRORS`]).
    pub events: f64,
    pub events_printed: &'static str,
    pub residency_us: f64,
}

const fn row(
    table: u8,
    row: &'static str,
    interrupts: f64,
    (events, events_printed): (f64, &'static str),
    residency_us: f64,
) -> Printed {
    Printed { table, row, interrupts, events, events_printed, residency_us }
}

pub const PRINTED: [Printed; 8] = [
    row(1, "With ticks", 2002.0, (59.0, "59.59"), 651.0),
    row(1, "Tickless", 118.0, (60.0, "60.60"), 10_161.0),
    row(2, "Ondemand", 118.0, (60.0, "60.60"), 10_161.0),
    row(2, "Ondemand + deferrable timer", 89.0, (17.0, "17.17"), 20_312.0),
    row(3, "PIT", 89.0, (17.0, "17.17"), 20_312.0),
    row(3, "HPET", 32.0, (15.0, "15.15"), 56_451.0),
    row(4, "global HPET", 32.0, (15.0, "15.15"), 56_451.0),
    row(4, "percpu HPET", 22.0, (15.0, "15.15"), 73_514.0),
];

/// A row of Table 5: what SPECjbb2000 loses without ticks, by its garbage collector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    pub collector: &'static str,
    /// The share of its throughput.
    pub lost: f64,
    /// What stands for it here.
    workload: &'static str,
}

pub const REGRESSIONS: [Regression; 2] = [
    Regression { collector: "parallel", lost: 0.063, workload: "warehouse" },
    Regression { collector: "gencon", lost: 0.077, workload: "nursery" },
];

pub fn regression_of(workload: &str) -> Option<&'static Regression> {
    REGRESSIONS.iter().find(|one| one.workload == workload)
}

/// What is wrong with them.
pub const ERRORS: [&str; 2] = [
    "The paper's column of events prints a bug of the kernel's statistics: all four fractions \
     repeat the whole number (59.59, 60.60, 17.17, 15.15), so they are read as 59, 60, 17 and 15.",
    "Its interrupts and residencies do not fit: two CPUs that are idle for so long each time \
     become idle 1.1 to 1.7 times for each interrupt. So they were not always idle, or other \
     wake-ups (IPIs of the broadcast) are not among its interrupts. Here all are counted.",
];

/// What the sampler imitates: the events that the flag removes, of both CPUs, in a second
/// (60.60 − 17.17, as printed).
pub const SAMPLES_PER_S: f64 = 43.4;

/// How often one CPU's timer expires, then.
pub const SAMPLER_PERIOD_US: u32 = 46_083;

impl Printed {
    pub fn of(table: u8) -> impl Iterator<Item = &'static Printed> {
        PRINTED.iter().filter(move |printed| printed.table == table)
    }

    /// How often CPUs became idle for each interrupt, if both were always idle.
    pub fn entries_per_interrupt(&self) -> f64 {
        2e6 / self.residency_us / self.interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_repeats_the_whole_number() {
        for one in PRINTED {
            assert_eq!(one.events_printed, format!("{0}.{0}", one.events));
        }
    }

    #[test]
    fn interrupts_and_residencies_do_not_fit_by_as_much_as_is_said() {
        let off = PRINTED.map(|one| one.entries_per_interrupt());
        let least = off.iter().copied().fold(f64::MAX, f64::min);
        let most = off.iter().copied().fold(0.0, f64::max);
        assert_eq!((format!("{least:.1}"), format!("{most:.1}")), ("1.1".into(), "1.7".into()));
    }

    #[test]
    fn the_sampler_expires_as_often_as_what_the_flag_removed() {
        let per_s = 2e6 / f64::from(SAMPLER_PERIOD_US);
        assert!((per_s / SAMPLES_PER_S - 1.0).abs() < 1e-4, "{per_s}");
    }
}
