// SPDX-License-Identifier: GPL-2.0-only
//! How the host is run: by hardware virtualization where it nests, else by emulation.

use kvm_ioctls::Kvm;
use strum::{Display, EnumString, VariantNames};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Accel {
    /// Hardware where it works, else emulation.
    #[default]
    Auto,
    Kvm,
    Tcg,
}

impl Accel {
    /// What this machine will do: never [`Accel::Auto`].
    pub fn resolve(self) -> Accel {
        match self {
            Accel::Auto if kvm_works().is_ok() && nests() => Accel::Kvm,
            Accel::Auto => Accel::Tcg,
            chosen => chosen,
        }
    }
}

/// Whether a virtual machine can be made here; where not, why.  `/dev/kvm` may exist without a
/// processor behind it.
pub fn kvm_works() -> Result<(), String> {
    let kvm = Kvm::new().map_err(|error| format!("/dev/kvm: {error}"))?;
    kvm.create_vm()
        .map(drop)
        .map_err(|error| format!("/dev/kvm cannot make a virtual machine: {error}"))
}

/// Whether KVM here lets a guest run KVM.
fn nests() -> bool {
    ["kvm_intel", "kvm_amd"].iter().any(|module| {
        let file = format!("/sys/module/{module}/parameters/nested");
        std::fs::read_to_string(file).is_ok_and(|value| matches!(value.trim(), "Y" | "1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_always_decides() {
        assert_ne!(Accel::Auto.resolve(), Accel::Auto);
        assert_eq!(Accel::Tcg.resolve(), Accel::Tcg);
    }

    #[test]
    fn names_read_back() {
        for accel in [Accel::Auto, Accel::Kvm, Accel::Tcg] {
            assert_eq!(accel.to_string().parse(), Ok(accel));
        }
        assert!("xen".parse::<Accel>().is_err());
    }
}
