// SPDX-License-Identifier: GPL-2.0-only
//! What mode `paratick` needs, link by link, of this machine as a guest and as a host: which is the
//! first that is missing.

use std::{arch::x86_64::__cpuid, fs, path::Path};

/// What is there; or what is missing, and how to get it.
pub type Link = Result<String, (String, String)>;

const TICKS: &str = "/sys/devices/system/cpu/virtual_tick";
const KVM: &str = "/sys/module/kvm/parameters";
/// Of EAX in KVM's leaf 0x40000001.
const FEATURES: [(&str, u32); 2] = [("kvm-pv-tick", 20), ("kvm-halt-until", 21)];
const SERIES: [&str; 2] = ["virtual-ticks", "halt-until"];
/// With one of these the guest does not ask for it.
const REFUSALS: [&[&str]; 2] = [&["no-paratick", "nohz=off"], &["no-halt-until"]];

/// In the order of [`FEATURES`]: CPUs that have it; none where the kernel has no such file.
#[derive(Default)]
struct Guest {
    features: u32,
    active: [Option<String>; 2],
    /// Its kernel's command line.
    parameters: String,
}

/// None: this machine is no guest of KVM.
pub fn as_guest() -> Option<Link> {
    let active = ["active", "halt_until_active"];
    Some(guest(&Guest {
        features: kvm_features()?,
        active: active.map(|name| read(&Path::new(TICKS).join(name))),
        parameters: fs::read_to_string("/proc/cmdline").unwrap_or_default(),
    }))
}

fn guest(guest: &Guest) -> Link {
    for (at, (name, bit)) in FEATURES.into_iter().enumerate() {
        let active = guest.active[at].as_deref();
        if guest.features >> bit & 1 == 0 {
            return Err((
                format!("this VM does not show {name} (CPUID 0x40000001, EAX, bit {bit})"),
                "see what this command says on the host; then QEMU with the patches of vmm/, or \
                 -cpu host,migratable=off"
                    .into(),
            ));
        }
        let refuses = |word: &&str| REFUSALS[at].contains(word);
        if let Some(word) = guest.parameters.split_whitespace().find(refuses) {
            let get = "boot without this kernel parameter";
            return Err((format!("{word} keeps this kernel from it"), get.into()));
        }
        let Some(cpus) = active else {
            let series = SERIES[at];
            let get = boot_one_with(series);
            return Err((format!("this kernel does not have the series {series}"), get));
        };
        if cpus.is_empty() {
            let file = ["control", "halt_until"][at];
            let why = format!("the kernel can, and no CPU uses {name}");
            return Err((why, format!("echo on >{TICKS}/{file}, and see the kernel's log")));
        }
    }
    let cpus = guest.active[0].as_deref().unwrap_or_default();
    Ok(format!("CPUs {cpus} have virtual ticks, and halt with their deadline"))
}

fn boot_one_with(series: &str) -> String {
    format!("boot a kernel with the series {series}: `paratick kernel deb` makes packages of one")
}

/// None: this machine has no KVM.
pub fn as_host() -> Option<Link> {
    let parameters = ["pv_tick", "halt_until"].map(|name| read(&Path::new(KVM).join(name)));
    Path::new(KVM).is_dir().then(|| host(&parameters))
}

/// With the values of these parameters, in the order of [`FEATURES`].
fn host(parameters: &[Option<String>; 2]) -> Link {
    for (at, name) in ["pv_tick", "halt_until"].into_iter().enumerate() {
        let series = SERIES[at];
        match parameters[at].as_deref() {
            Some("Y") => {}
            Some(_) => {
                return Err((format!("kvm.{name} is off"), format!("boot with kvm.{name}=1")))
            }
            None => {
                let get = boot_one_with(series);
                return Err((format!("this kernel's KVM does not have the series {series}"), get));
            }
        }
    }
    Ok("KVM offers virtual ticks, and halts with a deadline".into())
}

