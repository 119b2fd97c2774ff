// SPDX-License-Identifier: GPL-2.0-only
//! Running a command in a host or a guest.

use crate::{
    failure::Failure,
    link::{Incoming, Link},
};
use anyhow::{bail, Context, Result};
use paratick_core::wire::{
    ExecRequest, Frame, GuestId, Request, SessionId, Stream, TerminalSize, CHUNK,
};
use std::{
    io::Read,
    path::PathBuf,
    sync::{mpsc, Arc},
    thread,
    time::{Duration, Instant},
};

/// What a command is run with that its user would expect to find again inside.
const ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER"];

#[derive(Default)]
pub struct Exec {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// `/` where this does not exist inside.
    pub cwd: PathBuf,
    /// Wall-clock limit.
    pub timeout: Option<Duration>,
    pub stdin: Input,
    /// Gives the command a terminal of this size.
    pub terminal: Option<TerminalSize>,
    /// The terminal's later sizes.
    pub resizes: Option<mpsc::Receiver<TerminalSize>>,
    /// Marks this window of exits around the command.
    pub window: Option<u32>,
}

#[derive(Default)]
pub enum Input {
    #[default]
    Empty,
    From(Box<dyn Read + Send>),
}

impl Exec {
    /// With the machine's essential environment and working folder, without input or limit.
    pub fn new<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Exec {
        let variable = |name: &str| Some((name.to_string(), std::env::var(name).ok()?));
        Exec {
            argv: argv.into_iter().map(Into::into).collect(),
            env: ENVIRONMENT.into_iter().filter_map(variable).collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            ..Exec::default()
        }
    }

    pub fn timeout(mut self, limit: Duration) -> Exec {
        self.timeout = Some(limit);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// As a shell reports it: 128 + n for a command ended by signal n.
    pub code: i32,
    /// On the clock of the host or guest it ran in.
    pub duration_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecResult {
    pub code: i32,
    pub duration_ns: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Gets output as it comes; an error ends the run.
pub type OutputSink<'a> = &'a mut dyn FnMut(Stream, &[u8]) -> Result<()>;

pub(crate) fn collect(link: &Arc<Link>, id: GuestId, exec: Exec) -> Result<ExecResult> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let finished = stream(link, id, exec, &mut |stream, bytes| {
        match stream {
            Stream::Stderr => stderr.extend_from_slice(bytes),
            _ => stdout.extend_from_slice(bytes),
        }
        Ok(())
    })?;
    Ok(ExecResult { code: finished.code, duration_ns: finished.duration_ns, stdout, stderr })
}

pub(crate) fn stream(
    link: &Arc<Link>,
    id: GuestId,
    exec: Exec,
    sink: OutputSink,
) -> Result<Finished> {
    let session = link.number();
    link.expect(session);
    let result = run(link, id, session, exec, sink);
    link.forget(session);
    result
}

fn run(
    link: &Arc<Link>,
    id: GuestId,
    session: SessionId,
    exec: Exec,
    sink: OutputSink,
) -> Result<Finished> {
    let what = exec.argv.join(" ");
    let limit = exec.timeout;
    let deadline = limit.map(|limit| Instant::now() + limit);
    link.request(
        id,
        &Request::Exec(ExecRequest {
            session,
            argv: exec.argv,
            env: exec.env,
            cwd: exec.cwd,
            terminal: exec.terminal,
            stdin: matches!(exec.stdin, Input::From(_)),
            window: exec.window,
        }),
    )?;
    if let Input::From(from) = exec.stdin {
        let link = link.clone();
        thread::spawn(move || feed(&link, id, session, from));
    }
    if let Some(resizes) = exec.resizes {
        let link = link.clone();
        thread::spawn(move || {
            for size in resizes {
                let _ = link.request(id, &Request::Resize { session, size });
            }
        });
    }
    loop {
        match link.wait(id, deadline, |state| state.next(session))? {
            Some(Incoming::Data(stream, bytes)) => sink(stream, &bytes)?,
            Some(Incoming::Failed(error)) => return Err(Failure::NotStarted(error).into()),
            Some(Incoming::Exited { code, duration_ns }) => {
                link.check()?;
                return Ok(Finished { code, duration_ns });
            }
            Some(other) => bail!("the agent answered a command with {other:?}"),
            None => {
                let limit = limit.context("a wait without a limit ended")?;
                let lines = Vec::new();
                return Err(Failure::TimeLimit { what, limit, lines }.into());
            }
        }
    }
}

/// Passes input on, one chunk at a time: a command that does not read must not fill the guest's
/// memory.
fn feed(link: &Link, id: GuestId, session: SessionId, mut from: Box<dyn Read + Send>) {
    let mut bytes = vec![0; CHUNK];
    let mut chunks = 0;
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        chunks += 1;
        let data = Frame::Data { session, stream: Stream::Stdin, bytes: bytes[..length].to_vec() };
        if link.send(id, data).is_err() || !link.input_taken(id, session, chunks) {
            return;
        }
    }
    let _ = link.request(id, &Request::CloseStdin { session });
}
