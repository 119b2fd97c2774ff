// SPDX-License-Identifier: GPL-2.0-only
//! An agent's side of the conversation with the machine.

use crate::{
    guests::Guests,
    lock,
    outbox::Outbox,
    session::{self, Session},
};
use anyhow::{Context, Result};
use paratick_core::wire::{self, Frame, Ready, Reply, Request, SessionId, VERSION};
use paratick_instruments::Instruments;
use serde_json::Value;
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

type Sessions = Arc<Mutex<HashMap<SessionId, Arc<Session>>>>;

pub enum Role {
    /// Runs commands.
    Guest,
    /// Runs commands and guests.
    Host {
        /// The machine's root file system on this host.
        machine: PathBuf,
        /// A folder for sockets.
        state: PathBuf,
    },
}

/// Takes over the machine's root file system, for [`Request::Enter`]; gets what is to be shown.
pub type Enter = fn(&[PathBuf]) -> Result<()>;

/// Serves the machine until it closes the connection.
pub fn serve(
    mut from: impl Read,
    to: impl Write + Send + 'static,
    role: Role,
    enter: Enter,
    ready: Ready,
) -> Result<()> {
    let out = Arc::new(Outbox::new(to));
    let sessions = Sessions::default();
    let guests = match role {
        Role::Guest => None,
        Role::Host { machine, state } => Some(Guests::new(machine, state, ready.cpus, out.clone())),
    };
    // They end with the connection, and leave the kernel as it was.
    let mut instruments = Instruments::default();
    out.reply(&Reply::Ready(ready));
    while let Some(frame) = Frame::read(&mut from).context("reading from the machine")? {
        match (frame, &guests) {
            (Frame::Message(json), _) => {
                let request = wire::parse(&json)?;
                handle(request, &out, &sessions, guests.as_ref(), &mut instruments, enter);
            }
            (Frame::Data { session, bytes, .. }, _) => feed(&out, &sessions, session, bytes),
            (Frame::Guest { guest, inner }, Some(guests)) => guests.pass_on(guest, &inner),
            (Frame::Guest { .. }, None) => {}
        }
    }
    Ok(())
}

/// As the machine has it: a system that was kept believes that no time has passed.
fn set_time(now_ns: u64) -> Result<()> {
    use rustix::time::{clock_settime, ClockId, Timespec};
    let second = 1_000_000_000;
    let now = Timespec { tv_sec: (now_ns / second) as i64, tv_nsec: (now_ns % second) as i64 };
    clock_settime(ClockId::Realtime, now).context("setting the clock")
}

/// This system as it presents itself; `uptime` comes from its own clock.
pub fn ready() -> Ready {
    let uname = rustix::system::uname();
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    Ready {
        version: VERSION,
        kernel: uname.release().to_string_lossy().into_owned(),
        cpus: crate::online_cpus(),
        command_line: command_line.trim().to_string(),
        unknown_parameters: unknown_parameters(),
        uptime_ns: uptime.tv_sec as u64 * 1_000_000_000 + uptime.tv_nsec as u64,
    }
}

/// The kernel makes arguments and, where there is a `=`, variables of its first process of them.
fn unknown_parameters() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (arguments, variables) = (read("/proc/1/cmdline"), read("/proc/1/environ"));
    let unknown = arguments.split('\0').skip(1).chain(variables.split('\0'));
    unknown.collect::<Vec<_>>().join(" ").trim().to_string()
}

fn handle(
    request: Request,
    out: &Arc<Outbox>,
    sessions: &Sessions,
    guests: Option<&Guests>,
    instruments: &mut Instruments,
    enter: Enter,
) {
    match (request, guests) {
        (Request::ReadFiles { session, files }, _) => {
            let text = |file| fs::read_to_string(file).ok().map(|text| text.trim().to_string());
            let found: Vec<_> = files.iter().map(text).collect();
            out.reading(session, Ok(found.into()));
        }
        (Request::Wait { session, ns }, _) => {
            let out = out.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_nanos(ns));
                out.reading(session, Ok(Value::Null));
            });
        }
        (Request::Enter { session, now_ns, show }, _) => {
            let entered = enter(&show).and_then(|()| set_time(now_ns));
            out.reading(session, entered.map(|()| Value::Null));
        }
        (Request::Exec(request), _) => {
            let id = request.session;
            let all = sessions.clone();
            let mut running = lock(sessions);
            match session::start(&request, out, move || drop(lock(&all).remove(&id))) {
                Ok(session) => drop(running.insert(id, session)),
                Err(error) => out.failed(id, &error),
            }
        }
        (Request::CloseStdin { session }, _) => {
            if let Some(session) = find(sessions, session) {
                lock(&session.stdin).take();
            }
        }
        (Request::Resize { session, size }, _) => {
            if let Some(session) = find(sessions, session) {
                session.resize(size);
            }
        }
        (Request::StartGuest { guest, config, tools }, Some(guests)) => {
            guests.start(guest, *config, tools)
        }
        (Request::StopGuest { guest }, Some(guests)) => guests.stop(guest),
        (Request::StartInstrument { session, name }, _) => {
            out.reading(session, instruments.start(&name).map(|()| Value::Null));
        }
        (Request::ReadInstrument { session, name }, _) => {
            out.reading(session, instruments.read(&name));
        }
        (Request::StopInstrument { session, name }, _) => {
            instruments.stop(&name);
            out.reading(session, Ok(Value::Null));
        }
        (Request::StartGuest { guest, .. } | Request::StopGuest { guest }, None) => {
            out.reply(&Reply::GuestEnded {
                guest,
                why: "this agent runs in a guest and starts none".into(),
            });
        }
    }
}

fn feed(out: &Outbox, sessions: &Sessions, session: SessionId, bytes: Vec<u8>) {
    let taken = match find(sessions, session) {
        Some(session) => match &*lock(&session.stdin) {
            Some(stdin) => stdin.send(bytes).is_ok(),
            None => false,
        },
        None => false,
    };
    if !taken {
        // The command has ended or reads nothing: do not leave the machine waiting.
        out.reply(&Reply::StdinTaken { session });
    }
}

fn find(sessions: &Sessions, session: SessionId) -> Option<Arc<Session>> {
    lock(sessions).get(&session).cloned()
}
