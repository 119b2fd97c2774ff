// SPDX-License-Identifier: GPL-2.0-only
//! `paratick tune halt-poll`.

use crate::{
    errors::usage,
    input,
    options::{check_agent, duration, number, refuse, Format, LabOptions},
    print::errln,
    progress,
};
use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum};
use paratick_bench::tune::{self, Interrupted, Load};
use paratick_core::{
    event::Events,
    halts::{
        calibrate, regret, stock_rules, verify, Candidate, Floor, Halts, HostRule, Regret, Rule,
        Side, Tally, Verdict, Verified,
    },
};
use paratick_machine::{guest::Guest, host::Host, spec::Clock};
use paratick_view::{table::wrap, tables::halts as tables};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// What a block costs where nobody says and the recording does not tell: what KVM's own rule polls
/// for at first.
const COST: u32 = 10_000;

/// Instructions in a round of the lab's parallel clock, so about ns: the shortest polls take less
/// than its usual 4000.
const ROUND: u32 = 200;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    lab: LabOptions,
    /// Read halts that were saved before, and record nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "apply", "time"])]
    recording: Option<PathBuf>,
    /// For how long to record this machine's guests
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    time: Duration,
    /// What it costs to block and to wake up [default: as the recording says, else 10000]
    #[arg(long, value_name = "NS", value_parser = number(1..=10_000_000))]
    cost: Option<u32>,
    /// Keep what was recorded, for --recording
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Set the host to this rule, or to the best that its kernel has, record again, and set it back
    /// if the prediction does not come true: none, 2021, paper, default, or NS,GROW,START,SHRINK
    #[arg(long, value_name = "RULE", require_equals = true, value_parser = stock)]
    apply: Option<Option<HostRule>>,
    /// Whose polling: KVM's, before it lets a vCPU's thread sleep, or the lab guest's own, before
    /// it halts (needs a mode with +poll)
    #[arg(long, value_name = "SIDE", default_value = "host")]
    side: SideOption,
    /// Stop the command after this (wall-clock) time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
    /// What the lab's guest runs while it is recorded, with arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SideOption {
    Host,
    Guest,
}

/// A rule that stock parameters can express.
fn stock(text: &str) -> Result<HostRule, String> {
    let rule: HostRule = text.parse().map_err(|error| format!("{error}"))?;
    match rule.floor {
        Floor::ToZero => Ok(rule),
        _ => Err("only a kernel of the lab has another floor than Linux".into()),
    }
}

/// A host with what makes its vCPUs halt.
struct Subject<'a> {
    options: &'a Options,
    host: Host,
    guest: Option<Guest>,
    argv: Vec<String>,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    options.lab.check_recorded(options.recording.is_some())?;
    if let Some(file) = &options.recording {
        const WHAT: &str = "a file that `paratick tune halt-poll --save FILE` wrote";
        let text = input::text("replay", file, WHAT)?;
        let halts: Halts = serde_json::from_str(&text).map_err(|error| {
            let hint = format!("hint: give {WHAT}");
            input::wrong("replay", file, format!("it is no recording of halts: {error}\n{hint}"))
        })?;
        return show(options, &halts).map(|_| ExitCode::SUCCESS);
    }
    options.check()?;
    let (subject, halts) = progress::during(|events| {
        let subject = Subject::boot(options, events)?;
        if options.apply.is_some() && subject.guest.is_some() {
            // The first run of a program is not like those that follow: it fills caches.
            subject.record()?;
        }
        let halts = subject.record();
        Ok((subject, halts))
    })?;
    let halts = halts.or_else(|error| keep(options, error))?;
    if let Some(file) = &options.save {
        input::keep(file, &halts)?;
    }
    let judged = show(options, &halts)?;
    let code = match options.apply {
        Some(rule) => apply(&subject, rule, &judged, &halts)?,
        None => ExitCode::SUCCESS,
    };
    subject.end()?;
    Ok(code)
}

