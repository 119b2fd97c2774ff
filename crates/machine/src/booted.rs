// SPDX-License-Identifier: GPL-2.0-only
//! What a host that is up, and the guests on it, have in common.

use crate::{
    failure::Failure,
    link::{place, Incoming, Link, HOST},
    run_folder::RunFolder,
    spec::HostSpec,
};
use anyhow::{bail, Context, Result};
use paratick_build::tools::Tools;
use paratick_core::wire::{GuestId, Ready, Request, VERSION};
use paratick_instruments::Instrument;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub struct Booted {
    pub link: Arc<Link>,
    pub spec: HostSpec,
    pub tools: Tools,
    pub command_line: Vec<String>,
    // In this order: the host ends before its folder goes.
    pub running: Option<Box<dyn Send + Sync>>,
    pub run: RunFolder,
}

impl Booted {
    pub fn new(spec: HostSpec, tools: &Tools) -> Result<Booted> {
        let run = RunFolder::create(spec.keep)?;
        Ok(Booted {
            link: Link::new(spec.console.clone()),
            command_line: spec.command_line(tools, run.path())?,
            spec,
            tools: tools.clone(),
            running: None,
            run,
        })
    }

    /// Gives a host or guest the machine's root file system and time.
    pub fn enter(&self, id: GuestId) -> Result<()> {
        self.enter_within(id, self.spec.timeout)
    }

    pub fn enter_within(&self, id: GuestId, limit: Duration) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (now_ns, show) = (now.as_nanos() as u64, self.tools.shown.clone());
        let ask = |session| Request::Enter { session, now_ns, show };
        match self.link.ask_within(id, Some(Instant::now() + limit), ask)? {
            Some(_) => Ok(()),
            None => Err(boot_took_too_long(id, limit)),
        }
    }

    /// Starts an instrument on the host or in a guest, or lets it begin anew.
    pub fn start<I: Instrument>(&self, on: GuestId) -> Result<()> {
        let name = I::NAME.to_string();
        self.link.ask(on, |session| Request::StartInstrument { session, name }).map(drop)
    }

    pub fn stop<I: Instrument>(&self, on: GuestId) -> Result<()> {
        let name = I::NAME.to_string();
        self.link.ask(on, |session| Request::StopInstrument { session, name }).map(drop)
    }

    pub fn read<I: Instrument>(&self, on: GuestId) -> Result<I::Reading> {
        let name = I::NAME.to_string();
        let ask = |session| Request::ReadInstrument { session, name };
        match self.link.ask(on, ask)? {
            Incoming::Reading(reading) => serde_json::from_value(reading)
                .with_context(|| format!("the reading of '{}' is of another kind", I::NAME)),
            other => bail!("a question for a reading was answered with {other:?}"),
        }
    }

    pub fn read_files(&self, on: GuestId, files: &[&str]) -> Result<Vec<Option<String>>> {
        let files = files.iter().map(|file| file.to_string()).collect();
        match self.link.ask(on, |session| Request::ReadFiles { session, files })? {
            Incoming::Reading(texts) => Ok(serde_json::from_value(texts)?),
            other => bail!("a question for files was answered with {other:?}"),
        }
    }

    pub fn wait(&self, on: GuestId, time: Duration, limit: Duration) -> Result<()> {
        let ask = |session| Request::Wait { session, ns: time.as_nanos() as u64 };
        match self.link.ask_within(on, Some(Instant::now() + limit), ask)? {
            Some(_) => Ok(()),
            None => {
                let what = format!("a wait of {time:?} in the {}", place(on));
                Err(Failure::TimeLimit { what, limit, lines: Vec::new() }.into())
            }
        }
    }

    /// Waits for the agent of the host.
    pub fn ready(&self, deadline: Instant) -> Result<Ready> {
        let found = self.link.wait(HOST, Some(deadline), |state| {
            state.peer(HOST).and_then(|peer| peer.ready.clone())
        })?;
        let Some(ready) = found else { return Err(boot_took_too_long(HOST, self.spec.timeout)) };
        if ready.version != VERSION {
            bail!(
                "{} speaks version {} of the agents' protocol, this program {VERSION}\n\
                 hint: build both from one tree with `make`",
                self.tools.agent.display(),
                ready.version
            );
        }
        Ok(ready)
    }

    /// Adds the last words of a console to a failure that they may explain.
    pub fn explain(&self, id: GuestId, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<Failure>() {
            Ok(failure) => failure.with_lines(self.link.recent(id)).into(),
            Err(error) => error,
        }
    }
}

pub fn boot_took_too_long(id: GuestId, limit: Duration) -> anyhow::Error {
    Failure::TimeLimit { what: format!("the boot of the {}", place(id)), limit, lines: Vec::new() }
        .into()
}
