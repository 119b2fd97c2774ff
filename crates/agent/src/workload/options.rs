// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of a workload.

use paratick_core::workload::{self, Workload};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub workload: &'static Workload,
    pub work: u64,
    /// The window's number in the host's counts.
    pub window: u32,
    /// It is the window of all guests of the host.
    pub all_guests: bool,
    pub threads: usize,
    /// Count what the kernel decides when CPUs go idle.  It takes time: not in runs that are timed.
    pub idle_entries: bool,
    /// Read the kernel's own counts of interrupts around the window.
    pub interrupts: bool,
    /// Tell why the guest wrote deadlines that it could hand over.  It takes time, too.
    pub deadline_writes: bool,
    /// None: the guest's disk.
    pub device: Option<PathBuf>,
    pub pattern: Pattern,
    pub period_us: u32,
    /// Synchronizations per second.
    pub rate: u32,
    /// How many cells, each with a lock, threads compete for.
    pub locks: usize,
    /// What `mix` does in turn, and by how many percent its sleeps vary.
    pub busy_us: u32,
    pub sleep_us: u32,
    pub jitter_percent: u32,
    /// Where `program` runs, instead of in this process's root file system.
    pub root: Option<PathBuf>,
    /// After `--`: what `program` runs.
    pub command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Random,
    Sequential,
}

/// Markers have 24 bits for the window's number.
const MAX_WINDOW: u64 = (1 << 24) - 1;

impl Options {
    pub fn parse(args: &[String], cpus: usize) -> Result<Options, String> {
        let (name, rest) = args.split_first().ok_or("which workload?")?;
        let workload = workload::find(name).ok_or_else(|| format!("no workload '{name}'"))?;
        let mut options = Options {
            workload,
            work: workload.work,
            window: 1,
            all_guests: false,
            threads: workload.threads.on(cpus),
            idle_entries: false,
            interrupts: false,
            deadline_writes: false,
            device: None,
            pattern: Pattern::Random,
            period_us: 1000,
            rate: 1000,
            locks: 64,
            busy_us: 1000,
            sleep_us: 3000,
            jitter_percent: 0,
            root: None,
            command: Vec::new(),
        };
        let mut rest = rest.iter();
        while let Some(flag) = rest.next() {
            if flag == "--" {
                options.command = rest.cloned().collect();
                break;
            }
            let switch = match flag.as_str() {
                "--all-guests" => Some(&mut options.all_guests),
                "--idle-entries" => Some(&mut options.idle_entries),
                "--interrupts" => Some(&mut options.interrupts),
                "--deadline-writes" => Some(&mut options.deadline_writes),
                _ => None,
            };
            if let Some(switch) = switch {
                *switch = true;
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{flag} needs a value"))?;
            options.set(flag, value)?;
        }
        match (options.workload.name, options.command.as_slice()) {
            ("program", []) => return Err("which program? program … -- COMMAND".into()),
            ("program", _) | (_, []) => {}
            (name, _) => return Err(format!("{name} runs no command: -- is for program only")),
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        match flag {
            "--work" => self.work = number(flag, value, 1, u32::MAX.into())?,
            "--window" => self.window = number(flag, value, 0, MAX_WINDOW)? as u32,
            "--threads" => self.threads = number(flag, value, 1, 1024)? as usize,
            "--period-us" => self.period_us = number(flag, value, 100, 999_999)? as u32,
            "--rate" => self.rate = number(flag, value, 1, 100_000)? as u32,
            "--locks" => self.locks = number(flag, value, 1, 1 << 20)? as usize,
            "--busy-us" => self.busy_us = number(flag, value, 1, 1_000_000)? as u32,
            "--sleep-us" => self.sleep_us = number(flag, value, 1, 1_000_000)? as u32,
            "--jitter" => self.jitter_percent = number(flag, value, 0, 100)? as u32,
            "--root" => self.root = Some(value.into()),
            "--device" => self.device = Some(value.into()),
            "--pattern" => {
                self.pattern = match value {
                    "random" => Pattern::Random,
                    "sequential" => Pattern::Sequential,
                    _ => return Err(format!("--pattern is random or sequential, not '{value}'")),
                }
            }
            _ => return Err(format!("no option '{flag}'")),
        }
        Ok(())
    }
}

fn number(flag: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{flag} takes a number from {least} to {most}, not '{value}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        Options::parse(&args, 2)
    }

    #[test]
    fn defaults_come_from_the_table() {
        let options = parse(&["sleep"]).unwrap();
        assert_eq!((options.work, options.threads, options.window), (2000, 1, 1));
        assert_eq!(parse(&["cpu"]).unwrap().threads, 2);
    }

    #[test]
    fn options_replace_defaults() {
        let options = parse(&["cpu", "--work", "7", "--window", "9", "--threads", "1"]).unwrap();
        assert_eq!((options.work, options.threads, options.window), (7, 1, 9));
        assert!(!options.idle_entries);
        let options = parse(&["cpu", "--idle-entries", "--work", "7"]).unwrap();
        assert_eq!((options.work, options.idle_entries), (7, true));
    }

    #[test]
    fn wrong_arguments_are_refused_with_their_value() {
        for args in [
            &["no-such"][..],
            &["cpu", "--work", "0"],
            &["cpu", "--window", "16777216"],
            &["cpu", "--speed", "9"],
            &["block", "--pattern", "zigzag"],
        ] {
            let error = parse(args).unwrap_err();
            assert!(error.contains(args.last().unwrap()) || error.contains("--speed"), "{error}");
        }
        assert!(parse(&[]).is_err());
        assert!(parse(&["cpu", "--work"]).is_err());
        assert!(parse(&["program", "--work", "2"]).is_err());
        assert!(parse(&["cpu", "--", "true"]).is_err());
    }

    #[test]
    fn all_that_follows_two_dashes_is_the_program_s() {
        let options = parse(&["program", "--work", "2", "--", "ls", "--work", "--"]).unwrap();
        assert_eq!(options.work, 2);
        assert_eq!(options.command, ["ls", "--work", "--"]);
    }
}
