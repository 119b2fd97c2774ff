// SPDX-License-Identifier: GPL-2.0-only
//! Leaving by a signal: no process and no half-written file stays behind.

use anyhow::{Context, Result};
use paratick_machine::run_folder;
use paratick_service::lock;
use ratatui::crossterm::{
    cursor::{Hide, Show},
    execute,
    terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen},
};
use rustix::termios::{tcsetattr, OptionalActions, Termios};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    iterator::Signals,
};
use std::{
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, LazyLock, Mutex, Once,
    },
    thread,
};

/// How the terminal was before a shell took it over.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether it is drawn on as a whole.
static SCREEN: AtomicBool = AtomicBool::new(false);

static LEAVING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

pub fn watch() -> Result<()> {
    for signal in ENDING {
        flag::register(signal, LEAVING.clone()).context("watching for signals")?;
    }
    let mut signals = Signals::new(ENDING).context("watching for signals")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            end(signal);
        }
    });
    Ok(())
}

fn end(signal: i32) -> ! {
    restore_terminal();
    paratick_bench::finish_writing();
    paratick_bench::noise::end_traces();
    run_folder::clean_up();
    std::process::exit(128 + signal);
}

/// For a recording that may end early: the first signal asks it to, a second one ends the program.
pub struct Leaving(Arc<AtomicUsize>);

impl Leaving {
    pub fn watch() -> Result<Leaving> {
        let code = Arc::new(AtomicUsize::new(0));
        let mut signals = Signals::new(ENDING).context("watching for signals")?;
        let told = Arc::clone(&code);
        thread::spawn(move || {
            for signal in signals.forever() {
                if told.swap(128 + signal as usize, Ordering::SeqCst) != 0 {
                    end(signal);
                }
            }
        });
        Ok(Leaving(code))
    }

    pub fn wanted(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.0.load(Ordering::SeqCst) as u8)
    }
}

/// For what is whole at any time: the first signal only sets the code to leave with, and a second
/// one ends the program.
pub fn watch_for_end() -> Result<Arc<AtomicUsize>> {
    let (twice, code) = (Arc::default(), Arc::default());
    for signal in ENDING {
        let end = 128 + signal;
        flag::register_conditional_shutdown(signal, end, Arc::clone(&twice))
            .and_then(|_| flag::register(signal, Arc::clone(&twice)))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&code), end as usize))
            .context("watching for signals")?;
    }
    Ok(code)
}

/// For whoever has failed: if a signal is why, it also says how the program ends.
pub fn give_way() {
    while LEAVING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// What [`restore_terminal`] goes back to.
pub fn remember_terminal(termios: Termios) {
    *lock(&TERMINAL) = Some(termios);
}

/// Draws on the whole terminal from now on, up to [`restore_terminal`], which a panic calls, too.
pub fn take_screen() -> Result<()> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            report(panic);
        }));
    });
    SCREEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    Ok(execute!(std::io::stdout(), EnterAlternateScreen, Hide)?)
}

pub fn restore_terminal() {
    if SCREEN.swap(false, Ordering::SeqCst) {
        // Nothing can be done about a terminal that is gone.
        let _ = disable_raw_mode();
        let _ = execute!(std::io::stdout(), LeaveAlternateScreen, Show);
    }
    let taken = lock(&TERMINAL).take();
    if let Some(termios) = taken {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &termios);
    }
}
