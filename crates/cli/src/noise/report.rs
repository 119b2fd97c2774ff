// SPDX-License-Identifier: GPL-2.0-only
//! What `paratick noise` prints of a recording.

use paratick_bench::noise::Recorded;
use paratick_core::{
    noise::{
        budget, by_source, host_sources, ledger, Budget, Entry, Found, HostNoise, Ledger, Parts,
        Rank, Trial,
    },
    units::Nanos,
};
use paratick_view::{table::wrap, tables::noise as tables};
use serde::Serialize;

/// What `--format json` prints.
#[derive(Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    /// Why it is not all that was asked for.
    incomplete: Option<&'a str>,
    /// Of the gaps where a guest was asked, else of all exits.
    pub sources: Vec<Rank>,
    parts: Option<Parts>,
    unexplained_gaps: Option<usize>,
    /// What turning knobs would do, if a budget is given.
    pub budget: Option<Budget>,
    /// What turning them did.
    pub trial: Option<Trial>,
    /// What was found of the emulator's stalls.
    stalls: Option<Found>,
    pub ledger: Option<Ledger>,
    host: Option<&'a HostNoise>,
    /// Which of the host's processes the guest is, where both sides are joined.
    process: Option<u32>,
}

impl Report<'_> {
    pub fn of(recorded: &Recorded, most: Option<Nanos>) -> Report<'_> {
        let host = recorded.host.as_ref();
        let ledger = recorded.guest.as_ref().map(|guest| ledger(guest, recorded.joined()));
        let sources = match &ledger {
            Some(ledger) => {
                let events = ledger.entries.iter().flat_map(|entry| &entry.events);
                by_source(events.map(|event| (event.source.clone(), event.ns)))
            }
            None => host.map_or(Vec::new(), |host| host_sources(&host.absences)),
        };
        let sides = ledger.as_ref().zip(recorded.guest.as_ref()).zip(recorded.joined());
        let stalls =
            sides.zip(recorded.stalls).and_then(|(((ledger, guest), (host, process)), stalls)| {
                stalls.found(ledger, guest, host, process)
            });
        let told = |ledger: &&Ledger| recorded.joined().is_some() || ledger.exits().is_some();
        Report {
            schema: "paratick-noise/1",
            incomplete: recorded.incomplete.as_deref(),
            budget: ledger.as_ref().zip(most).map(|(ledger, most)| budget(ledger, most.0)),
            trial: None,
            stalls,
            sources,
            parts: ledger.as_ref().map(Ledger::parts),
            unexplained_gaps: ledger.as_ref().filter(told).map(Ledger::unexplained),
            ledger,
            host,
            process: recorded.process,
        }
    }

    fn much(&self, recorded: &Recorded) -> String {
        match (&self.ledger, &recorded.host) {
            (Some(ledger), _) => tables::cpus(ledger).text(),
            (None, Some(host)) if host.least_ns > 0 => tables::long(host, host.window_ns()).text(),
            (None, Some(host)) => {
                let classes = tables::classes(&host.absences, host.window_ns()).text();
                match tables::vms(host) {
                    Some(vms) => format!("{classes}\n{}", vms.text()),
                    None => classes,
                }
            }
            (None, None) => String::new(),
        }
    }

    /// With the longest gaps explained, so many, of those that are as long as that.
    pub fn text(&self, recorded: &Recorded, most: usize, least_ns: u64) -> String {
        let mut pieces: Vec<String> = self.incomplete.map(incomplete).into_iter().collect();
        pieces.push(self.much(recorded));
        if let Some(ledger) = &self.ledger {
            pieces.push(tables::parts(ledger, recorded.joined().is_some()).text());
            pieces.extend(tables::program(ledger).map(|said| wrap(&said)));
            pieces.extend(tables::exits(ledger).map(|exits| wrap(&exits)));
            if let (Some(host), None) = (&recorded.host, recorded.joined()) {
                pieces.push(tables::classes(&host.absences, host.window_ns()).text());
            }
        }
        if let Some((stalls, found)) = recorded.stalls.zip(self.stalls.as_ref()) {
            pieces.push(wrap(&tables::stalls(stalls, found)));
        }
        if let Some(audit) = recorded.host.as_ref().and_then(tables::audit) {
            pieces.push(wrap(&audit));
        }
        pieces.push(tables::ranks(&self.sources, "What it came from").text());
        let advice = tables::advice(&self.sources, self.ledger.is_some());
        if !advice.is_empty() {
            let lines = advice.iter().map(|line| wrap(&format!("- {line}")));
            pieces.push(format!("What to do about it\n{}", lines.collect::<String>()));
        }
        if let Some(budget) = &self.budget {
            pieces.push(tables::budget(budget).lines().map(wrap).collect());
        }
        if let Some(trial) = &self.trial {
            pieces.push(tables::trial(trial).text());
            let over = trial.over.iter().take(most);
            pieces.extend(chains("Longer than the budget with these knobs turned", over));
        }
        let gaps =
            self.ledger.as_ref().map_or(Vec::new(), |ledger| longest(ledger, most, least_ns));
        pieces.extend(chains("The longest gaps", gaps));
        if recorded.host.as_ref().is_some_and(|host| host.vmm_end_unknown) {
            pieces.push(wrap(
                "Where a VMM's time ended could not be seen: what KVM did before the next entry \
                 counts as the VMM's.",
            ));
        }
        if let Some(offload) = recorded.host.as_ref().and_then(|host| host.offload.as_ref()) {
            pieces.push(wrap(&format!(
                "The processor delivers interrupts itself ({offload}): EOIs, IPIs and interrupts \
                 that it deals with make no exit, and are in none of these tables."
            )));
        }
        pieces.join("\n")
    }
}

/// Before all else: the tables do not say it.
fn incomplete(why: &str) -> String {
    let why = why.lines().next().unwrap_or(why);
    wrap(&format!("Incomplete: {why}. This is what was recorded all the same."))
}

fn chains<'a>(title: &str, gaps: impl IntoIterator<Item = &'a Entry>) -> Option<String> {
    let lines: String = gaps.into_iter().map(|entry| wrap(&tables::chain(entry))).collect();
    Some(lines).filter(|lines| !lines.is_empty()).map(|lines| format!("{title}\n{lines}"))
}

fn longest(ledger: &Ledger, most: usize, least_ns: u64) -> Vec<&Entry> {
    let mut gaps: Vec<&Entry> = ledger.entries.iter().filter(|gap| gap.ns >= least_ns).collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.ns), gap.begin_ns));
    gaps.truncate(most);
    gaps
}
