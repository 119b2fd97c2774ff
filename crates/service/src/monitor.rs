// SPDX-License-Identifier: GPL-2.0-only
//! QEMU's monitor (QMP).

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

pub struct Monitor {
    lines: BufReader<UnixStream>,
    socket: UnixStream,
}

impl Monitor {
    /// Takes over a fresh connection.
    pub fn new(socket: UnixStream) -> Result<Monitor> {
        let lines = BufReader::new(socket.try_clone()?);
        let mut monitor = Monitor { lines, socket };
        monitor.line().context("reading QEMU's greeting")?;
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// The thread of each vCPU, in order.
    pub fn vcpu_threads(&mut self) -> Result<Vec<u32>> {
        let answer = self.ask("query-cpus-fast", json!({}))?;
        let cpus = answer.as_array().context("query-cpus-fast gave no list")?;
        let number = |cpu: &Value, field: &str| {
            cpu[field].as_u64().with_context(|| format!("query-cpus-fast gave no {field}"))
        };
        let mut threads = Vec::new();
        for cpu in cpus {
            threads.push((number(cpu, "cpu-index")?, number(cpu, "thread-id")? as u32));
        }
        threads.sort_unstable();
        Ok(threads.into_iter().map(|(_, thread)| thread).collect())
    }

    pub fn cont(&mut self) -> Result<()> {
        self.ask("cont", json!({})).map(drop)
    }

    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.socket
            .write_all(request.as_bytes())
            .with_context(|| format!("asking QEMU for {command}"))?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refused {command}: {error}");
            }
            // Anything else is an event.
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("QEMU closed its monitor");
        }
        serde_json::from_str(&line).with_context(|| format!("QEMU's monitor said {line:?}"))
    }
}
