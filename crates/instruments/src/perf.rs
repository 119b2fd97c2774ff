// SPDX-License-Identifier: GPL-2.0-only
//! Events of perf (include/uapi/linux/perf_event.h).

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

const ATTR_SIZE_VER0: u32 = 64;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// What is counted, and how; as in `struct perf_event_attr`.
#[derive(Clone, Copy, Default)]
pub struct Event {
    pub kind: u32,
    pub config: u64,
    pub read_format: u64,
    pub flags: u64,
}

/// The first 64 bytes of that: all that every kernel knows.
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

/// Of a thread on all CPUs, or with `thread` -1 of all threads of a CPU.
pub fn open(event: Event, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: event.kind,
        size: ATTR_SIZE_VER0,
        config: event.config,
        read_format: event.read_format,
        flags: event.flags,
        ..Attributes::default()
    };
    let no_group = -1;
    // SAFETY: the kernel reads `size` bytes of the attributes, and the file is ours alone.
    unsafe {
        let file = libc::syscall(
            libc::SYS_perf_event_open,
            &attributes,
            thread,
            cpu,
            no_group,
            FLAG_FD_CLOEXEC,
        );
        check(file)?;
        Ok(OwnedFd::from_raw_fd(file as i32))
    }
}

pub fn check(returned: libc::c_long) -> io::Result<()> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
