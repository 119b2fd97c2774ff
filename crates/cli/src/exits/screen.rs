// SPDX-License-Identifier: GPL-2.0-only
//! The terminal as a whole: taken, drawn on, and given back.

use super::top::{Step, Top};
use crate::signals;
use anyhow::{Context, Result};
use paratick_core::observed::Observed;
use paratick_observe::{Watch, STEP};
use ratatui::{
    backend::CrosstermBackend,
    crossterm::event::{self, Event},
    Terminal,
};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// How often the numbers are new.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Done,
    /// With the code to leave with.
    Interrupted(u8),
}

impl Ended {
    pub fn code(self) -> ExitCode {
        match self {
            Ended::Done => ExitCode::SUCCESS,
            Ended::Interrupted(code) => ExitCode::from(code),
        }
    }
}

/// Until somebody ends it, or the time is over: what was counted since the start.
pub fn run(watch: &mut Watch, time: Option<Duration>) -> Result<(Observed, Ended)> {
    signals::take_screen().context("the terminal cannot be drawn on")?;
    let shown = show(watch, time);
    signals::restore_terminal();
    shown
}

fn show(watch: &mut Watch, time: Option<Duration>) -> Result<(Observed, Ended)> {
    let mut terminal = Terminal::new(CrosstermBackend::new(std::io::stdout()))?;
    let mut top = Top::of(watch.read()?);
    let end = time.map(|time| Instant::now() + time);
    let mut next = Instant::now() + EVERY;
    let mut changed = true;
    loop {
        if changed {
            // After a signal the terminal is not ours any more.
            signals::give_way();
            terminal.draw(|frame| top.draw(frame))?;
        }
        let until = end.map_or(next, |end| end.min(next));
        let wait = until.saturating_duration_since(Instant::now()).min(STEP);
        changed = event::poll(wait)?;
        if changed {
            if let Event::Key(key) = event::read()? {
                match top.press(key) {
                    Step::Stay => {}
                    Step::Leave => return Ok((watch.read()?, Ended::Done)),
                    // As a shell says it of SIGINT.
                    Step::Interrupt => return Ok((watch.read()?, Ended::Interrupted(130))),
                }
            }
        }
        watch.look()?;
        if Instant::now() >= until {
            top.update(watch.read()?);
            next = Instant::now() + EVERY;
            changed = true;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok((watch.read()?, Ended::Done));
        }
    }
}
