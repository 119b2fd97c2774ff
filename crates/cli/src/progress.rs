// SPDX-License-Identifier: GPL-2.0-only
//! Renders the machinery's events on standard error: a bar on a terminal, plain lines elsewhere.

use crate::{
    print::{errln, printable},
    words,
};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use paratick_core::event::{Event, Events};
use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

/// Where there is no terminal, how often a long step says how far it is.
const QUIET: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: Option<ProgressBar>,
    /// When the last plain line was printed, and what for.
    said: Instant,
    step: String,
}

pub fn during<T>(work: impl FnOnce(Events) -> Result<T>) -> Result<T> {
    let mut progress = Progress::new();
    work(&mut |event| progress.show(event))
}

impl Progress {
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, said: Instant::now(), step: String::new() }
    }

    pub fn show(&mut self, event: Event) {
        match event {
            Event::Warning(warning) => self.line(&format!("warning: {}", words::warning(&warning))),
            Event::Step(step) => self.begin(words::step(&step)),
            Event::Progress { done, total, left } => self.advance(done, total, left),
        }
    }

    fn begin(&mut self, text: String) {
        match &self.bar {
            Some(bar) => {
                bar.unset_length();
                bar.set_style(style("{spinner} {msg}"));
                bar.set_message(text.clone());
            }
            None => errln!("{text}"),
        }
        self.said = Instant::now();
        self.step = text;
    }

    fn advance(&mut self, done: u64, total: Option<u64>, left: Option<Duration>) {
        let left = left.map_or(String::new(), |left| format!(", {} left", minutes(left)));
        let share = match total {
            Some(total) => format!("{} %", (done * 100 / total.max(1)).min(99)),
            None => format!("{done} steps"),
        };
        if let Some(bar) = &self.bar {
            if let Some(total) = total {
                bar.set_length(total);
                bar.set_position(done.min(total));
                bar.set_style(style("{spinner} {msg} {bar:30}"));
            }
            bar.set_message(format!("{}: {share}{left}", self.step));
        } else if self.said.elapsed() > QUIET {
            errln!("  {share}{left}");
            self.said = Instant::now();
        }
    }

    fn line(&self, text: &str) {
        let text = printable(text);
        match &self.bar {
            Some(bar) => bar.println(text),
            None => errln!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
