// SPDX-License-Identifier: GPL-2.0-only
//! `paratick model table1`.

use crate::{
    number::{decimal, or_nothing, share, time, whole},
    table::Table,
};
use paratick_core::model::table1::{
    self, agreeing, most_waits, readings, Reading, Scenario, Syncs, Waits, COUNTINGS, SCENARIOS,
    SYNCS, VCPUS,
};
use serde::Serialize;

#[derive(Serialize)]
pub struct Answer {
    scenarios: Vec<Row>,
    /// The one in which all eight cells agree.
    agreeing: Reading,
    /// All that were tried; those without a load do not give 60 000.
    readings: Vec<Reading>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    printed: Pair,
    /// By the formulas as written.  For tickless at a load of 0 and of 1: the paper does not give
    /// it.
    formula_periodic: f64,
    formula_tickless_least: f64,
    formula_tickless_most: f64,
    agreeing: Pair,
}

#[derive(Serialize)]
struct Pair {
    periodic: f64,
    tickless: f64,
}

pub fn answer() -> Answer {
    let agreeing = agreeing();
    Answer {
        scenarios: SCENARIOS.map(|one| row(&one, &agreeing)).into(),
        agreeing,
        readings: readings(),
    }
}

fn row(scenario: &Scenario, agreeing: &Reading) -> Row {
    let (least, most) = scenario.formula_tickless();
    let vms = f64::from(scenario.vms);
    let counting = &agreeing.counting;
    let busy = agreeing.load.filter(|_| scenario.busy);
    Row {
        name: scenario.name,
        printed: Pair { periodic: scenario.periodic.into(), tickless: scenario.tickless.into() },
        formula_periodic: scenario.formula_periodic(),
        formula_tickless_least: least,
        formula_tickless_most: most,
        agreeing: Pair {
            periodic: vms * counting.periodic(),
            tickless: vms * busy.map_or(0.0, |load| counting.tickless(load, agreeing.idle_periods)),
        },
    }
}

impl Answer {
    pub fn text(&self) -> String {
        let mut three = self.three_ways();
        three.note(format!(
            "The printed periodic row is half of what the formula gives: 2 × 10 s × {VCPUS} vCPUs \
             × 250 Hz is {}. The tickless row needs a load and an idle period, which the paper \
             does not give: by the formula it is {} to {} for W3, if each of its {SYNCS} \
             synchronizations per second is one idle period.",
            whole(self.scenarios[0].formula_periodic),
            whole(self.scenarios[2].formula_tickless_least),
            whole(self.scenarios[2].formula_tickless_most),
        ));
        let mut readings = self.readings_table();
        LEGEND.into_iter().for_each(|line| readings.note(line));
        readings.note(Self::impossible());
        format!("{}\n{}", three.text(), readings.text())
    }

    fn three_ways(&self) -> Table {
        type Value = fn(&Row) -> String;
        let rows: [(&str, &str, Value); 6] = [
            ("periodic", "as printed", |row| whole(row.printed.periodic)),
            ("periodic", "formula 3.1 as written", |row| whole(row.formula_periodic)),
            ("periodic", "reading that agrees", |row| whole(row.agreeing.periodic)),
            ("tickless", "as printed", |row| whole(row.printed.tickless)),
            ("tickless", "formula 3.2 as written", |row| {
                let ends = [row.formula_tickless_least, row.formula_tickless_most];
                match ends[0] == ends[1] {
                    true => whole(ends[0]),
                    false => ends.map(whole).join(".."),
                }
            }),
            ("tickless", "reading that agrees", |row| whole(row.agreeing.tickless)),
        ];
        let names = self.scenarios.iter().map(|row| row.name);
        let caption = "Table 1 of the paper: VM exits in 10 s, 16 vCPUs for each VM, 250 Hz";
        let mut table = Table::new(caption, ["Mode"].into_iter().chain(names));
        for (place, (mode, how, value)) in rows.into_iter().enumerate() {
            if place % 3 == 0 {
                table.group(mode);
            }
            table.row(how, self.scenarios.iter().map(value));
        }
        table
    }

    fn readings_table(&self) -> Table {
        let caption = format!(
            "Readings under which W3 is {}, by what a synchronization blocks",
            whole(self.scenarios[2].printed.tickless)
        );
        let head = ["Exits are counted as", "Load", "Idle period", "W3", "Periodic", "W4 fits"];
        let mut table = Table::new(caption, head);
        let mut last = "";
        for reading in &self.readings {
            let (Some(load), Some(period), Some(exits)) =
                (reading.load, reading.idle_period, reading.tickless)
            else {
                continue;
            };
            let what = reading.counting.what;
            if std::mem::replace(&mut last, what) != what {
                table.group(what);
            }
            let agrees = *reading == self.agreeing;
            let mark = if agrees { "→ " } else { "" };
            let word = |yes: bool, word: &str| if yes { word } else { "no" }.to_string();
            table.row(
                format!("{mark}{}", waits(reading.waits)),
                [
                    share(load),
                    if period == 0.0 { "→ 0".into() } else { time(period) },
                    whole(exits),
                    word(reading.periodic_agrees, "agrees"),
                    or_nothing(reading.fits_w4, |fits| word(fits, "yes")),
                ],
            );
        }
        table
    }

    /// What no reading can be, from the readings that have no load.
    fn impossible() -> String {
        let (idle, busy) = most_waits(COUNTINGS[0], SYNCS * f64::from(VCPUS));
        let (_, once) = most_waits(COUNTINGS[1], SYNCS * f64::from(VCPUS));
        let percent = |share: f64| format!("{} %", decimal(share * 100.0));
        let each = readings()
            .iter()
            .filter(|reading| reading.syncs == Syncs::OfEachThread && reading.load.is_some())
            .count();
        let barrier = readings()
            .iter()
            .filter(|reading| reading.waits == Waits::AllButOne && reading.load.is_some())
            .count();
        format!(
            "If each thread synchronizes 1000 times per second, {each} of these readings hold, and \
             for a barrier at which 15 of 16 threads wait {barrier}: the idle periods alone are \
             more than 60 000 exits. It would take synchronizations of which at most {} block a \
             thread (as written, at a load of 0; {} at a load of 1), or {} (one exit per tick, at \
             a load of 1).",
            percent(idle),
            if busy < 0.0 { "none".to_string() } else { percent(busy) },
            percent(once),
        )
    }
}

fn waits(waits: Waits) -> &'static str {
    match waits {
        Waits::Half => "one thread, half the time",
        Waits::One => "one thread",
        Waits::Two => "two threads",
        Waits::AllButOne => "all threads but one",
    }
}

const LEGEND: [&str; 4] = [
    "→ the reading that makes both rows agree without changing what the paper states: 40 000 ticks \
     of vCPUs that are busy all the time, counted once, and 2 exits for each of 10 000 \
     synchronizations.",
    "125 Hz, 8 vCPUs and 5 s halve the ticks just as well, against the text. All with \"1000 times \
     per second\" for the VM as a whole.",
    "load, idle period: of each vCPU, as W3 = 60 000 needs them. → 0: the limit of idle periods \
     too short to count. periodic: whether the row for periodic ticks is then the printed 40 000.",
    "W4 fits: four such VMs' 64 vCPUs find the CPU time on 16 pCPUs. Where not, 240 000 is W3 \
     times four without regard to their sharing.",
];

// The heading states them; were they other, it would not be the paper's table.
const _: () = assert!(table1::VCPUS == 16 && table1::HZ.0 == 250);
