// SPDX-License-Identifier: GPL-2.0-only
//! Figures that stand alone: an SVG with its style in it.

use crate::{
    number::nanos,
    page::STYLE,
    section,
    svg::{
        bars::{Bar, Bars, Group},
        canvas::Size,
    },
};
use paratick_core::{
    noise::{Ledger, Moment},
    results::Results,
    wakeups::Offender,
};

/// As many as one looks at.
const SHOWN: usize = 12;

/// What keeps a guest busy, by exits and their causes.
pub fn wakers(offenders: &[Offender], window_ns: u64) -> String {
    let bars = offenders.iter().take(SHOWN).map(|one| Bar {
        label: match one.source.process() {
            Some(process) => format!("{} ({})", one.source, process.name),
            None => one.source.to_string(),
        },
        total: Some(one.all_exits() as f64),
        parts: one.exits.iter().map(|(cause, count)| (*cause, *count as f64)).collect(),
    });
    let title = format!("VM exits in {}, by what woke the vCPU", nanos(window_ns));
    let group = Group { title: title.clone(), bars: bars.collect() };
    let description = "A stacked bar for each source, with a part for each cause of its exits.";
    let drawn = Bars { groups: vec![group] }.draw(Size::Wide, "idle", &title, description);
    alone(&drawn)
}

/// What a guest's CPUs lost to steal, and to KVM and its VMM, over time.
pub fn noise(ledger: &Ledger, begin_ns: u64) -> String {
    let moments = paratick_core::noise::moments(ledger, begin_ns);
    alone(&section::noise_drawn(ledger.window_ns, &moments))
}

/// The same of several recordings: the name of each, how long it was, and its parts.
pub fn noises(all: &[(String, u64, &[Moment])]) -> String {
    alone(&section::noises_drawn(all))
}

/// One idle cycle in each mode: a lane for each, with exits.
pub fn cycles(results: &Results) -> String {
    alone(&section::cycles_drawn(results))
}

/// With a name space and a style of its own.
fn alone(svg: &str) -> String {
    let (head, body) = svg.split_once('>').expect("an SVG begins with its tag");
    let head = head.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    format!("{head}><style><![CDATA[\n{STYLE}]]></style>{body}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::{
        cause::Cause,
        wakeups::{Class, Process, Source, Timer},
    };

    #[test]
    fn a_figure_names_sources_with_their_process_and_stands_alone() {
        let process = Some(Process { pid: Some(7), name: "a<b".into(), unit: None });
        let timer =
            Timer { function: "hrtimer_wakeup".into(), class: Class::Slack, process, start: None };
        let offender = Offender {
            source: Source::Timer { timer },
            processes: 1,
            wakeups: 20,
            expiries: 20,
            exits: [(Cause::Arm, 40), (Cause::Halt, 20)].into(),
            exits_alone: 60,
            pcpu_wakeups: 20,
        };
        let figure = wakers(&[offender], 1_000_000_000);
        for part in ["xmlns=", "hrtimer_wakeup (a&lt;b)", ">60<", "class=\"arm\"", "</svg>"] {
            assert!(figure.contains(part), "{part}: {figure}");
        }
    }
}
