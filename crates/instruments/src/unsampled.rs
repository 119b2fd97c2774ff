// SPDX-License-Identifier: GPL-2.0-only
//! Classic tracepoints for BPF alone (kernel/trace/bpf_trace.c, kernel/events/core.c).
//!
//! A tracepoint's BPF programs run on every CPU where a perf event of that tracepoint exists.
//! Where one is enabled, which an event of aya's is on CPU 0, perf also goes through all it would
//! need for a sample, and throws it away: 190 instructions of each exit on that CPU.

use crate::{
    bpf,
    perf::{self, Event},
    tracefs::Tracefs,
};
use anyhow::{Context, Result};
use aya::{
    programs::{Program, TracePoint},
    Ebpf,
};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// `_IOW('$', 8, __u32)`.
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
/// In `flags`.
const DISABLED: u64 = 1;

/// As [`bpf::attach`]; programs of classic tracepoints stay attached as long as what is returned.
pub fn attach<'a>(
    tracefs: &Tracefs,
    ebpf: &mut Ebpf,
    events: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<OwnedFd>> {
    let mut opened = Vec::new();
    for event in events {
        let (_, point) = event.split_once('/').context("category/name")?;
        match ebpf.program_mut(point) {
            Some(Program::TracePoint(program)) => {
                let attached = attach_one(tracefs, program, event);
                opened.push(attached.with_context(|| bpf::cannot_attach(event))?);
            }
            _ => bpf::attach(ebpf, [event])?,
        }
    }
    Ok(opened)
}

fn attach_one(tracefs: &Tracefs, program: &mut TracePoint, event: &str) -> Result<OwnedFd> {
    program.load()?;
    let config = tracefs.number(event)?;
    let event = Event { kind: PERF_TYPE_TRACEPOINT, config, flags: DISABLED, ..Event::default() };
    let (all_threads, cpu) = (-1, 0);
    let opened = perf::open(event, all_threads, cpu)?;
    let program = program.fd()?.as_fd().as_raw_fd();
    // SAFETY: both files are open, and the kernel keeps the program.
    let set = unsafe { libc::ioctl(opened.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program) };
    perf::check(set.into())?;
    Ok(opened)
}
