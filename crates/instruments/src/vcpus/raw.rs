// SPDX-License-Identifier: GPL-2.0-only
//! What bpf/vcpu.h defines.
#![allow(dead_code)]

use crate::{facts::raw::Thread, noise::raw::Absence};

include!(concat!(env!("OUT_DIR"), "/vcpu.rs"));
