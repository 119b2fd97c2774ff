// SPDX-License-Identifier: GPL-2.0-only
//! What runs on the host: guests under KVM, and the counting of their exits.

pub mod guest;
mod guests;
pub mod monitor;
pub mod network;
mod outbox;
pub mod pin;
pub mod process;
pub mod serve;
mod session;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The file that `name` runs, found as a shell finds it.
pub fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    use rustix::fs::{access, Access};
    let runs = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| runs(file));
    }
    path.split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(folder).join(name))
        .find(|file| runs(file))
}

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn online_cpus() -> u32 {
    std::fs::read_to_string("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|list| count_cpus(list.trim()))
        .unwrap_or(1)
}

/// How many CPUs a list such as `0-3,6` names.
fn count_cpus(list: &str) -> Option<u32> {
    list.split(',')
        .map(|range| match range.split_once('-') {
            Some((first, last)) => {
                Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
            }
            None => range.parse::<u32>().ok().map(|_| 1),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted_as_the_kernel_writes_them() {
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-3,6"), Some(5));
        assert_eq!(count_cpus("3-0"), None);
    }

    #[test]
    fn a_program_is_found_in_the_path_or_by_its_own() {
        assert_eq!(find_program("sh", "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("/bin/sh", ""), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("no-such-program", "/bin:/usr/bin"), None);
    }
}
