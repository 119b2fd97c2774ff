// SPDX-License-Identifier: GPL-2.0-only
//! What bpf/kept.h defines.

include!(concat!(env!("OUT_DIR"), "/kept.rs"));
