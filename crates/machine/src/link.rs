// SPDX-License-Identifier: GPL-2.0-only
//! The machine's end of the conversation with the agents: one socket, many listeners.

use crate::{
    console::Watcher,
    failure::{Failure, Trouble},
};
use anyhow::{bail, Context, Result};
use paratick_core::wire::{self, Frame, GuestId, Ready, Reply, Request, SessionId, Stream};
use paratick_service::lock;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    os::unix::net::UnixStream,
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc, Condvar, Mutex, PoisonError,
    },
    thread,
    time::{Duration, Instant},
};

/// The host's own agent; guests are numbered from 1.
pub const HOST: GuestId = 0;

/// How long a complaining kernel may go on explaining itself.
const SETTLE: Duration = Duration::from_millis(1500);
/// Output that nobody has taken yet: beyond this the agents wait.
const MOST_QUEUED: usize = 8 << 20;

/// Gets every console line: where it came from, and the line.
pub type ConsoleSink = Arc<dyn Fn(&str, &str) + Send + Sync>;

#[derive(Debug)]
pub enum Incoming {
    Data(Stream, Vec<u8>),
    Exited { code: i32, duration_ns: u64 },
    Failed(String),
    Reading(serde_json::Value),
}

#[derive(Default)]
pub struct Peer {
    pub ready: Option<Ready>,
    pub started: Option<Started>,
    ended: Option<String>,
    watcher: Watcher,
    complained: Option<Instant>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Started {
    pub pid: u32,
    pub command_line: Vec<String>,
    pub pins: Vec<u32>,
}

#[derive(Default)]
pub struct State {
    peers: HashMap<GuestId, Peer>,
    inboxes: HashMap<SessionId, VecDeque<Incoming>>,
    /// Chunks of input that reached a command.
    taken: HashMap<SessionId, u64>,
    queued: usize,
    /// When and why the connection to the host's agent ended.
    broken: Option<(Instant, String)>,
}

pub struct Link {
    writer: Mutex<Option<UnixStream>>,
    state: Mutex<State>,
    changed: Condvar,
    numbers: AtomicU32,
    console: Option<ConsoleSink>,
}

impl Link {
    pub fn new(console: Option<ConsoleSink>) -> Arc<Link> {
        Arc::new(Link {
            writer: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            numbers: AtomicU32::new(1),
            console,
        })
    }

    /// Starts listening to the host's agent.
    pub fn connect(self: &Arc<Self>, socket: UnixStream) -> Result<()> {
        let mut from = socket.try_clone()?;
        *lock(&self.writer) = Some(socket);
        let link = self.clone();
        thread::Builder::new().name("link".into()).spawn(move || {
            let end = loop {
                match Frame::read(&mut from) {
                    Ok(Some(frame)) => {
                        if let Err(error) = link.take(HOST, frame) {
                            break error.to_string();
                        }
                    }
                    Ok(None) => break "it closed the connection".into(),
                    Err(error) => break error.to_string(),
                }
            };
            lock(&link.state).broken = Some((Instant::now(), end));
            link.changed.notify_all();
        })?;
        Ok(())
    }

