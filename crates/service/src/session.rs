// SPDX-License-Identifier: GPL-2.0-only
//! One command run by an agent: its input, its output, and how it ended.

use crate::outbox::Outbox;
use anyhow::{Context, Result};
use paratick_core::wire::{ExecRequest, Frame, Reply, SessionId, Stream, TerminalSize, CHUNK};
use paratick_instruments::marker;
use rustix::{
    event::{poll, PollFd, PollFlags},
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{fcntl_setfl, OFlags},
    process::{pidfd_open, Pid, PidfdFlags},
};
use std::{
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{mpsc, Arc, Mutex},
    thread,
    time::Instant,
};

pub struct Session {
    /// Chunks for its input; dropped to close it.
    pub stdin: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    terminal: Option<OwnedFd>,
}

impl Session {
    pub fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &self.terminal {
            let _ = rustix::termios::tcsetwinsize(terminal, winsize(size));
        }
    }
}

/// Starts the command; its frames go to `out`, the last of them [`Reply::Exited`], after `ended`.
pub fn start(
    request: &ExecRequest,
    out: &Arc<Outbox>,
    ended: impl FnOnce() + Send + 'static,
) -> Result<Arc<Session>> {
    let mut command = command(request)?;
    let terminal = match request.terminal {
        Some(size) => Some(open_terminal(&mut command, size)?),
        None => {
            let stdin = if request.stdin { Stdio::piped() } else { Stdio::null() };
            command.stdin(stdin);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
    };
    if let Some(window) = request.window {
        marker::open(window);
    }
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {}", request.argv[0]))?;
    // The parent's copies of the terminal's other end would keep it open for ever.
    drop(command);
    let (feed, input) = mpsc::channel();
    let session = Arc::new(Session {
        stdin: Mutex::new(Some(feed)),
        terminal: terminal.as_ref().map(OwnedFd::try_clone).transpose()?,
    });
    if let Some(sink) = input_of(&mut child, terminal.as_ref())? {
        let (id, out) = (request.session, out.clone());
        thread::spawn(move || feed_input(id, &input, sink, &out));
    }
    let running = Running {
        id: request.session,
        window: request.window,
        begun,
        sources: sources(&mut child, terminal)?,
        child,
        out: out.clone(),
    };
    thread::spawn(move || running.see_through(ended));
    Ok(session)
}

/// Hosts and guests of the lab have the agent in memory, whatever the machine's PATH.
fn own_program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // A file that is gone has a remark behind its name.
    let file = own.file_name()?.to_str()?.trim_end_matches(" (deleted)");
    let is_agent = file == "init" || file == AGENT;
    (Path::new(name).ends_with(AGENT) && is_agent).then(|| "/proc/self/exe".into())
}

const AGENT: &str = "paratick-agent";

fn command(request: &ExecRequest) -> Result<Command> {
    let (program, arguments) = request.argv.split_first().context("no command was given")?;
    // Found by the command's own PATH, not by the agent's.
    let path = request.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("/usr/bin:/bin", |(_, value)| value.as_str());
    let found = crate::find_program(program, path).or_else(|| own_program(program));
    let mut command = Command::new(found.unwrap_or(program.into()));
    command.arg0(program).args(arguments);
    command.env_clear().envs(request.env.iter().cloned());
    if request.cwd.is_dir() {
        command.current_dir(&request.cwd);
    } else {
        command.current_dir("/");
    }
    // A group of its own, so that what it leaves behind can be told from the agent.
    if request.terminal.is_none() {
        command.process_group(0);
    }
    Ok(command)
}

fn open_terminal(command: &mut Command, size: TerminalSize) -> Result<OwnedFd> {
    use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
    let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .context("opening a terminal")?;
    grantpt(&control)?;
    unlockpt(&control)?;
    let name = ptsname(&control, Vec::new())?.into_string()?;
    let user = fs_err::OpenOptions::new().read(true).write(true).open(&name)?;
    rustix::termios::tcsetwinsize(&control, winsize(size))?;
    command.stdin(user.try_clone()?.into_parts().0);
    command.stdout(user.try_clone()?.into_parts().0);
    command.stderr(user.into_parts().0);
    // SAFETY: two system calls between fork and exec, nothing is allocated; the child's
    // descriptor 0 is the terminal by then.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
            Ok(())
        });
    }
    Ok(control)
}

