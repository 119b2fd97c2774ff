// SPDX-License-Identifier: GPL-2.0-only
//! As much of HTTP as a scrape needs: one request a connection, so many at a time, and each with an
//! end.  Whoever is slow costs a thread for that long, and nobody else anything.

use crate::print::errln;
use paratick_observe::Format;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        mpsc::{sync_channel, SyncSender},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

/// Connections at a time; others are turned away.
pub const MOST: usize = 16;

/// Of one connection.  Prometheus waits as long by default.
pub const TIME: Duration = Duration::from_secs(10);

/// Of the request, in bytes.
const LONGEST: usize = 8192;

/// The metrics, or why there are none.
pub type Told = Result<Arc<str>, Arc<str>>;

/// A scrape that waits.
pub struct Asked {
    pub format: Format,
    pub answer: SyncSender<Told>,
}

/// Accepts connections from now on, and passes scrapes on.
pub fn serve(listener: TcpListener, asked: SyncSender<Asked>, time: Duration) {
    let slot = Arc::new(());
    thread::spawn(move || loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let mut client = Client { stream, until: Instant::now() + time };
                let (slot, asked) = (slot.clone(), asked.clone());
                // One is the loop's, and one this connection's.
                if Arc::strong_count(&slot) > MOST + 1 {
                    let _ = client.refuse("503 Service Unavailable", "", "too many connections\n");
                    continue;
                }
                let answer = move || {
                    // Nothing can be done about a client that is gone, or too slow.
                    let _ = client.answer(&asked);
                    drop(slot);
                };
                if let Err(error) = thread::Builder::new().spawn(answer) {
                    errln!("no thread for a connection: {error}");
                }
            }
            Err(error) => {
                errln!("cannot accept a connection: {error}");
                thread::sleep(Duration::from_secs(1));
            }
        }
    });
}

/// Each read and write has an end: that of the connection.
struct Client {
    stream: TcpStream,
    until: Instant,
}

impl Client {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }

    fn answer(&mut self, asked: &SyncSender<Asked>) -> io::Result<()> {
        let Some(head) = self.head()? else {
            let why = "the request is too long\n";
            return self.turn_away("431 Request Header Fields Too Large", "", why);
        };
        let request = head.lines().next().unwrap_or_default();
        let [method, target, version] = request.split(' ').collect::<Vec<_>>()[..] else {
            return self.turn_away("400 Bad Request", "", "this is no HTTP request\n");
        };
        if !version.starts_with("HTTP/1.") {
            return self.turn_away("400 Bad Request", "", "this is no HTTP/1 request\n");
        }
        if target.split('?').next() != Some("/metrics") {
            return self.turn_away("404 Not Found", "", "the metrics are at /metrics\n");
        }
        if !matches!(method, "GET" | "HEAD") {
            let allow = "Allow: GET, HEAD\r\n";
            return self.turn_away("405 Method Not Allowed", allow, "metrics are only read\n");
        }
        let format = Format::accepted(&accepted(&head));
        let (answer, told) = sync_channel(1);
        let left = self.left()?.unwrap_or_default();
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        asked.send(Asked { format, answer }).map_err(|_| io::ErrorKind::BrokenPipe)?;
        match told.recv_timeout(left).map_err(gone)? {
            Ok(text) => {
                let body = if method == "HEAD" { "" } else { &text };
                self.send("200 OK", format.content_type(), "", text.len(), body)
            }
            Err(why) => self.refuse("500 Internal Server Error", "", &format!("{why}\n")),
        }
    }

    /// Up to the empty line; none if that does not come.
    fn head(&mut self) -> io::Result<Option<String>> {
        let (mut head, mut part) = (Vec::new(), [0; 1024]);
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() >= LONGEST {
                return Ok(None);
            }
            match self.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => head.extend_from_slice(&part[..bytes]),
            }
        }
        Ok(Some(String::from_utf8_lossy(&head).into_owned()))
    }

    /// A client that still sends would lose the answer if the connection ended at once.
    fn turn_away(&mut self, status: &str, more: &str, why: &str) -> io::Result<()> {
        self.refuse(status, more, why)?;
        self.stream.shutdown(Shutdown::Write)?;
        io::copy(&mut Read::by_ref(self).take(LONGEST as u64), &mut io::sink())?;
        Ok(())
    }

    fn refuse(&mut self, status: &str, more: &str, why: &str) -> io::Result<()> {
        self.send(status, "text/plain; charset=utf-8", more, why.len(), why)
    }

    fn send(
        &mut self,
        status: &str,
        kind: &str,
        more: &str,
        length: usize,
        body: &str,
    ) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\
             Connection: close\r\n\r\n"
        );
        self.write_all(head.as_bytes())?;
        self.write_all(body.as_bytes())
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What a request says that its sender reads.
fn accepted(head: &str) -> String {
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let accept = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    accept.map(|(_, value)| value).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
