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