fn winsize(size: TerminalSize) -> rustix::termios::Winsize {
    rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn input_of(child: &mut Child, terminal: Option<&OwnedFd>) -> Result<Option<OwnedFd>> {
    match terminal {
        Some(terminal) => Ok(Some(terminal.try_clone()?)),
        None => Ok(child.stdin.take().map(OwnedFd::from)),
    }
}

fn sources(child: &mut Child, terminal: Option<OwnedFd>) -> Result<Vec<(Stream, OwnedFd)>> {
    let mut sources = Vec::new();
    if let Some(terminal) = terminal {
        sources.push((Stream::Stdout, terminal));
    }
    if let Some(stdout) = child.stdout.take() {
        sources.push((Stream::Stdout, stdout.into()));
    }
    if let Some(stderr) = child.stderr.take() {
        sources.push((Stream::Stderr, stderr.into()));
    }
    Ok(sources)
}

fn feed_input(id: SessionId, input: &mpsc::Receiver<Vec<u8>>, sink: OwnedFd, out: &Outbox) {
    let mut sink = std::fs::File::from(sink);
    for chunk in input {
        // A command that reads no more is no error; what is left is taken and dropped.
        let _ = sink.write_all(&chunk);
        out.reply(&Reply::StdinTaken { session: id });
    }
}

struct Running {
    id: SessionId,
    window: Option<u32>,
    begun: Instant,
    child: Child,
    sources: Vec<(Stream, OwnedFd)>,
    out: Arc<Outbox>,
}

impl Running {
    /// Passes output on until the command has ended and its pipes are drained.  What it leaves
    /// running in the background may hold the pipes open: that is not waited for.
    fn see_through(mut self, ended: impl FnOnce()) {
        let status = self.pass_output();
        let duration_ns = self.begun.elapsed().as_nanos() as u64;
        if let Some(window) = self.window {
            marker::close(window);
        }
        let code = match &status {
            Ok(status) => exit_code(*status),
            Err(_) => 127,
        };
        self.drain();
        ended();
        self.out.reply(&Reply::Exited { session: self.id, code, duration_ns });
    }

    fn pass_output(&mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(self.child.id() as i32).context("a process without a number")?;
        let ended = pidfd_open(pid, PidfdFlags::empty()).context("watching the command")?;
        loop {
            let mut polled: Vec<PollFd> = self
                .sources
                .iter()
                .map(|(_, source)| PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN))
                .collect();
            polled.push(PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN));
            match poll(&mut polled, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.context("waiting for output")?,
            };
            let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[self.sources.len()] {
                return self.child.wait().context("waiting for the command");
            }
            let (out, id) = (&self.out, self.id);
            let mut ready = ready.into_iter();
            self.sources.retain(|(stream, source)| {
                !ready.next().unwrap_or(false) || pass_chunk(out, id, *stream, source)
            });
        }
    }

    fn drain(&mut self) {
        for (stream, source) in &self.sources {
            let _ = fcntl_setfl(source, OFlags::NONBLOCK);
            while pass_chunk(&self.out, self.id, *stream, source) {}
        }
    }
}

/// Whether there may be more.
fn pass_chunk(out: &Outbox, session: SessionId, stream: Stream, source: &OwnedFd) -> bool {
    let mut bytes = vec![0; CHUNK];
    match rustix::io::read(source, &mut bytes) {
        Err(rustix::io::Errno::INTR) => true,
        // A terminal whose last user has gone says EIO, a drained pipe EAGAIN.
        Ok(0) | Err(_) => false,
        Ok(length) => {
            bytes.truncate(length);
            out.send(&Frame::Data { session, stream, bytes });
            true
        }
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
