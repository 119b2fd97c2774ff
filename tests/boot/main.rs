// SPDX-License-Identifier: GPL-2.0-only
//! Tests that boot real kernels under emulation; `make test-boot` runs them, two at a time.
//!
//! `PARATICK_TEST_KERNEL` names a bzImage to use instead of the one with the series, and
//! `PARATICK_TEST_BASE_KERNEL` one instead of that without.  With `PARATICK_TEST_SLOW=4` a kernel
//! may take four times as long.

mod accounting;
mod advice;
mod balance;
mod baseline;
mod bench;
mod coalesce;
mod cputime;
mod devices;
mod doctor;
mod emulator;
mod exit_record;
mod exits;
mod halt_until;
mod headers;
mod here;
mod hz;
mod idle;
mod in_interrupt;
mod kexec;
mod lab;
mod learned;
mod lost;
mod model;
mod noise;
mod packaged;
mod paper;
mod polling;
mod programs;
mod realtime;
mod recording;
mod rtla;
mod sampler;
mod selftest;
mod series;
mod serve;
mod shared;
mod slack;
mod snapshot;
mod soak;
mod spared;
mod stock;
mod support;
mod system;
mod timerlat;
mod transitions;
mod tune;
mod unasked;
mod user_timers;
mod vmm;
mod waiter;
