// SPDX-License-Identifier: GPL-2.0-only
//! What the TSC of each running vCPU is ahead of the host's, as KVM tells in debugfs
//! (arch/x86/kvm/debugfs.c).

use paratick_core::noise::TscOffset;
use std::{fs, path::Path};

const KVM: &str = "/sys/kernel/debug/kvm";

/// Of all VMs; none where debugfs is not to be read.
pub fn read() -> Vec<TscOffset> {
    read_in(Path::new(KVM))
}

fn read_in(kvm: &Path) -> Vec<TscOffset> {
    let mut offsets = Vec::new();
    for vm in folders(kvm) {
        // Process and file descriptor.
        let Some(process) = vm.0.split_once('-').and_then(|(pid, _)| pid.parse().ok()) else {
            continue;
        };
        for (name, path) in folders(&vm.1) {
            let vcpu = name.strip_prefix("vcpu").and_then(|number| number.parse().ok());
            let read = || fs::read_to_string(path.join("tsc-offset")).ok()?.trim().parse().ok();
            if let (Some(vcpu), Some(offset)) = (vcpu, read()) {
                offsets.push(TscOffset { process, vcpu, offset });
            }
        }
    }
    offsets.sort_by_key(|one| (one.process, one.vcpu));
    offsets
}

fn folders(of: &Path) -> Vec<(String, std::path::PathBuf)> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_found_by_process_and_vcpu() {
        let root = std::env::temp_dir().join(format!("paratick-tsc-{}", std::process::id()));
        for (file, text) in [
            ("412-11/vcpu1/tsc-offset", "-25\n"),
            ("412-11/vcpu0/tsc-offset", "18446744\n"),
            ("412-11/vcpu0/pid", "7\n"),
            ("412-11/stray", "5\n"),
            ("other/vcpu0/tsc-offset", "1\n"),
        ] {
            let file = root.join(file);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, text).unwrap();
        }
        let process = 412;
        let expected = [
            TscOffset { process, vcpu: 0, offset: 18_446_744 },
            TscOffset { process, vcpu: 1, offset: -25 },
        ];
        assert_eq!(read_in(&root), expected);
        assert_eq!(read_in(&root.join("nowhere")), []);
        fs_err::remove_dir_all(root).unwrap();
    }
}