    /// Numbers up to this one were given by another link to the same agents.
    pub fn skip(&self, number: u32) {
        self.numbers.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// A number that no session and no guest has had.
    pub fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub fn request(&self, to: GuestId, request: &Request) -> Result<()> {
        self.send(to, Frame::message(request))
    }

    pub fn send(&self, to: GuestId, frame: Frame) -> Result<()> {
        let frame = if to == HOST { frame } else { frame.to_guest(to) };
        let mut writer = lock(&self.writer);
        let writer = writer.as_mut().context("nothing is connected to the host's agent")?;
        // A broken connection is reported, with its reason, to whoever waits for an answer.
        let _ = frame.write(writer);
        Ok(())
    }

    pub fn console(&self, id: GuestId, text: &str) {
        let mut state = lock(&self.state);
        let peer = state.peers.entry(id).or_default();
        let lines = peer.watcher.feed(text);
        if peer.watcher.has_found() {
            peer.complained.get_or_insert_with(Instant::now);
        }
        drop(state);
        if let Some(sink) = &self.console {
            let place = place(id);
            lines.iter().for_each(|line| sink(&place, line));
        }
        self.changed.notify_all();
    }

    pub fn ended(&self, id: GuestId, why: String) {
        let mut state = lock(&self.state);
        let peer = state.peers.entry(id).or_default();
        peer.watcher.end();
        peer.ended.get_or_insert(why);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `look` finds what it wants.  Trouble on a console and the end of the host or
    /// of guest `id` end the wait, and so does `deadline`, with `None`.
    pub fn wait<T>(
        &self,
        id: GuestId,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(found) = look(&mut state) {
                drop(state);
                self.changed.notify_all();
                return Ok(Some(found));
            }
            let now = Instant::now();
            if let Some(failure) = state.failure(id, now) {
                return Err(failure.into());
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(None);
            }
            let until = deadline.map_or(SETTLE, |at| (at - now).min(SETTLE));
            state =
                self.changed.wait_timeout(state, until).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Trouble on any console, once it has been explained.
    pub fn check(&self) -> Result<()> {
        let complaining = lock(&self.state).peers.values().any(|peer| peer.complained.is_some());
        if complaining {
            self.wait(HOST, None, |_| None::<()>)?;
        }
        Ok(())
    }

    pub fn recent(&self, id: GuestId) -> Vec<String> {
        let state = lock(&self.state);
        state.peers.get(&id).map(|peer| peer.watcher.recent()).unwrap_or_default()
    }

    fn take(&self, id: GuestId, frame: Frame) -> std::io::Result<()> {
        match frame {
            Frame::Guest { guest, inner } => return self.take(guest, *inner),
            Frame::Message(json) => self.take_reply(id, wire::parse(&json)?),
            Frame::Data { session, stream, bytes } => self.queue(session, stream, bytes),
        }
        self.changed.notify_all();
        Ok(())
    }

    fn queue(&self, session: SessionId, stream: Stream, bytes: Vec<u8>) {
        let mut state = lock(&self.state);
        while state.queued > MOST_QUEUED && state.inboxes.contains_key(&session) {
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let length = bytes.len();
        if let Some(inbox) = state.inboxes.get_mut(&session) {
            inbox.push_back(Incoming::Data(stream, bytes));
            state.queued += length;
        }
    }

    fn take_reply(&self, id: GuestId, reply: Reply) {
        let mut state = lock(&self.state);
        let mut tell = |session: SessionId, what| {
            if let Some(inbox) = state.inboxes.get_mut(&session) {
                inbox.push_back(what);
            }
        };
        match reply {
            Reply::Ready(ready) => state.peers.entry(id).or_default().ready = Some(ready),
            Reply::Exited { session, code, duration_ns } => {
                tell(session, Incoming::Exited { code, duration_ns })
            }
            Reply::Failed { session, error } => tell(session, Incoming::Failed(error)),
            Reply::Reading { session, reading } => tell(session, Incoming::Reading(reading)),
            Reply::StdinTaken { session } => *state.taken.entry(session).or_default() += 1,
            Reply::GuestStarted { guest, pid, command_line, pins } => {
                state.peers.entry(guest).or_default().started =
                    Some(Started { pid, command_line, pins });
            }
            Reply::GuestConsole { guest, text } => {
                drop(state);
                self.console(guest, &text);
            }
            Reply::GuestEnded { guest, why } => {
                drop(state);
                self.ended(guest, why);
            }
        }
    }

    /// Asks something that has one answer.
    pub fn ask(&self, to: GuestId, request: impl FnOnce(SessionId) -> Request) -> Result<Incoming> {
        let answer = self.ask_within(to, None, request)?;
        answer.with_context(|| format!("{}: no answer", place(to)))
    }

    /// None where `deadline` comes first.
    pub fn ask_within(
        &self,
        to: GuestId,
        deadline: Option<Instant>,
        request: impl FnOnce(SessionId) -> Request,
    ) -> Result<Option<Incoming>> {
        let session = self.number();
        self.expect(session);
        let mut parts = Vec::new();
        let answer = self.request(to, &request(session)).and_then(|()| loop {
            match self.wait(to, deadline, |state| state.next(session))? {
                Some(Incoming::Data(_, bytes)) => parts.extend(bytes),
                answer => break Ok(answer),
            }
        });
        self.forget(session);
        match answer? {
            Some(Incoming::Failed(error)) => bail!("{}: {error}", place(to)),
            Some(Incoming::Reading(serde_json::Value::Null)) if !parts.is_empty() => {
                let whole = serde_json::from_slice(&parts).context("a reading in parts")?;
                Ok(Some(Incoming::Reading(whole)))
            }
            answer => Ok(answer),
        }
    }

    /// Opens the inbox of a session; closed again by [`Link::forget`].
    pub fn expect(&self, session: SessionId) {
        lock(&self.state).inboxes.insert(session, VecDeque::new());
    }

    pub fn forget(&self, session: SessionId) {
        let mut state = lock(&self.state);
        let left = state.inboxes.remove(&session).unwrap_or_default();
        for incoming in left {
            state.dequeued(&incoming);
        }
        state.taken.remove(&session);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until this many chunks of input have been taken; false if the session is over.
    pub fn input_taken(&self, id: GuestId, session: SessionId, chunks: u64) -> bool {
        let outcome = self.wait(id, None, |state| {
            let over = !state.inboxes.contains_key(&session);
            let taken = state.taken.get(&session).copied().unwrap_or_default();
            (over || taken >= chunks).then_some(!over)
        });
        matches!(outcome, Ok(Some(true)))
    }
}

impl State {
    pub fn peer(&self, id: GuestId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub fn next(&mut self, session: SessionId) -> Option<Incoming> {
        let incoming = self.inboxes.get_mut(&session)?.pop_front()?;
        self.dequeued(&incoming);
        Some(incoming)
    }

    fn dequeued(&mut self, incoming: &Incoming) {
        if let Incoming::Data(_, bytes) = incoming {
            self.queued = self.queued.saturating_sub(bytes.len());
        }
    }

    fn failure(&self, id: GuestId, now: Instant) -> Option<Failure> {
        let host_ended = self.peer(HOST).is_some_and(|host| host.ended.is_some());
        for (place_id, peer) in &self.peers {
            let explained = |since: Instant| now.duration_since(since) >= SETTLE;
            let over = host_ended || peer.ended.is_some();
            if peer.complained.is_some_and(|since| over || explained(since)) {
                return trouble(*place_id, peer).map(Failure::Trouble);
            }
        }
        // Its console may hold the reason, and is complete only once the process has ended.
        if let Some(why) = self.peer(HOST).and_then(|host| host.ended.clone()) {
            return Some(self.ended(HOST, why));
        }
        if let Some(why) = self.peer(id).and_then(|peer| peer.ended.clone()) {
            return Some(self.ended(id, why));
        }
        // The end of the emulator, if that is what it is, will be reported in a moment.
        match &self.broken {
            Some((since, why)) if now.duration_since(*since) >= SETTLE => {
                Some(self.ended(HOST, format!("its agent stopped answering: {why}")))
            }
            _ => None,
        }
    }

    fn ended(&self, id: GuestId, why: String) -> Failure {
        Failure::Ended { place: place(id), why, lines: Vec::new() }
    }
}

fn trouble(id: GuestId, peer: &Peer) -> Option<Trouble> {
    peer.watcher.trouble(&place(id))
}

pub fn place(id: GuestId) -> String {
    match id {
        HOST => "host".into(),
        id => format!("guest {id}"),
    }
}
