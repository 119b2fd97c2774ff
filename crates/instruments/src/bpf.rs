// SPDX-License-Identifier: GPL-2.0-only
//! What all BPF programs of ours need of the kernel they are loaded into.

use crate::{probes, tracefs::Tracefs};
use anyhow::{bail, Context, Result};
use aya::{
    maps::{Array, MapData, RingBuf},
    programs::{Program, TracePoint},
    Ebpf, EbpfLoader, Pod,
};
use std::{
    io,
    mem::size_of,
    os::fd::{AsFd, AsRawFd},
};

/// A variable of a BPF program, and the field of a tracepoint whose offset it holds: tracepoint,
/// field, size in bytes.
pub type Field = (&'static str, &'static str, &'static str, u32);

/// Loads an object with its variables set: offsets of fields, and addresses of this kernel.
pub fn load(object: &[u8], offsets: &[(&str, u32)], addresses: &[(&str, u64)]) -> Result<Ebpf> {
    let mut loader = EbpfLoader::new();
    for (name, offset) in offsets {
        loader.set_global(name, offset, true);
    }
    for (name, address) in addresses {
        loader.set_global(name, address, true);
    }
    loader.load(object).map_err(|error| {
        let error = anyhow::Error::from(error);
        let hint = match error.root_cause().downcast_ref::<io::Error>() {
            Some(why) if why.raw_os_error() == Some(libc::EMFILE) => {
                "let it open more files, such as by `ulimit -n 1024`"
            }
            _ => {
                "be root, on a kernel of 5.8 or newer with CONFIG_BPF_SYSCALL and \
                 CONFIG_BPF_EVENTS"
            }
        };
        error.context(format!("cannot load the BPF programs\nhint: {hint}"))
    })
}

/// What was in a ring of some programs.
pub struct Records<T> {
    /// One for all times: a new one over a ring that was read before takes what it finds at its
    /// place for a record, although there is none yet.
    ring: RingBuf<MapData>,
    taken: Vec<T>,
}

impl<T: Pod> Records<T> {
    pub fn of(ebpf: &mut Ebpf) -> Result<Records<T>> {
        Records::named(ebpf, "records")
    }

    pub fn named(ebpf: &mut Ebpf, name: &str) -> Result<Records<T>> {
        let map = ebpf.take_map(name).with_context(|| format!("no BPF map {name}"))?;
        Ok(Records { ring: RingBuf::try_from(map)?, taken: Vec::new() })
    }

    /// Takes what is in the ring, so that a long recording does not fill it.
    pub fn drain(&mut self) -> Result<()> {
        while let Some(bytes) = self.ring.next() {
            self.taken.push(record(&bytes)?);
        }
        Ok(())
    }

    /// Forgets all that was recorded before.
    pub fn forget(&mut self) -> Result<()> {
        self.drain()?;
        self.taken.clear();
        Ok(())
    }

    /// All that was taken.
    pub fn taken(&self) -> &[T] {
        &self.taken
    }
}

fn record<T: Pod>(bytes: &[u8]) -> Result<T> {
    if bytes.len() != size_of::<T>() {
        bail!("a record of {} bytes, where {} were meant", bytes.len(), size_of::<T>());
    }
    // SAFETY: plain data; the length was checked, and nothing is said of the alignment.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Writes a number of the array `state`.
pub fn set_state(ebpf: &mut Ebpf, slot: u32, value: u64) -> Result<()> {
    let map = ebpf.map_mut("state").context("no BPF map state")?;
    Ok(Array::try_from(map)?.set(slot, value, 0)?)
}

/// A number of the array `state`.
pub fn state(ebpf: &Ebpf, slot: u32) -> Result<u64> {
    let state: Array<_, u64> = Array::try_from(ebpf.map("state").context("no BPF map state")?)?;
    Ok(state.get(&slot, 0)?)
}

/// Fails if the number in a slot of `state` is not zero: of so many there is no record.
pub fn check_lost(ebpf: &Ebpf, slot: u32, what: &str, hint: &str) -> Result<()> {
    match state(ebpf, slot)? {
        0 => Ok(()),
        lost => bail!("{lost} {what} found no room in the recording\nhint: {hint}"),
    }
}

/// How often the program of a tracepoint did not run because another one was running on that CPU.
pub fn missed(ebpf: &Ebpf, name: &str) -> Result<u64> {
    let program = ebpf.program(name).with_context(|| format!("no BPF program {name}"))?;
    let program: &TracePoint = program.try_into()?;
    let fd = program.fd()?.as_fd().as_raw_fd();
    let info = fs_err::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    info.lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))
        .and_then(|value| value.trim().parse().ok())
        .context(
            "whether exits were missed is not known: no recursion_misses in fdinfo\n\
             hint: Linux 5.12 or newer is needed",
        )
}

