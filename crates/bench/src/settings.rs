// SPDX-License-Identifier: GPL-2.0-only
//! What a bench is asked to do.

use super::prepared::Prepared;
use paratick_build::tools::Tools;
use paratick_core::catalogue::sets::Set;
use paratick_machine::{accel::Accel, spec::Backend};
use std::{path::PathBuf, sync::Arc};

#[derive(Clone, Debug)]
pub struct Kernel {
    pub image: PathBuf,
    pub config: Option<PathBuf>,
    /// Hash of its patches.
    pub patches: Option<String>,
    /// The disk with its guests' root, where it cannot share the machine's.
    pub root_disk: Option<PathBuf>,
}

pub struct Settings {
    pub set: Set,
    /// The command line that asked for it.
    pub command: Vec<String>,
    pub kernel: Kernel,
    /// None where the backend boots none.
    pub host_kernel: Option<Kernel>,
    pub tools: Tools,
    pub prepared: Arc<Prepared>,
    pub backend: &'static dyn Backend,
    pub accel: Accel,
    /// Hosts at the same time; none: as many as this machine bears.
    pub jobs: Option<usize>,
    pub output: PathBuf,
    /// Insist on continuing `output`.
    pub resume: bool,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
}
