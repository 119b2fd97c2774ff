// SPDX-License-Identifier: GPL-2.0-only
//! An agent's side of the conversation with the machine.

use crate::{
    guests::Guests,
    session::{self, Session},
};
use anyhow::{Context, Result};
use paratick_core::wire::{self, Frame, Ready, Reply, Request, SessionId, VERSION};
use std::{
    collections::HashMap,
    io::{Read, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Where an agent's frames go; shared by everything that has something to say.
pub struct Outbox {
    to: Mutex<Box<dyn Write + Send>>,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
}

impl Outbox {
    pub fn send(&self, frame: &Frame) {
        // A machine that is gone hears nothing; the reading side notices and ends the agent.
        let _ = frame.write(&mut *lock(&self.to));
    }

    pub fn reply(&self, reply: &Reply) {
        self.send(&Frame::message(reply));
    }

    pub fn failed(&self, session: SessionId, error: &anyhow::Error) {
        self.reply(&Reply::Failed {
            session,
            error: format!("{error:#}"),
        });
    }

    pub fn ended(&self, session: SessionId, code: i32, duration_ns: u64) {
        lock(&self.sessions).remove(&session);
        self.reply(&Reply::Exited {
            session,
            code,
            duration_ns,
        });
    }
}

/// What an agent can do.
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

/// Serves the machine until it closes the connection.
pub fn serve(
    mut from: impl Read,
    to: impl Write + Send + 'static,
    role: Role,
    ready: Ready,
) -> Result<()> {
    let out = Arc::new(Outbox {
        to: Mutex::new(Box::new(to)),
        sessions: Mutex::default(),
    });
    let guests = match role {
        Role::Guest => None,
        Role::Host { machine, state } => Some(Guests::new(machine, state, ready.cpus, out.clone())),
    };
    out.reply(&Reply::Ready(ready));
    while let Some(frame) = Frame::read(&mut from).context("reading from the machine")? {
        match (frame, &guests) {
            (Frame::Message(json), _) => handle(wire::parse(&json)?, &out, guests.as_ref()),
            (Frame::Data { session, bytes, .. }, _) => feed(&out, session, bytes),
            (Frame::Guest { guest, inner }, Some(guests)) => guests.pass_on(guest, &inner),
            (Frame::Guest { .. }, None) => {}
        }
    }
    Ok(())
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

fn handle(request: Request, out: &Arc<Outbox>, guests: Option<&Guests>) {
    match (request, guests) {
        (Request::Exec(request), _) => {
            let mut sessions = lock(&out.sessions);
            match session::start(&request, out) {
                Ok(session) => {
                    sessions.insert(request.session, session);
                }
                Err(error) => {
                    drop(sessions);
                    out.failed(request.session, &error);
                }
            }
        }
        (Request::CloseStdin { session }, _) => {
            if let Some(session) = find(out, session) {
                lock(&session.stdin).take();
            }
        }
        (Request::Resize { session, size }, _) => {
            if let Some(session) = find(out, session) {
                session.resize(size);
            }
        }
        (Request::StartGuest { guest, config }, Some(guests)) => guests.start(guest, *config),
        (Request::StopGuest { guest }, Some(guests)) => guests.stop(guest),
        (Request::StartCounting { session }, Some(guests)) => guests.start_counting(session),
        (Request::ReadWindows { session }, Some(guests)) => guests.read_windows(session),
        (Request::StartCounting { session } | Request::ReadWindows { session }, None) => {
            out.failed(session, &anyhow::anyhow!("exits are counted on the host"));
        }
        (Request::StartGuest { guest, .. } | Request::StopGuest { guest }, None) => {
            out.reply(&Reply::GuestEnded {
                guest,
                why: "this agent runs in a guest and starts none".into(),
            });
        }
    }
}

fn feed(out: &Outbox, session: SessionId, bytes: Vec<u8>) {
    let taken = match find(out, session) {
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

fn find(out: &Outbox, session: SessionId) -> Option<Arc<Session>> {
    lock(&out.sessions).get(&session).cloned()
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