/// What was recorded until it failed is shown and saved all the same.
fn keep(options: &Options, error: anyhow::Error) -> Result<Halts> {
    if let Some(Interrupted(halts)) = error.downcast_ref() {
        if let Some(file) = &options.save {
            input::keep(file, halts)?;
        }
        show(options, halts)?;
    }
    Err(error)
}

impl Options {
    fn check(&self) -> Result<()> {
        if self.lab.host.host.boots() {
            refuse(&["time"], "in the lab: the recording ends with the command")?;
        }
        if let Some(file) = &self.save {
            input::check_writable(file)?;
        }
        if self.side == SideOption::Guest {
            if !self.lab.host.host.boots() {
                return Err(usage(
                    "a guest's own polling is recorded in the lab only\n\
                     hint: omit --host here, or --side guest",
                ));
            }
            if self.apply.is_some() {
                return Err(usage(
                    "--apply sets the host\n\
                     hint: give the guest its rule at boot, by a mode such as +poll-50k",
                ));
            }
        }
        match (self.lab.host.host.boots(), self.command.is_empty()) {
            (true, true) => Err(usage(
                "nothing is to run in the lab's guest\n\
                 hint: end the command line in `-- COMMAND`, or record this machine's guests with \
                 --host here",
            )),
            (false, false) => Err(usage(
                "a command is for a guest of the lab's\n\
                 hint: omit it with --host here: what runs in its guests is recorded",
            )),
            (true, false) => check_agent(),
            (false, true) => Ok(()),
        }
    }
}

impl Subject<'_> {
    fn boot<'a>(options: &'a Options, events: Events) -> Result<Subject<'a>> {
        let argv = options.command.clone();
        if !options.lab.host.host.boots() {
            let (host, tools) = options.lab.machine()?;
            let host = Host::boot(host, &tools, events)?;
            return Ok(Subject { options, host, guest: None, argv });
        }
        let mut plan = options.lab.plan(Clock::Leaping, events)?;
        plan.host.emulation.round = options.lab.parallel_clock.then_some(ROUND);
        let (host, guest) = plan.boot(events)?;
        Ok(Subject { options, host, guest: Some(guest), argv })
    }

    fn record(&self) -> Result<Halts> {
        let load = match &self.guest {
            Some(guest) if self.options.side == SideOption::Guest => {
                return tune::record_in(guest, &self.argv, self.options.timeout);
            }
            Some(guest) => Load::Command { guest, argv: &self.argv, limit: self.options.timeout },
            None => Load::Time(self.options.time),
        };
        tune::record(&self.host, &load)
    }

    fn end(self) -> Result<()> {
        self.guest.map_or(Ok(()), Guest::shutdown)?;
        self.host.shutdown()
    }
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// Where the cost of a block comes from: `option`, `recording` or `default`.
    cost_from: &'static str,
    recorded: Tally,
    /// Of each vCPU: whether the rule that was in force says what was traced.
    verified: Vec<Option<Verified>>,
    #[serde(flatten)]
    regret: &'a Regret,
}

/// What a recording says under all rules.
struct Judged {
    regret: Regret,
    cost_from: &'static str,
    now: Option<Rule>,
}

fn judge(options: &Options, halts: &Halts) -> Judged {
    let wake = calibrate(halts);
    let (cost, cost_from) = match (options.cost, wake) {
        (Some(cost), _) => (cost, "option"),
        (None, Some(cost)) => (cost, "recording"),
        (None, None) => (COST, "default"),
    };
    // All are of one side.
    let side = halts.vcpus.first().map_or(Side::Host, |vcpu| vcpu.side);
    let now = tune::rule(halts);
    let mut rules = stock_rules(side, now, cost);
    if let Some(rule) = options.apply.flatten().map(Rule::Host) {
        if rules.iter().all(|one| one.rule != rule) {
            rules.push(Candidate { name: rule.to_string(), rule });
        }
    }
    let costs = (cost, wake.unwrap_or(0));
    Judged { regret: regret(halts, side, costs, &rules, now), cost_from, now }
}

