// SPDX-License-Identifier: GPL-2.0-only
//! What bpf/steps.h defines.
#![allow(dead_code)]

include!(concat!(env!("OUT_DIR"), "/steps.rs"));
