// SPDX-License-Identifier: GPL-2.0-only
//! Classic tracepoints for BPF alone (kernel/trace/bpf_trace.c, kernel/events/core.c).
//!
//! A tracepoint's BPF programs run on every CPU where a perf event of that tracepoint exists.
//! Where one is enabled, which an event of aya's is on CPU 0, perf also goes through all it would
//! need for a sample, and throws it away: 190 instructions of each exit on that CPU.

use crate::{bpf, tracefs::Tracefs};
use anyhow::{Context, Result};
use aya::{
    programs::{Program, TracePoint},
    Ebpf,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_ATTR_SIZE_VER0: u32 = 64;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// `_IOW('$', 8, __u32)`.
const PERF_EVENT_IOC_SET_BPF: libc::c_ulong = 0x4004_2408;

/// The first 64 bytes of `struct perf_event_attr`: all that every kernel knows.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

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
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: PERF_ATTR_SIZE_VER0,
        config: tracefs.number(event)?,
        flags: DISABLED,
        ..Attributes::default()
    };
    let (all_processes, cpu, no_group) = (-1, 0, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, and the file is ours alone.
    let opened = unsafe {
        let file = libc::syscall(
            libc::SYS_perf_event_open,
            &attributes,
            all_processes,
            cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        );
        check(file)?;
        OwnedFd::from_raw_fd(file as i32)
    };
    let program = program.fd()?.as_fd().as_raw_fd();
    // SAFETY: both files are open, and the kernel keeps the program.
    let set = unsafe { libc::ioctl(opened.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program) };
    check(set.into())?;
    Ok(opened)
}

fn check(returned: libc::c_long) -> io::Result<()> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
