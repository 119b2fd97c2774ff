// SPDX-License-Identifier: GPL-2.0-only
//! What a system says of its CPU time: two looks, and the difference.  All times are in ms.

use crate::support::{sh, text};
use anyhow::Result;
use paratick_machine::exec::{Exec, ExecResult};
use std::collections::BTreeMap;

pub const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/boot/accounting/look.c");
pub const LOOK: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/look");

/// What files said at an instant.
pub struct Look {
    pub at: f64,
    files: BTreeMap<String, String>,
}

impl Look {
    /// `files` in words of a shell; `exec` runs a command on the system.
    pub fn at(files: &str, exec: impl Fn(Exec) -> Result<ExecResult>) -> Look {
        let said = exec(sh(&format!("exec {LOOK} {files}"))).unwrap();
        assert_eq!(said.code, 0, "{}", text(&said.stderr));
        let said = text(&said.stdout);
        let mut parts = said.split("@ /");
        let at = parts.next().unwrap().trim().parse::<f64>().unwrap() / 1e6;
        let file = |part: &str| {
            let (name, contents) = part.split_once('\n').unwrap();
            (format!("/{name}"), contents.to_owned())
        };
        Look { at, files: parts.map(file).collect() }
    }

    /// The columns of a CPU in /proc/stat.
    pub fn cpu(&self, cpu: u32) -> Columns {
        let name = format!("cpu{cpu} ");
        let line = self.files["/proc/stat"].lines().find_map(|line| line.strip_prefix(&name));
        Columns(line.unwrap().split(' ').map(|word| word.parse::<f64>().unwrap() * 10.0).collect())
    }

    /// A number of a cgroup's cpu.stat.
    pub fn group(&self, folder: &str, name: &str) -> f64 {
        let text = &self.files[&format!("{folder}/cpu.stat")];
        let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_usec "));
        number.unwrap().parse::<f64>().unwrap() / 1e3
    }

    /// The threads of a process, in order: their folders in /proc.
    pub fn threads(&self, pid: u32) -> Vec<&str> {
        let of = format!("/proc/{pid}/task/");
        let folders = self.files.keys().filter_map(|name| name.strip_suffix("/schedstat"));
        folders.filter(|folder| folder.starts_with(&of)).collect()
    }

    /// How the thread of a process's first vCPU is called.
    pub fn vcpu(&self, pid: u32) -> &str {
        let is = |folder: &&str| self.files[&format!("{folder}/comm")].trim() == "CPU 0/KVM";
        self.threads(pid).into_iter().find(is).expect("a vCPU's thread")
    }

    /// For how long a thread ran, and for how long it waited for its turn.
    pub fn ran_and_waited(&self, thread: &str) -> [f64; 2] {
        let mut words = self.files[&format!("{thread}/schedstat")].split_whitespace();
        [(); 2].map(|()| words.next().unwrap().parse::<f64>().unwrap() / 1e6)
    }

    /// For how long the tick has found a thread in its guest.
    pub fn in_guest(&self, thread: &str) -> f64 {
        // Behind the name, which may have blanks, comes the third field; this is the 43rd.
        let (_, fields) = self.files[&format!("{thread}/stat")].rsplit_once(") ").unwrap();
        fields.split(' ').nth(40).unwrap().parse::<f64>().unwrap() * 10.0
    }
}

/// The ten columns of a CPU in /proc/stat.
#[derive(Debug)]
pub struct Columns(Vec<f64>);

impl Columns {
    pub fn since(&self, before: &Columns) -> Columns {
        Columns(self.0.iter().zip(&before.0).map(|(after, before)| after - before).collect())
    }

    /// All but the last two, which are a part of the first two.
    pub fn all(&self) -> f64 {
        self.0[..8].iter().sum()
    }

    /// User and system time, with that of interrupts.
    pub fn busy(&self) -> f64 {
        [0, 1, 2, 5, 6].iter().map(|column| self.0[*column]).sum()
    }

    pub fn steal(&self) -> f64 {
        self.0[7]
    }

    pub fn guest(&self) -> f64 {
        self.0[8] + self.0[9]
    }
}
