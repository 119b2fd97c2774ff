// SPDX-License-Identifier: GPL-2.0-only
//! Where this kernel's functions are.

use anyhow::{bail, Context, Result};

/// The address of a kernel function; `None` if this kernel has no such function.
pub fn function_address(name: &str) -> Result<Option<u64>> {
    let symbols = fs_err::read_to_string("/proc/kallsyms").context(
        "addresses in this kernel are not known\n\
         hint: the kernel needs CONFIG_KALLSYMS, and /proc mounted",
    )?;
    match find_symbol(&symbols, name) {
        Some(0) => bail!(
            "the address of {name} is hidden in /proc/kallsyms\n\
            hint: be root, and set /proc/sys/kernel/kptr_restrict to 0 or 1"
        ),
        found => Ok(found),
    }
}

fn find_symbol(symbols: &str, name: &str) -> Option<u64> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?;
        let kind = words.next()?;
        let function = matches!(kind, "t" | "T") && words.next()? == name;
        function.then(|| u64::from_str_radix(address, 16).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_also_in_modules() {
        let symbols = "ffffffff81000000 T apic_timer_fn_other\n\
            ffffffffc0001000 t apic_timer_fn\t[kvm]\n0000000000000000 d apic_timer\n";
        assert_eq!(find_symbol(symbols, "apic_timer_fn"), Some(0xffff_ffff_c000_1000));
        assert_eq!(find_symbol(symbols, "apic_timer"), None);
    }
}
