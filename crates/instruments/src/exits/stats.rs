// SPDX-License-Identifier: GPL-2.0-only
//! KVM's own counters of a guest, from debugfs: a second count, made by other code.

use anyhow::{bail, Context, Result};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Each counter is the sum over the guest's vCPUs since the guest was made.
///
/// They vanish with the guest, and have no windows: they can be compared with
/// [`super::ExitCounter::lifetime`] while the guest's vCPUs do not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvmStats {
    pub counters: BTreeMap<String, u64>,
}

impl KvmStats {
    /// Reads the counters of the guest whose QEMU is process `tgid`.
    pub fn read(tgid: u32) -> Result<KvmStats> {
        let folder = Self::folder(Path::new("/sys/kernel/debug/kvm"), tgid)?;
        Self::read_folder(&folder)
    }

    /// All exits; `None` if this kernel does not count them.
    pub fn exits(&self) -> Option<u64> {
        self.counters.get("exits").copied()
    }

    fn folder(kvm: &Path, tgid: u32) -> Result<PathBuf> {
        let prefix = format!("{tgid}-");
        let entries = fs_err::read_dir(kvm).context(
            "KVM's statistics cannot be read\nhint: mount -t debugfs none /sys/kernel/debug, as root",
        )?;
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                return Ok(entry.path());
            }
        }
        bail!("process {tgid} has no guest in {}", kvm.display())
    }

    fn read_folder(folder: &Path) -> Result<KvmStats> {
        let mut counters = BTreeMap::new();
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            // Some files hold a table or cannot be read: they are no counters.
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            if let Ok(value) = text.trim().parse() {
                counters.insert(entry.file_name().to_string_lossy().into_owned(), value);
            }
        }
        Ok(KvmStats { counters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_tables_are_left_out() {
        let kvm = std::env::temp_dir().join(format!("paratick-stats-{}", std::process::id()));
        let guest = kvm.join("42-11");
        std::fs::create_dir_all(guest.join("vcpu0")).unwrap();
        std::fs::write(guest.join("exits"), "1234\n").unwrap();
        std::fs::write(guest.join("mmu_rmaps_stat"), "Rmap_Count: 0 1\n").unwrap();

        let found = KvmStats::folder(&kvm, 42).unwrap();
        let stats = KvmStats::read_folder(&found).unwrap();
        assert_eq!(stats.exits(), Some(1234));
        assert_eq!(stats.counters.len(), 1);
        assert!(KvmStats::folder(&kvm, 4).is_err());
        std::fs::remove_dir_all(&kvm).unwrap();
    }
}
