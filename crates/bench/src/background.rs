// SPDX-License-Identifier: GPL-2.0-only
//! What runs in guests beside a run: a load, or the server that the run talks to.

use super::prepared::{folder, RUN_LIMIT};
use anyhow::Result;
use paratick_core::{
    catalogue::{programs, workloads},
    results::PlannedWorkload,
};
use paratick_machine::{exec::Exec, guest::Guest};

/// Processes by their numbers in the guests.
pub(super) struct Background<'a>(Vec<(&'a Guest, String)>);

impl<'a> Background<'a> {
    /// Starts a workload that is not `idle`, or the server that it talks to, without a window.
    pub fn start(
        guests: &'a [Guest],
        agent: &str,
        workload: &PlannedWorkload,
    ) -> Result<Background<'a>> {
        const SCRIPT: &str = r#""$@" </dev/null >/dev/null 2>&1 & echo $!"#;
        if workload.workload == "idle" {
            return Ok(Background(Vec::new()));
        }
        let mut argv: Vec<String> = ["sh", "-c", SCRIPT, "sh"].map(String::from).to_vec();
        match workload.program.as_ref().and_then(|program| program.server.as_ref()) {
            Some(server) => {
                let inside = format!("cd {} && exec {server}", folder(workload));
                argv.extend(["chroot", programs::ROOT, "sh", "-c", &inside].map(String::from));
            }
            None => {
                let name = workloads::agents_name(&workload.workload);
                let load = [agent, "workload", name, "--work", "1000000", "--window", "0"];
                argv.extend(load.map(String::from));
            }
        }
        let start = |guest: &'a Guest| {
            let result = guest.exec(Exec::new(argv.clone()).timeout(RUN_LIMIT))?;
            Ok((guest, String::from_utf8_lossy(&result.stdout).trim().to_string()))
        };
        guests.iter().map(start).collect::<Result<_>>().map(Background)
    }

    /// Has none of them ended?  Clients wait for ever for a server that is not there.
    pub fn runs(&self) -> Result<bool> {
        for (guest, process) in &self.0 {
            // Of one that has ended and was not waited for, there is no program.
            let program = format!("/proc/{process}/exe");
            if guest.exec(Exec::new(["test", "-e", &program]).timeout(RUN_LIMIT))?.code != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends them, and waits until they are gone: the next server may have the same port.
    pub fn stop(self) -> Result<()> {
        const SCRIPT: &str = "kill $1; while test -e /proc/$1/exe; do sleep 0.05; done";
        for (guest, process) in self.0 {
            guest.exec(Exec::new(["sh", "-c", SCRIPT, "sh", &process]).timeout(RUN_LIMIT))?;
        }
        Ok(())
    }
}
