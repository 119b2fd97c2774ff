// SPDX-License-Identifier: GPL-2.0-only
//! A stock kernel's modules, which are in its archive beside the agent: what other kernels of the
//! lab have built in.

use rustix::io::Errno;
use std::{
    ffi::CString,
    fs::{read_dir, File},
    io,
    path::{Path, PathBuf},
};

const FOLDER: &str = "/modules";
/// The kernel's own parameter: modules that it refuses to load.
const REFUSED: &str = "module_blacklist=";

/// Loads all in the order of their names.
pub fn load() {
    let mut files: Vec<PathBuf> =
        read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    for file in files {
        let name = name_of(&file);
        if is_refused(&name, &command_line) {
            continue;
        }
        if let Err(error) = load_one(&file, &parameters(&name, &command_line)) {
            // Whatever needs it will fail, and say more.
            eprintln!("module {name}: {error}");
        }
    }
}

fn load_one(file: &Path, parameters: &str) -> io::Result<()> {
    match rustix::system::finit_module(File::open(file)?, &CString::new(parameters)?, 0) {
        // It is for a processor or a device that is not there.
        Err(Errno::NODEV | Errno::OPNOTSUPP | Errno::EXIST) => Ok(()),
        result => Ok(result?),
    }
}

/// `kvm_amd`, of `/modules/09-kvm_amd.ko`.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem.split_once('-').map_or(&*stem, |(_, name)| name).to_owned()
}

fn is_refused(name: &str, command_line: &str) -> bool {
    let lists = command_line.split_whitespace().filter_map(|word| word.strip_prefix(REFUSED));
    lists.flat_map(|list| list.split(',')).any(|one| one == name)
}

/// What the kernel's command line has for this module: for those that are built in the kernel looks
/// itself, for others modprobe(8) does.
fn parameters(name: &str, command_line: &str) -> String {
    let ours = command_line.split_whitespace().filter_map(|word| {
        let (module, parameter) = word.split_once('.')?;
        (module.replace('-', "_") == name).then_some(parameter)
    });
    ours.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "quiet kvm.halt_poll_ns=0 kvm-amd.avic=0 kvm.a=1 module_blacklist=ccp,kvm x.kvm=2";

    #[test]
    fn a_module_gets_its_parameters_from_the_kernels_command_line() {
        assert_eq!(parameters("kvm", LINE), "halt_poll_ns=0 a=1");
        assert_eq!(parameters("kvm_amd", LINE), "avic=0");
        assert_eq!(parameters("msr", LINE), "");
    }

    #[test]
    fn what_the_kernel_would_refuse_is_not_loaded() {
        assert!(is_refused("kvm", LINE) && is_refused("ccp", LINE));
        assert!(!is_refused("kvm_amd", LINE) && !is_refused("quiet", LINE));
    }

    #[test]
    fn a_file_is_named_by_its_place_and_its_module() {
        assert_eq!(name_of(Path::new("/modules/02-9pnet_virtio.ko")), "9pnet_virtio");
        assert_eq!(name_of(Path::new("/modules/10-kvm_amd.ko")), "kvm_amd");
    }
}
