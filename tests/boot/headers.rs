// SPDX-License-Identifier: GPL-2.0-only
//! Every exit reason, MSR and hypercall that a kernel's headers define has a row of its own: of the
//! lab's kernel, and of the machine's C library.

use paratick_build::cache;
use paratick_core::{
    cause::{About, Facts, Noted},
    reason::{self, Isa},
};
use std::{fs, path::PathBuf};

/// Folders of UAPI headers: asm/, linux/.
fn folders() -> Vec<[PathBuf; 2]> {
    let mut found =
        vec![["/usr/include/x86_64-linux-gnu/asm", "/usr/include/linux"].map(PathBuf::from)];
    for tree in fs::read_dir(cache::dir().unwrap().join("source")).unwrap() {
        let tree = tree.unwrap().path();
        found.push([tree.join("arch/x86/include/uapi/asm"), tree.join("include/uapi/linux")]);
    }
    assert!(found.len() > 1, "no kernel's source is in the cache");
    found
}

/// `#define NAME NUMBER` of names that begin so.
fn defined(text: &str, begin: &str) -> Vec<(String, u64)> {
    let define = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (Some("#define"), Some(name), Some(value)) = (words.next(), words.next(), words.next())
        else {
            return None;
        };
        let value = value.trim_end_matches(['U', 'L', 'u', 'l']);
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }?;
        name.starts_with(begin).then(|| (name.to_string(), number))
    };
    text.lines().filter_map(define).collect()
}

#[test]
fn every_reason_msr_and_hypercall_has_a_row() {
    let mut missing = Vec::new();
    for [asm, linux] in folders() {
        let read =
            |file: PathBuf| fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let (svm, vmx) = (read(asm.join("svm.h")), read(asm.join("vmx.h")));
        let reasons =
            [(Isa::Svm, svm, ["SVM_EXIT_", "SVM_VMGEXIT_"]), (Isa::Vmx, vmx, ["EXIT_REASON_"; 2])];
        for (isa, text, begins) in &reasons {
            let all: Vec<_> = begins.iter().flat_map(|begin| defined(text, begin)).collect();
            assert!(all.len() > 40, "{} reasons in {asm:?}", all.len());
            for (name, code) in all {
                // The ends of ranges, and what a vmgexit is given with it.
                let none = ["_LAST_EXCP", "_EXIT_SW", "_GET_AP_JUMP_TABLE", "_AP_CREATE"];
                let is_none = none.iter().any(|other| name.ends_with(other));
                if !is_none && reason::name(*isa, code as u32, false).starts_with("0x") {
                    missing.push(format!("{asm:?}: {name} {code:#x}"));
                }
            }
        }
        for (name, msr) in defined(&read(asm.join("kvm_para.h")), "MSR_KVM_") {
            if reason::msr_name(msr as u32).starts_with("MSR ") {
                missing.push(format!("{asm:?}: {name} {msr:#x}"));
            }
        }
        // Of another architecture, or gone from KVM for long.
        let others = ["PPC", "MIPS", "MMU_OP", "FEATURES"];
        for (name, number) in defined(&read(linux.join("kvm_para.h")), "KVM_HC_") {
            let facts = Facts::HYPERCALL;
            let noted = Noted { isa: Isa::Svm, code: 0x81, detail: number, facts };
            let is_unknown =
                matches!(noted.about(), Some(About::Text(text)) if text.contains("0x"));
            if is_unknown && !others.iter().any(|other| name.contains(other)) {
                missing.push(format!("{linux:?}: {name} {number}"));
            }
        }
    }
    assert!(missing.is_empty(), "without a row:\n{}", missing.join("\n"));
}
