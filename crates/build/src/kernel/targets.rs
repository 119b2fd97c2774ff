// SPDX-License-Identifier: GPL-2.0-only
//! What to ask `make` for, so that it compiles the files that patches touch.

use crate::kernel::make::KVM_SELFTESTS;
use std::collections::BTreeSet;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Folders of the kernel, relative to its root.
    pub folders: BTreeSet<String>,
    /// KVM selftests, relative to their folder.
    pub selftests: BTreeSet<String>,
}

impl Targets {
    /// `arch` is the folder in `arch/` that is compiled; what is in others is left out.
    pub fn add(&mut self, file: &str, arch: &str) {
        let Some((stem, "c" | "S")) = file.rsplit_once('.') else { return };
        let foreign = file
            .strip_prefix("arch/")
            .is_some_and(|rest| rest.strip_prefix(arch).is_none_or(|rest| !rest.starts_with('/')));
        if let Some(test) = stem.strip_prefix(KVM_SELFTESTS) {
            // Programs are made by name, what they share by object.
            let shared = test.starts_with("lib/");
            self.selftests.insert(if shared { format!("{test}.o") } else { test.to_owned() });
        } else if file.starts_with("virt/kvm/") {
            // It has no Makefile: each architecture's KVM takes these files.
            self.folders.insert(format!("arch/{arch}/kvm/"));
        } else if !foreign && !file.starts_with("tools/") && !file.starts_with("samples/") {
            // The folder, not the object: make then leaves out what the configuration leaves out,
            // and finds files that another one includes, as kernel/sched does.
            let folder = stem.rsplit_once('/').map_or("", |(folder, _)| folder);
            self.folders.insert(format!("{folder}/"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 8] = [
        "kernel/time/tick-sched.c",
        "arch/x86/kernel/entry.S",
        "arch/arm64/kvm/arm.c",
        "virt/kvm/kvm_main.c",
        "Documentation/virt/kvm/x86/msr.rst",
        "include/linux/tick.h",
        "tools/testing/selftests/kvm/x86_64/pv_tick_test.c",
        "tools/testing/selftests/kvm/lib/x86_64/processor.c",
    ];

    fn targets(arch: &str) -> Targets {
        let mut targets = Targets::default();
        for file in FILES {
            targets.add(file, arch);
        }
        targets
    }

    #[test]
    fn folders_and_selftests_are_told_apart_and_the_rest_is_left_out() {
        let Targets { folders, selftests } = targets("x86");
        assert_eq!(
            folders.into_iter().collect::<Vec<_>>(),
            ["arch/x86/kernel/", "arch/x86/kvm/", "kernel/time/"]
        );
        assert_eq!(
            selftests.into_iter().collect::<Vec<_>>(),
            ["lib/x86_64/processor.o", "x86_64/pv_tick_test"]
        );
    }

    #[test]
    fn each_architecture_has_its_own_folders_and_its_own_kvm() {
        let folders: Vec<_> = targets("arm64").folders.into_iter().collect();
        assert_eq!(folders, ["arch/arm64/kvm/", "kernel/time/"]);
        let folders: Vec<_> = targets("arm").folders.into_iter().collect();
        assert_eq!(folders, ["arch/arm/kvm/", "kernel/time/"]);
    }
}
