// SPDX-License-Identifier: GPL-2.0-only
//! What all BPF programs of ours need of the kernel they are loaded into.

use crate::tracefs::Tracefs;
use anyhow::{bail, Context, Result};
use aya::{programs::Program, Ebpf};

/// A variable of a BPF program, and the field of a tracepoint whose offset it holds: tracepoint,
/// field, size in bytes.
pub type Field = (&'static str, &'static str, &'static str, u32);

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
        attach_one(ebpf, event).with_context(|| {
            format!(
                "cannot attach a BPF program to tracepoint {event}\n\
                 hint: be root, on a kernel with CONFIG_PERF_EVENTS and CONFIG_BPF_EVENTS"
            )
        })?;
    }
    Ok(())
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
