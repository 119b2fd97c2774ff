// SPDX-License-Identifier: GPL-2.0-only
//! Two threads on two vCPUs that wake each other through pipes (on one vCPU: two on the same).

use super::{
    measure::{measure, pin},
    options::Options,
};
use anyhow::{Context, Result};
use paratick_core::workload::Report;
use rustix::{
    fd::OwnedFd,
    io::{read, write},
    pipe::pipe,
};
use std::thread;

const WARM_UP: u64 = 20;

pub fn run(options: &Options) -> Result<Report> {
    let (ping_out, ping_in) = pipe().context("cannot make a pipe")?;
    let (pong_out, pong_in) = pipe().context("cannot make a pipe")?;
    thread::scope(|scope| {
        let partner = scope.spawn(move || {
            pin(1)?;
            echo(&ping_out, &pong_in)
        });
        // The pipe into the partner closes when this ends: then the partner ends, too.
        let measured = lead(options, ping_in, &pong_out);
        partner.join().expect("the partner thread panicked")?;
        measured
    })
}

fn lead(options: &Options, to: OwnedFd, from: &OwnedFd) -> Result<Report> {
    pin(0)?;
    round_trips(WARM_UP, &to, from)?;
    measure(options, || round_trips(options.work, &to, from))
}

fn round_trips(count: u64, to: &OwnedFd, from: &OwnedFd) -> Result<u64> {
    let mut byte = [0];
    for _ in 0..count {
        write(to, &byte).context("cannot write to the partner's pipe")?;
        read(from, &mut byte).context("cannot read from the partner's pipe")?;
    }
    Ok(count)
}

fn echo(from: &OwnedFd, to: &OwnedFd) -> Result<()> {
    let mut byte = [0];
    while read(from, &mut byte).context("cannot read the leader's pipe")? == 1 {
        write(to, &byte).context("cannot answer the leader")?;
    }
    Ok(())
}
