// SPDX-License-Identifier: GPL-2.0-only
//! Where an agent's frames go; shared by everything that has something to say.

use crate::lock;
use anyhow::Result;
use paratick_core::wire::{Frame, Reply, SessionId, Stream, CHUNK};
use serde_json::Value;
use std::{io::Write, sync::Mutex};

pub struct Outbox(Mutex<Box<dyn Write + Send>>);

impl Outbox {
    pub fn new(to: impl Write + Send + 'static) -> Outbox {
        Outbox(Mutex::new(Box::new(to)))
    }

    pub fn send(&self, frame: &Frame) {
        // A machine that is gone hears nothing; the reading side notices and ends the agent.
        let _ = frame.write(&mut *lock(&self.0));
    }

    pub fn reply(&self, reply: &Reply) {
        self.send(&Frame::message(reply));
    }

    pub fn failed(&self, session: SessionId, error: &anyhow::Error) {
        self.reply(&Reply::Failed { session, error: format!("{error:#}") });
    }

    /// Sends what is long in parts; returns what is left to be said.
    fn parts(&self, session: SessionId, reading: Value) -> Value {
        // A vector of plain values always becomes JSON.
        let text = serde_json::to_vec(&reading).unwrap_or_default();
        if text.len() <= CHUNK {
            return reading;
        }
        for bytes in text.chunks(CHUNK) {
            self.send(&Frame::Data { session, stream: Stream::Stdout, bytes: bytes.to_vec() });
        }
        Value::Null
    }

    pub fn reading(&self, session: SessionId, reading: Result<Value>) {
        match reading {
            Ok(reading) => {
                let reading = self.parts(session, reading);
                self.reply(&Reply::Reading { session, reading });
            }
            Err(error) => self.failed(session, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paratick_core::wire::{self, MAX_FRAME};
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sent(Arc<Mutex<Vec<u8>>>);

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What arrives of a reading: how many parts, and the whole.
    fn sent(reading: &Value) -> (usize, Value) {
        let sent = Sent::default();
        Outbox::new(sent.clone()).reading(7, Ok(reading.clone()));
        let bytes = lock(&sent.0).clone();
        let (mut from, mut parts, mut whole) = (&bytes[..], 0, Vec::new());
        loop {
            match Frame::read(&mut from).unwrap().unwrap() {
                Frame::Data { session: 7, bytes, .. } => {
                    parts += 1;
                    whole.extend(bytes);
                }
                Frame::Message(json) => match wire::parse(&json).unwrap() {
                    Reply::Reading { session: 7, reading } if parts == 0 => return (0, reading),
                    Reply::Reading { session: 7, reading: Value::Null } => {
                        return (parts, serde_json::from_slice(&whole).unwrap())
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_reading_of_any_length_arrives() {
        let short = Value::from(vec![1, 2, 3]);
        assert_eq!(sent(&short), (0, short));
        let long = Value::from("x".repeat(MAX_FRAME + 1));
        let (parts, whole) = sent(&long);
        assert!(parts > MAX_FRAME / CHUNK && whole == long);
    }
}
