// SPDX-License-Identifier: GPL-2.0-only
//! Commands that measure what is in a report again, from the plans in its files.

use crate::{input::Input, set::cost_ns, set::Selection};
use paratick_core::{
    catalogue::sets::GuestSize,
    model::table1,
    results::{Environment, Plan, PlannedWorkload, Results},
    shell::quote,
    timeline::Timeline,
};
use std::fmt::Display;

/// One for every file that is shown, and one for the report.
pub fn commands(input: &Input, selection: &Selection) -> Vec<String> {
    let mut lines = Vec::new();
    let quick = selection.of("table1").any(|set| is_short(&set.main().plan));
    let results = selection.all().iter().flat_map(|set| set.by_cost());
    let results = results.map(|results| of_results(results, quick));
    for command in results.chain(input.timelines.iter().map(of_timeline)) {
        // The files of Table 1 come from one command.
        if !lines.contains(&command) {
            lines.push(command);
        }
    }
    lines.push("paratick report RESULT…".into());
    lines
}

/// Whether Table 1 was measured with `--quick`, which makes W3 and W4 shorter and has fewer rounds.
fn is_short(plan: &Plan) -> bool {
    let mut workloads = plan.workloads.iter();
    workloads.any(|w| w.workload == "W3" && w.work < table1::LAB_SYNCS)
}

fn of_results(results: &Results, short_table1: bool) -> String {
    let plan = &results.plan;
    let mut command = Command::new(&results.bench);
    match results.bench.as_str() {
        "quick" => {
            command.option("--vcpus", plan.vcpus);
            command.option("--workloads", names(&plan.workloads));
        }
        "table1" => command.option("--vcpus", plan.vcpus),
        "multithreaded" => {
            command.option("--sizes", GuestSize(plan.vcpus));
            command.programs(&plan.workloads);
        }
        "sequential" => command.programs(&plan.workloads),
        "io" => command.option("--tests", names(&plan.workloads)),
        _ => {}
    }
    let quick = match results.bench.as_str() {
        "table1" => short_table1,
        // A full run of programs adds rounds.
        "sequential" | "multithreaded" | "io" => plan.rounds_at_most.is_none(),
        _ => false,
    };
    if quick {
        command.flag("--quick");
    }
    command.option("--rounds", plan.rounds);
    if let Some(most) = plan.rounds_at_most {
        command.option("--rounds-at-most", most);
        if let Some(precision) = plan.precision {
            // Two digits are all that anybody gives, and what a fraction loses is not among them.
            command.option("--precision", (precision * 1e4).round() / 100.0);
        }
    }
    command.option("--repeat", plan.repeats);
    command.option("--modes", joined(&plan.modes));
    command.host(&results.environment);
    if results.environment.configuration.exit_cost_ns.is_some() {
        command.option("--exit-cost", cost_ns(results));
    }
    command.text
}

fn of_timeline(timeline: &Timeline) -> String {
    let mut command = Command::new("timeline");
    command.option("--vcpus", timeline.vcpus);
    command.option("--workload", &timeline.workload);
    let modes = timeline.lines.iter().map(|line| line.mode);
    command.option("--modes", joined(&modes.collect::<Vec<_>>()));
    if let Some(cost) = timeline.environment.configuration.exit_cost_ns {
        command.option("--exit-cost", cost);
    }
    command.text
}

struct Command {
    text: String,
}

impl Command {
    fn new(bench: &str) -> Command {
        Command {
            text: format!("paratick bench {bench}"),
        }
    }

    fn flag(&mut self, name: &str) {
        self.text += &format!(" {name}");
    }

    /// Left away where there is nothing to give.
    fn option(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        if !value.is_empty() {
            self.text += &format!(" {name} {}", quote(&value));
        }
    }

    /// Those of the bench by their names, the user's own with their commands.
    fn programs(&mut self, workloads: &[PlannedWorkload]) {
        let own = |w: &&PlannedWorkload| {
            let program = w.program.as_ref();
            program.is_some_and(|program| program.stands_for.is_none())
        };
        let known: Vec<_> = workloads.iter().filter(|w| !own(w)).cloned().collect();
        self.option("--programs", names(&known));
        for workload in workloads.iter().filter(own) {
            let command = workload.program.iter().map(|program| &program.command);
            for command in command {
                self.option("--program", format!("{}={command}", workload.workload));
            }
        }
    }

    fn host(&mut self, environment: &Environment) {
        let configuration = &environment.configuration;
        match configuration.accelerator.as_deref() {
            _ if configuration.host_is_machine => self.option("--host", "here"),
            Some("kvm") => self.option("--accel", "kvm"),
            _ => {}
        }
    }
}

fn names(workloads: &[PlannedWorkload]) -> String {
    let names = workloads.iter().map(|w| w.workload.as_str());
    names.collect::<Vec<_>>().join(",")
}

fn joined(items: &[impl Display]) -> String {
    let items = items.iter().map(|item| item.to_string());
    items.collect::<Vec<_>>().join(",")
}
