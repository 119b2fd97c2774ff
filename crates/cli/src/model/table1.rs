// SPDX-License-Identifier: GPL-2.0-only
//! `paratick model table1`.

use super::layout;
use crate::{
    bench::number::{decimal, NOTHING},
    options::Format,
};
use anyhow::Result;
use paratick_core::model::table1::{
    self, agreeing, most_waits, readings, Reading, Scenario, Syncs, Waits, COUNTINGS, SCENARIOS,
    SYNCS, VCPUS,
};
use serde::Serialize;

#[derive(Serialize)]
struct Answer {
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
    /// By the formulas as written.  For tickless at a load of 0 and of 1: the paper does not give it.
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

pub fn run(format: Format) -> Result<()> {
    let agreeing = agreeing();
    let answer = Answer {
        scenarios: SCENARIOS.map(|one| row(&one, &agreeing)).into(),
        agreeing,
        readings: readings(),
    };
    format.print(&answer, || answer.text())
}

fn row(scenario: &Scenario, agreeing: &Reading) -> Row {
    let (least, most) = scenario.formula_tickless();
    let vms = f64::from(scenario.vms);
    let counting = &agreeing.counting;
    let busy = agreeing.load.filter(|_| scenario.busy);
    Row {
        name: scenario.name,
        printed: Pair {
            periodic: scenario.periodic.into(),
            tickless: scenario.tickless.into(),
        },
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
    fn text(&self) -> String {
        let mut text =
            "Table 1 of the paper: VM exits in 10 s, 16 vCPUs for each VM, 250 Hz\n\n".to_string();
        text += &self.three_ways();
        text += "\n";
        text += &layout::paragraph(&format!(
            "The printed periodic row is half of what the formula gives: 2 × 10 s × {VCPUS} vCPUs × 250 Hz is {}. The tickless row needs a load and an idle period, which the paper does not give: by the formula it is {} to {} for W3, if each of its {SYNCS} synchronizations per second is one idle period.",
            layout::whole(self.scenarios[0].formula_periodic),
            layout::whole(self.scenarios[2].formula_tickless_least),
            layout::whole(self.scenarios[2].formula_tickless_most),
        ));
        text += &format!(
            "\nReadings under which W3 is {}\n\n",
            layout::whole(self.scenarios[2].printed.tickless)
        );
        text += &self.readings();
        text += "\n";
        for line in LEGEND {
            text += &layout::paragraph(line);
        }
        text += &layout::paragraph(&Self::impossible());
        text
    }

    fn three_ways(&self) -> String {
        let names = self.scenarios.iter().map(|row| row.name);
        let head: Vec<&str> = ["", ""].into_iter().chain(names).collect();
        let mut table = layout::table(&head);
        type Value = fn(&Row) -> String;
        let rows: [(&str, &str, Value); 6] = [
            ("periodic", "as printed", |row| {
                layout::whole(row.printed.periodic)
            }),
            ("", "formula 3.1 as written", |row| {
                layout::whole(row.formula_periodic)
            }),
            ("", "reading that agrees", |row| {
                layout::whole(row.agreeing.periodic)
            }),
            ("tickless", "as printed", |row| {
                layout::whole(row.printed.tickless)
            }),
            ("", "formula 3.2 as written", |row| {
                let (least, most) = (row.formula_tickless_least, row.formula_tickless_most);
                match least == most {
                    true => layout::whole(least),
                    false => format!("{}..{}", layout::whole(least), layout::whole(most)),
                }
            }),
            ("", "reading that agrees", |row| {
                layout::whole(row.agreeing.tickless)
            }),
        ];
        for (mode, how, value) in rows {
            let values = self.scenarios.iter().map(value);
            table.add_row(
                [mode.to_string(), how.to_string()]
                    .into_iter()
                    .chain(values),
            );
        }
        layout::show(table, 2)
    }

    fn readings(&self) -> String {
        let head = [
            "exits are counted as",
            "a synchronization blocks",
            "load",
            "idle period",
            "W3",
            "periodic",
            "W4 fits",
        ];
        let mut table = layout::table(&head);
        let mut last = "";
        for reading in &self.readings {
            let (Some(load), Some(period), Some(exits)) =
                (reading.load, reading.idle_period, reading.tickless)
            else {
                continue;
            };
            let what = reading.counting.what;
            let mark = if *reading == self.agreeing {
                "→ "
            } else {
                "  "
            };
            let shown = if what == last { "" } else { what };
            last = what;
            let period = if period == 0.0 {
                "→ 0".into()
            } else {
                layout::time(period)
            };
            let no = |yes: bool| if yes { "agrees" } else { "no" }.to_string();
            table.add_row([
                shown.to_string(),
                format!("{mark}{}", waits(reading.waits)),
                layout::share(load),
                period,
                layout::whole(exits),
                no(reading.periodic_agrees),
                reading
                    .fits_w4
                    .map_or(NOTHING, |fits| if fits { "yes" } else { "no" })
                    .into(),
            ]);
        }
        layout::show(table, 2)
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
            "If each thread synchronizes 1000 times per second, {each} of these readings hold, and for a barrier at which 15 of 16 threads wait {barrier}: the idle periods alone are more than 60 000 exits. It would take synchronizations of which at most {} block a thread (as written, at a load of 0; {} at a load of 1), or {} (one exit per tick, at a load of 1).",
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
    "→ the reading that makes both rows agree without changing what the paper states: 40 000 ticks of vCPUs that are busy all the time, counted once, and 2 exits for each of 10 000 synchronizations.",
    "125 Hz, 8 vCPUs and 5 s halve the ticks just as well, against the text. All with \"1000 times per second\" for the VM as a whole.",
    "load, idle period: of each vCPU, as W3 = 60 000 needs them. → 0: the limit of idle periods too short to count. periodic: whether the row for periodic ticks is then the printed 40 000.",
    "W4 fits: four such VMs' 64 vCPUs find the CPU time on 16 pCPUs. Where not, 240 000 is W3 times four without regard to their sharing.",
];

// The heading states them; were they other, it would not be the paper's table.
const _: () = assert!(table1::VCPUS == 16 && table1::HZ.0 == 250);