/// Whether a QEMU shows them; `help` is what it says for `-cpu help`.
pub fn of_qemu(qemu: &Path, help: &str) -> Link {
    let qemu = qemu.display();
    match FEATURES.iter().find(|(name, _)| !help.split_whitespace().any(|word| word == *name)) {
        None => Ok(format!("{qemu} knows the names")),
        Some((name, _)) => Err((
            format!("{qemu} does not know {name}: a plain -cpu host hides it"),
            "-cpu host,migratable=off, or QEMU with the patches of vmm/".into(),
        )),
    }
}

/// EAX of KVM's second leaf.  The first is elsewhere where there are Hyper-V's, too.
fn kvm_features() -> Option<u32> {
    // SAFETY: every x86-64 processor has CPUID.  Newer compilers know that.
    #[allow(unused_unsafe)]
    let leaf = |number| unsafe { __cpuid(number) };
    let is_kvm = |first: &u32| {
        let leaf = leaf(*first);
        let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        name == b"KVMKVMKVM\0\0\0"
    };
    // Only a hypervisor has such leaves.
    let mut firsts = (0x4000_0000..0x4001_0000).step_by(0x100);
    (leaf(1).ecx >> 31 == 1).then(|| firsts.find(is_kvm)).flatten().map(|first| leaf(first + 1).eax)
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: u32 = 3 << 20;

    fn all(cpus: [&str; 2]) -> Guest {
        let active = cpus.map(|cpus| Some(cpus.to_string()));
        Guest { features: BOTH, active, parameters: "quiet ro".into() }
    }

    fn why(link: Link) -> String {
        let (why, get) = link.unwrap_err();
        assert!(!get.is_empty());
        why
    }

    #[test]
    fn a_guest_is_told_the_first_link_that_is_missing() {
        assert!(guest(&all(["0-1", "0-1"])).unwrap().starts_with("CPUs 0-1 have"));
        for (features, name) in [(0, "kvm-pv-tick"), (1 << 20, "kvm-halt-until")] {
            let said = why(guest(&Guest { features, ..all(["0-1", "0-1"]) }));
            assert!(said.contains(name), "{said}");
        }
        let none = Guest { features: BOTH, ..Guest::default() };
        assert!(why(guest(&none)).ends_with("series virtual-ticks"));
        for word in ["no-paratick", "nohz=off"] {
            let parameters = format!("quiet {word}");
            assert!(why(guest(&Guest { features: BOTH, parameters, ..Guest::default() }))
                .starts_with(word));
        }
        let mut ticks_alone = Guest { active: [Some("0".into()), None], ..all(["", ""]) };
        assert!(why(guest(&ticks_alone)).ends_with("series halt-until"));
        ticks_alone.parameters = "no-halt-until".into();
        assert!(why(guest(&ticks_alone)).starts_with("no-halt-until"));
        assert!(why(guest(&all(["", "0"]))).ends_with("no CPU uses kvm-pv-tick"));
        assert!(why(guest(&all(["0", ""]))).ends_with("no CPU uses kvm-halt-until"));
    }

    #[test]
    fn a_host_is_told_what_its_kvm_lacks() {
        let of = |values: [&str; 2]| {
            host(&values.map(|value| (!value.is_empty()).then(|| value.to_string())))
        };
        assert!(of(["Y", "Y"]).is_ok());
        assert!(why(of(["", ""])).ends_with("series virtual-ticks"));
        assert!(why(of(["Y", ""])).ends_with("series halt-until"));
        assert_eq!(why(of(["N", "Y"])), "kvm.pv_tick is off");
        assert_eq!(why(of(["Y", "N"])), "kvm.halt_until is off");
    }

    #[test]
    fn a_qemu_without_a_name_hides_the_feature() {
        let qemu = Path::new("/usr/bin/qemu");
        assert!(of_qemu(qemu, "  kvm-pv-eoi kvm-pv-tick\n  kvm-halt-until").is_ok());
        let said = why(of_qemu(qemu, "kvm-pv-tick kvm-pv-unhalt"));
        assert!(said.contains("kvm-halt-until"), "{said}");
    }
}
