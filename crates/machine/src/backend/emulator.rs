// SPDX-License-Identifier: GPL-2.0-only
//! An emulator as a process: it ends with us, and its console is watched.

use crate::link::{Link, HOST};
use anyhow::Result;
use paratick_service::process::Kept;
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        mpsc::{channel, Sender},
        Arc,
    },
    thread,
};

/// Starts it; what it prints is the host's console.
pub fn spawn(mut command: Command, run: &Path, link: &Arc<Link>) -> Result<Kept> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let log = run.join("host.console");
    let (printing, printed, ended) = (link.clone(), link.clone(), link.clone());
    let (done, wait) = channel::<()>();
    let done_too = done.clone();
    Kept::spawn(
        command,
        None,
        move |child| {
            if let Some(console) = child.stdout.take() {
                let log = File::create(log).ok();
                thread::spawn(move || listen(console, log, &printing, done));
            }
            // What it complains about reads like the last words of a console.
            if let Some(errors) = child.stderr.take() {
                thread::spawn(move || listen(errors, None, &printed, done_too));
            }
        },
        move |status| {
            let _ = wait.recv();
            ended.ended(HOST, format!("its emulator ended: {status}"));
        },
    )
}

fn listen(mut from: impl Read, mut log: Option<File>, link: &Link, _done: Sender<()>) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if let Some(log) = &mut log {
            let _ = log.write_all(&bytes[..length]);
        }
        link.console(HOST, &String::from_utf8_lossy(&bytes[..length]));
    }
}
