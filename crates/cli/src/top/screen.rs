// SPDX-License-Identifier: GPL-2.0-only
//! The terminal as a whole: taken, drawn on, and given back.

use super::{Pages, Top};
use crate::{
    errors::usage,
    signals::{self, Leaving},
};
use anyhow::{Context, Result};
use ratatui::{
    backend::CrosstermBackend,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers},
    Terminal,
};
use std::{
    cell::RefCell,
    io::{stdout, IsTerminal, Stdout},
    process::ExitCode,
    time::{Duration, Instant},
};

/// How often the numbers are new.
pub const EVERY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Given back when it is dropped.
pub struct Screen<P> {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// None before the first numbers.
    top: Option<Top<P>>,
    ended: Option<Ended>,
}

impl<P: Pages> Screen<P> {
    /// Before anything else is done.
    pub fn check() -> Result<()> {
        if stdout().is_terminal() {
            return Ok(());
        }
        Err(usage("--top needs a terminal\nhint: omit --top, and say how long with --for"))
    }

    pub fn take() -> Result<Screen<P>> {
        signals::take_screen().context("the terminal cannot be drawn on")?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(Screen { terminal, top: None, ended: None })
    }

    /// The numbers that are shown from now on.
    pub fn show(&mut self, pages: P) -> Result<()> {
        match &mut self.top {
            Some(top) => top.pages = pages,
            None => self.top = Some(Top::of(pages)),
        }
        self.draw()
    }

    fn draw(&mut self) -> Result<()> {
        // After a signal the terminal is not ours any more.
        signals::give_way();
        let top = &self.top;
        self.terminal.draw(|frame| match top {
            Some(top) => top.draw(frame),
            None => frame.render_widget("recording …", frame.area()),
        })?;
        Ok(())
    }

    /// Waits for keys so long at most, and does what they ask for.
    pub fn attend(&mut self, time: Duration) -> Result<()> {
        let mut wait = time;
        while event::poll(wait)? {
            wait = Duration::ZERO;
            if let Event::Key(key) = event::read()? {
                match (leaves(key), &mut self.top) {
                    (Some(ended), _) => self.ended = Some(ended),
                    (None, Some(top)) => top.press(key),
                    (None, None) => {}
                }
            }
            self.draw()?;
        }
        Ok(())
    }

    /// How somebody wants it to end.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }
}

impl<P> Drop for Screen<P> {
    fn drop(&mut self) {
        signals::restore_terminal();
    }
}

fn leaves(key: KeyEvent) -> Option<Ended> {
    match key.code {
        KeyCode::Char('q') => Some(Ended::Done),
        // As a shell says it of SIGINT.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Ended::Interrupted(130))
        }
        _ => None,
    }
}

/// One recording after the other, each of the time that is given, up to the moment when what it is
/// given with says that somebody wants to leave.
pub fn windows<P: Pages>(
    time: Option<Duration>,
    leaving: &Leaving,
    mut record: impl FnMut(Duration, &dyn Fn() -> bool) -> Result<P>,
) -> Result<ExitCode> {
    let screen = RefCell::new(Screen::take()?);
    let failed = RefCell::new(None);
    let leave = || {
        let mut screen = screen.borrow_mut();
        if let Err(error) = screen.attend(Duration::ZERO) {
            *failed.borrow_mut() = Some(error);
            return true;
        }
        leaving.wanted() || screen.ended().is_some()
    };
    let end = time.map(|time| Instant::now() + time);
    screen.borrow_mut().draw()?;
    loop {
        let left = end.map_or(EVERY, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(ExitCode::SUCCESS);
        }
        let pages = record(left.min(EVERY), &leave)?;
        if let Some(error) = failed.borrow_mut().take() {
            return Err(error);
        }
        if leaving.wanted() {
            return Ok(leaving.code());
        }
        let mut screen = screen.borrow_mut();
        if let Some(ended) = screen.ended() {
            return Ok(ended.code());
        }
        screen.show(pages)?;
    }
}
