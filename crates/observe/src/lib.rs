// SPDX-License-Identifier: GPL-2.0-only
//! Looking at the VMs that run on this machine: whether one may, what they are called, and what
//! they do; and at what others recorded of theirs.

mod chain;
mod costs;
mod ended;
mod metrics;
mod names;
mod processes;
mod recorded;
mod rights;
mod trial;
mod watch;

pub use chain::{as_guest, as_host, of_qemu, Link};
pub use costs::{costs, Cost, Found, State, Work};
pub use metrics::{Format, Metrics, Sums};
pub use names::{Identity, NotOne, Wanted};
pub use processes::running;
pub use recorded::{recorded, say_untimed};
pub use rights::{check, keep_to_reading};
pub use trial::{has_tracer, trial};
pub use watch::{Watch, STEP};

/// For whoever lets an agent count.
pub use paratick_instruments::vcpus::VcpuCounter;