/// Where each field is in this kernel's tracepoints.
pub fn field_offsets(tracefs: &Tracefs, fields: &[Field]) -> Result<Vec<(&'static str, u32)>> {
    let offset = |(global, event, field, size): &Field| {
        let offset = tracefs
            .format(event)?
            .offset(field, *size)
            .with_context(|| format!("this kernel's {event} is not one we know"))?;
        Ok((*global, offset))
    };
    fields.iter().map(offset).collect()
}

/// Attaches to each event the program of its name, in this order.
pub fn attach<'a>(ebpf: &mut Ebpf, events: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for event in events {
        attach_one(ebpf, event).with_context(|| cannot_attach(event))?;
    }
    Ok(())
}

pub fn cannot_attach(event: &str) -> String {
    let hint = match perf_is_for_admins() {
        true => {
            "have CAP_SYS_ADMIN, too, or set kernel.perf_event_paranoid to 2, which is Linux' own \
             default"
        }
        false => "be root, on a kernel with CONFIG_PERF_EVENTS and CONFIG_BPF_EVENTS",
    };
    format!("cannot attach a BPF program to tracepoint {event}\nhint: {hint}")
}

/// Kernels of distributions have more values than Linux' own, and Debian's has this one by default:
/// CAP_PERFMON is not enough then.
pub fn perf_is_for_admins() -> bool {
    let value = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    value.trim().parse::<i32>().is_ok_and(|value| value > 2)
}

fn attach_one(ebpf: &mut Ebpf, event: &str) -> Result<()> {
    let (category, point) = event.split_once('/').context("category/name")?;
    match ebpf.program_mut(point) {
        Some(Program::TracePoint(program)) => {
            program.load()?;
            program.attach(category, point)?;
        }
        Some(Program::RawTracePoint(program)) => {
            program.load()?;
            program.attach(point)?;
        }
        _ => bail!("there is none in the object"),
    }
    Ok(())
}

/// Attaches to the raw tracepoint of an event another program than the one of its name.
pub fn attach_raw(ebpf: &mut Ebpf, name: &str, event: &str) -> Result<()> {
    let Some(Program::RawTracePoint(program)) = ebpf.program_mut(name) else {
        bail!("there is no raw tracepoint {name} in the object");
    };
    program.load()?;
    program.attach(event)?;
    Ok(())
}

/// Attaches to the beginning of a function of the kernel the program of its name; returns once no
/// CPU will be interrupted for it any more.
pub fn probe(ebpf: &mut Ebpf, function: &str) -> Result<()> {
    attach_probe(ebpf, function, function)?;
    probes::settle(function);
    Ok(())
}

/// … and to its end the one whose name is that with `_ends`.
pub fn probe_both_ends(ebpf: &mut Ebpf, function: &str) -> Result<()> {
    attach_probe(ebpf, &format!("{function}_ends"), function)?;
    probe(ebpf, function)
}

fn attach_probe(ebpf: &mut Ebpf, name: &str, function: &str) -> Result<()> {
    let Some(Program::KProbe(program)) = ebpf.program_mut(name) else {
        bail!("there is no probe {name} in the object");
    };
    program.load()?;
    program.attach(function, 0).with_context(|| {
        format!("cannot probe {function}\nhint: the kernel needs CONFIG_KPROBE_EVENTS")
    })?;
    Ok(())
}

/// A name of up to 16 bytes, as two numbers.
pub fn name(low: u64, high: u64) -> String {
    let bytes = [low.to_ne_bytes(), high.to_ne_bytes()].concat();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_its_first_zero_or_with_its_bytes() {
        let number = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        assert_eq!(name(number(b"kworker/"), number(b"2:1\0abcd")), "kworker/2:1");
        assert_eq!(name(number(b"12345678"), number(b"abcdefgh")), "12345678abcdefgh");
        assert_eq!(name(0, 7), "");
    }

    #[test]
    fn a_record_that_is_too_short_is_refused() {
        assert!(record::<u64>(&[0; 4]).is_err());
        assert_eq!(record::<u32>(&7u32.to_ne_bytes()).unwrap(), 7);
    }
}