fn show(options: &Options, halts: &Halts) -> Result<Judged> {
    let judged = judge(options, halts);
    let verified: Vec<_> = halts.vcpus.iter().map(|vcpu| verify(vcpu).ok()).collect();
    let report = Report {
        schema: "paratick-tune-halt-poll/1",
        cost_from: judged.cost_from,
        recorded: Tally::of_all(halts),
        verified,
        regret: &judged.regret,
    };
    options.format.print(&report, || text(halts, &report))?;
    Ok(judged)
}

fn text(halts: &Halts, report: &Report) -> String {
    let cost = match report.cost_from {
        "option" => "The cost of a block is the one given.",
        "recording" => {
            "The cost of a block is how long it took to wake up from one, in half of them at most; \
             give another one with --cost."
        }
        _ => "Too few halts blocked to tell the cost of a block; give it with --cost.",
    };
    let mut text = format!(
        "{}\n{}\n{}\n{}{}",
        tables::wakers(halts).text(),
        tables::limits(halts).text(),
        tables::regret(report.regret).text(),
        wrap(cost),
        wrap(&replayed(&report.verified)),
    );
    if let Some(advice) = &report.regret.advice {
        text += &wrap(&format!("Best: {}: {}.", advice.name, advice.reason));
    }
    text
}

/// Whether the rule in force, replayed, says what was traced.
fn replayed(verified: &[Option<Verified>]) -> String {
    let known: Vec<&Verified> = verified.iter().flatten().collect();
    if known.is_empty() {
        return "The rule in force could not be replayed: it is not known, \
                or not what it learned before."
            .into();
    }
    let sum = |of: &dyn Fn(&Verified) -> u64| known.iter().map(|one| of(one)).sum::<u64>();
    let (compared, changes) = (sum(&|one| one.compared), sum(&|one| one.changes));
    let unknown = sum(&|one| one.unknown);
    match known.iter().find_map(|one| one.difference.as_ref()) {
        Some(difference) => {
            format!("The rule in force, replayed, differs from the trace: {difference}")
        }
        None => format!(
            "The rule in force, replayed, is as traced: {compared} halts, {changes} changes of the \
             limit ({unknown} halts before the first known limit)."
        ),
    }
}

/// Sets a rule, or the best one that stock kernels have, records again, and sets it back where that
/// was wrong.
fn apply(
    subject: &Subject,
    rule: Option<HostRule>,
    before: &Judged,
    halts: &Halts,
) -> Result<ExitCode> {
    let advice = before.regret.advice.as_ref().context("nothing halted")?;
    let wanted = rule.map_or(advice.rule, Rule::Host);
    let row = before.regret.rows.iter().find(|row| row.rule == wanted).context("no such rule")?;
    if let Some(Rule::Learned(_)) = before.now {
        bail!(
            "KVM's other parameters have no effect while it learns for how long to poll\n\
             hint: echo N > /sys/module/kvm/parameters/halt_poll_learn, or --halt-poll default"
        );
    }
    let (Rule::Host(rule), Some(Rule::Host(now))) = (wanted, before.now) else {
        bail!("the rule in force is not known\nhint: change no parameter while it is recorded");
    };
    if rule == now {
        let best = if wanted == advice.rule { "the best" } else { "that already" };
        errln!("applied: nothing; the rule in force is {best}");
        return Ok(ExitCode::SUCCESS);
    }
    tune::set(&subject.host, &rule)?;
    let after = subject.record();
    let verdict = after.map(|after| {
        let measured = Tally::of_all(&after);
        Verdict::new(before.regret.cost_ns, &Tally::of_all(halts), &row.expected, &measured)
    });
    match verdict {
        Ok(verdict) if verdict.came_true() => {
            errln!("applied: {} ({rule})\n{verdict}", row.name);
            Ok(ExitCode::SUCCESS)
        }
        Ok(verdict) => {
            tune::set(&subject.host, &now)?;
            errln!("not applied: {} ({rule}); set back to {now}\n{verdict}", row.name);
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            tune::set(&subject.host, &now)?;
            Err(error.context("recording again; the host is set back"))
        }
    }
}
