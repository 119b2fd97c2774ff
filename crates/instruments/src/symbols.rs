// SPDX-License-Identifier: GPL-2.0-only
//! Where this kernel's functions are.

use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;

fn kallsyms() -> Result<String> {
    fs_err::read_to_string("/proc/kallsyms").context(
        "addresses in this kernel are not known\n\
         hint: the kernel needs CONFIG_KALLSYMS, and /proc mounted",
    )
}

/// The address of a kernel function; `None` if this kernel has no such function.
pub fn function_address(name: &str) -> Result<Option<u64>> {
    Ok(function_addresses(&[name])?.pop().flatten())
}

/// The same of several, in one reading.
pub fn function_addresses(names: &[&str]) -> Result<Vec<Option<u64>>> {
    let found = find_symbols(&kallsyms()?, names, "tT");
    if let Some(hidden) = found.iter().position(|address| *address == Some(0)) {
        bail!(
            "the address of {} is hidden in /proc/kallsyms\n\
            hint: be root, and set /proc/sys/kernel/kptr_restrict to 0 or 1",
            names[hidden]
        );
    }
    Ok(found)
}

/// Where variables are, or a CPU's own in its part of memory; `None` where nobody tells.
pub fn variable_addresses(names: &[&str]) -> Result<Vec<Option<u64>>> {
    let found = find_symbols(&kallsyms()?, names, "dDbBrRaA");
    Ok(found.into_iter().map(|address| address.filter(|address| *address > 0)).collect())
}

/// `kinds` are as nm(1) writes them.
fn find_symbols(symbols: &str, names: &[&str], kinds: &str) -> Vec<Option<u64>> {
    let mut found = vec![None; names.len()];
    for line in symbols.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if !kinds.contains(kind) {
            continue;
        }
        if let Some(place) = names.iter().position(|one| *one == name) {
            found[place] = found[place].or(u64::from_str_radix(address, 16).ok());
        }
    }
    found
}

/// This kernel's functions by their addresses.
pub struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    pub fn read() -> Result<Symbols> {
        Ok(Symbols::parse(&kallsyms()?))
    }

    pub fn parse(symbols: &str) -> Symbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
            (address > 0).then_some((address, words.next()?.to_string()))
        };
        Symbols(symbols.lines().filter_map(function).collect())
    }

    /// The name of the function that a call returns to, without what a compiler adds to it.
    pub fn caller(&self, returns_to: u64) -> Option<&str> {
        let (_, name) = self.0.range(..returns_to).next_back()?;
        name.split('.').next()
    }

    /// The name of the function that begins there, or the address in hexadecimal.
    pub fn name(&self, address: u64) -> String {
        self.0.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_where_they_are_known() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T process_timeout\n0000000000000000 t hidden\n\
             ffffffff82000000 d jiffies\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), "process_timeout");
        assert_eq!(symbols.name(0xffff_ffff_8200_0000), "0xffffffff82000000");
        assert_eq!(symbols.name(0), "0x0");
        assert_eq!(symbols.caller(0xffff_ffff_8100_0000), None);
        assert_eq!(symbols.caller(0xffff_ffff_8100_0020), Some("process_timeout"));
    }

    #[test]
    fn functions_are_found_also_in_modules() {
        let symbols = "ffffffff81000000 T apic_timer_fn_other\n\
            ffffffffc0001000 t apic_timer_fn\t[kvm]\n0000000000000000 d apic_timer\n";
        let names = ["apic_timer", "apic_timer_fn"];
        let found = find_symbols(symbols, &names, "tT");
        assert_eq!(found, [None, Some(0xffff_ffff_c000_1000)]);
        assert_eq!(find_symbols(symbols, &names, "dD"), [Some(0), None]);
    }
}
