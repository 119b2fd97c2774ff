// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command by running it; nothing here boots or needs a network.

mod bench;
mod calibrate;
mod compare;
mod crates;
mod debian;
mod doctor;
mod emulator;
mod exits;
mod generate;
mod halts;
mod idle;
mod kernel;
mod kernel_build;
mod kernel_deb;
mod kernel_matrix;
mod kernel_stack;
mod lab;
mod model;
mod noise;
mod observe;
mod outside;
mod own_program;
mod refusals;
mod report;
mod serve;
mod stdout;
mod steps;
mod support;
mod surprises;
#[path = "../synthetic/mod.rs"]
mod synthetic;
mod tests_again;
mod timeline;
mod timerlat;
