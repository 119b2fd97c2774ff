// SPDX-License-Identifier: GPL-2.0-only
//! Why an exit happened, in timer terms.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The cause of a VM exit; how each is decided is told in docs/measuring.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The guest armed its timer (TSC_DEADLINE or TMICT written with a value).
    Arm,
    /// The guest stopped its timer (the same registers written with 0).
    Stop,
    /// The vCPU's timer expired while the vCPU ran.
    Expiry,
    /// The host's own timer interrupt, with nothing in it for this vCPU.
    HostTick,
    /// The vCPU had nothing to do: HLT (or MWAIT).
    Halt,
    /// An inter-processor interrupt, sent by the guest or received by the host's CPU.
    Ipi,
    /// The guest acknowledged an interrupt (EOI).
    Eoi,
    /// Port or memory-mapped I/O, or a device interrupt of the host.
    Io,
    /// None of the above.
    Other,
}

impl Cause {
    pub const ALL: [Cause; 9] = [
        Cause::Arm,
        Cause::Stop,
        Cause::Expiry,
        Cause::HostTick,
        Cause::Halt,
        Cause::Ipi,
        Cause::Eoi,
        Cause::Io,
        Cause::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Cause::Arm => "arm",
            Cause::Stop => "stop",
            Cause::Expiry => "expiry",
            Cause::HostTick => "host-tick",
            Cause::Halt => "halt",
            Cause::Ipi => "ipi",
            Cause::Eoi => "eoi",
            Cause::Io => "io",
            Cause::Other => "other",
        }
    }

    /// Whether a tick technique could have removed the exit.
    pub fn is_timer(self) -> bool {
        matches!(
            self,
            Cause::Arm | Cause::Stop | Cause::Expiry | Cause::HostTick
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_written_in_json_as_its_name() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{}\"", cause.name()));
            assert_eq!(serde_json::from_str::<Cause>(&json).unwrap(), cause);
        }
    }
}
