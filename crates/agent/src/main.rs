// SPDX-License-Identifier: GPL-2.0-only
//! The one program that runs inside the lab's hosts and guests.
//!
//! As process 1 it prepares the system and starts itself again to serve the machine.
//! `paratick-agent workload NAME …` runs one of the project's own workloads anywhere;
//! `paratick-agent make-root ROOT TRACE [INPUT FOLDER]` copies what a program needs into memory.

mod init;
mod modules;
mod port;
mod root;
mod system;
mod workload;

use anyhow::Result;
use paratick_service::{
    guest::MACHINE,
    serve::{self, Role},
};
use std::process::ExitCode;

/// How long khugepaged waits between two looks, in ms.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";

const USAGE: &str = "\
usage: paratick-agent workload NAME [ARGUMENTS]
       paratick-agent make-root ROOT TRACE [INPUT FOLDER]
  (as process 1 of a host or guest it serves the machine that started it)";

fn main() -> ExitCode {
    if init::is_first() {
        init::run();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => finish(serve_machine()),
        ["workload", ..] => run_workload(&arguments[1..]),
        ["make-root", root, trace] => finish(root::make(root.as_ref(), trace.as_ref())),
        ["make-root", root, trace, input, folder] => {
            let copied = root::copy_tree(input.as_ref(), folder.as_ref(), &|_| true);
            finish(copied.and_then(|()| root::make(root.as_ref(), trace.as_ref())))
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_workload(arguments: &[String]) -> ExitCode {
    match workload::main(arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("paratick-agent: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paratick-agent: {error:#}");
            ExitCode::from(69)
        }
    }
}

fn serve_machine() -> Result<()> {
    let (kind, port) = port::open()?;
    // So that a prompt says where one is.
    let name = match kind {
        port::Kind::Host => "paratick-host",
        port::Kind::Guest => "paratick-guest",
    };
    let _ = rustix::system::sethostname(name.as_bytes());
    let role = match kind {
        port::Kind::Guest => Role::Guest,
        port::Kind::Host => {
            // Else it looks through a guest's memory 10 s after the guest's start, for 4 to 9 ms of
            // CPU time, in whichever measurement that falls.  A kernel may lack it.
            let _ = std::fs::write(HUGE_PAGES, u32::MAX.to_string());
            Role::Host { machine: MACHINE.into(), state: "/run/paratick".into() }
        }
    };
    let from = port::Patient { port: port.try_clone()?, heard: false };
    serve::serve(from, port, role, init::enter, serve::ready())
}
