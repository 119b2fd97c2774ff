// SPDX-License-Identifier: GPL-2.0-only
//! Where this kernel's functions are.

use anyhow::{bail, Context, Result};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    sync::{Mutex, MutexGuard, OnceLock},
};

/// Some 10 MB with a distribution's kernel: nobody keeps it whole.  Who may see addresses is asked
/// as it is opened, once: a service gives up its rights after that.
fn kallsyms() -> Result<impl BufRead> {
    static FILE: OnceLock<Mutex<File>> = OnceLock::new();
    const WHY: &str = "addresses in this kernel are not known\n\
                       hint: the kernel needs CONFIG_KALLSYMS, and /proc mounted";
    let file = match FILE.get() {
        Some(file) => file,
        None => {
            let file = File::open("/proc/kallsyms").context(WHY)?;
            FILE.get_or_init(|| Mutex::new(file))
        }
    };
    let mut file = file.lock().unwrap_or_else(|poison| poison.into_inner());
    file.rewind().context(WHY)?;
    Ok(BufReader::new(Locked(file)))
}

struct Locked(MutexGuard<'static, File>);

impl Read for Locked {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

/// Each symbol's address, its kind as nm(1) writes it, and its name; until `see` says no.
fn each(mut symbols: impl BufRead, mut see: impl FnMut(u64, &str, &str) -> bool) -> Result<()> {
    let mut line = String::new();
    while symbols.read_line(&mut line)? > 0 {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        {
            let go_on = u64::from_str_radix(address, 16).map_or(true, |at| see(at, kind, name));
            if !go_on {
                break;
            }
        }
        line.clear();
    }
    Ok(())
}

fn is_function(kind: &str) -> bool {
    matches!(kind, "t" | "T" | "w" | "W")
}

/// What was looked for before.  A reading takes longer than the rest of a start.
#[derive(Default)]
struct Known {
    /// Functions stay where they are as long as these do.
    modules: String,
    /// By kinds and name; `None` where this kernel has none.
    addresses: BTreeMap<(&'static str, String), Option<u64>>,
    names: BTreeMap<u64, String>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known::new());

impl Known {
    const fn new() -> Known {
        Known { modules: String::new(), addresses: BTreeMap::new(), names: BTreeMap::new() }
    }

    fn now() -> MutexGuard<'static, Known> {
        let mut known = KNOWN.lock().unwrap_or_else(|poison| poison.into_inner());
        known.forget_others(modules(&fs::read_to_string("/proc/modules").unwrap_or_default()));
        known
    }

    fn forget_others(&mut self, modules: String) {
        if self.modules != modules {
            *self = Known { modules, ..Known::new() };
        }
    }

    /// `symbols` are read only for what was not looked for before.
    fn find<R: BufRead>(
        &mut self,
        symbols: impl FnOnce() -> Result<R>,
        names: &[&str],
        kinds: &'static str,
    ) -> Result<Vec<Option<u64>>> {
        let key = |name: &&str| (kinds, name.to_string());
        let before: Option<Vec<_>> =
            names.iter().map(|name| self.addresses.get(&key(name)).copied()).collect();
        if let Some(before) = before {
            return Ok(before);
        }
        let found = find_symbols(symbols()?, names, kinds)?;
        // Hidden ones may be told another time.
        if !found.contains(&Some(0)) {
            for (name, address) in names.iter().zip(&found) {
                self.addresses.insert(key(name), *address);
                self.names.extend(address.map(|address| (address, name.to_string())));
            }
        }
        Ok(found)
    }
}

/// Which there are, and where, of the text of /proc/modules; who uses them does not matter.
fn modules(text: &str) -> String {
    let place = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        format!("{} {}\n", words[0], words.get(5).unwrap_or(&""))
    };
    text.lines().map(place).collect()
}

/// The address of a kernel function; `None` if this kernel has no such function.
pub fn function_address(name: &str) -> Result<Option<u64>> {
    Ok(function_addresses(&[name])?.pop().flatten())
}

/// The same of several, in one reading.
pub fn function_addresses(names: &[&str]) -> Result<Vec<Option<u64>>> {
    let found = Known::now().find(kallsyms, names, "tT")?;
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
    let found = Known::now().find(kallsyms, names, "dDbBrRaA")?;
    Ok(found.into_iter().map(|address| address.filter(|address| *address > 0)).collect())
}

/// `kinds` are as nm(1) writes them.
fn find_symbols(symbols: impl BufRead, names: &[&str], kinds: &str) -> Result<Vec<Option<u64>>> {
    let mut found = vec![None; names.len()];
    each(symbols, |address, kind, name| {
        if kinds.contains(kind) {
            if let Some(place) = names.iter().position(|one| *one == name) {
                found[place] = found[place].or(Some(address));
            }
        }
        true
    })?;
    Ok(found)
}

/// The name of the function that begins there, or the address in hexadecimal.  For a few addresses:
/// each that is new takes a reading.
pub fn function_name(address: u64) -> String {
    let mut known = Known::now();
    let name = known.names.entry(address).or_insert_with(|| {
        let mut name = format!("{address:#x}");
        let found = kallsyms().and_then(|symbols| {
            each(symbols, |at, kind, its| {
                let is = address > 0 && at == address && is_function(kind);
                if is {
                    name = its.to_string();
                }
                !is
            })
        });
        // Where nobody tells, an address has to do.
        drop(found);
        name
    });
    name.clone()
}

/// This kernel's functions by their addresses.
pub struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    pub fn read() -> Result<Symbols> {
        Symbols::parse(kallsyms()?)
    }

    pub fn parse(symbols: impl Read) -> Result<Symbols> {
        let mut functions = BTreeMap::new();
        each(BufReader::new(symbols), |address, kind, name| {
            if address > 0 && is_function(kind) {
                functions.insert(address, name.to_string());
            }
            true
        })?;
        Ok(Symbols(functions))
    }

    /// The name of the function that a call returns to, without what a compiler adds to it.
    pub fn caller(&self, returns_to: u64) -> Option<&str> {
        let (_, name) = self.0.range(..returns_to).next_back()?;
        name.split('.').next()
    }

    /// As [`function_name`].
    pub fn name(&self, address: u64) -> String {
        self.0.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_where_they_are_known() {
        let text: &[u8] = b"ffffffff81000000 T process_timeout\n0000000000000000 t hidden\n\
             ffffffff82000000 d jiffies\n";
        let symbols = Symbols::parse(text).unwrap();
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), "process_timeout");
        assert_eq!(symbols.name(0xffff_ffff_8200_0000), "0xffffffff82000000");
        assert_eq!(symbols.name(0), "0x0");
        assert_eq!(symbols.caller(0xffff_ffff_8100_0000), None);
        assert_eq!(symbols.caller(0xffff_ffff_8100_0020), Some("process_timeout"));
    }

    #[test]
    fn a_symbol_is_looked_for_once_until_modules_come_or_go() {
        let mut known = Known::new();
        let before = "kvm_amd 180224 0 - Live 0xffffffffc0a00000\n";
        known.forget_others(modules(before));
        let text: &[u8] = b"ffffffffc0001000 t apic_timer_fn\t[kvm]\n0000000000000000 t hidden\n";
        let names = ["apic_timer_fn", "none"];
        let found = vec![Some(0xffff_ffff_c000_1000), None];
        assert_eq!(known.find(|| Ok(text), &names, "tT").unwrap(), found);
        let unread = || -> Result<&[u8]> { bail!("read again") };
        assert_eq!(known.find(unread, &names, "tT").unwrap(), found);
        assert_eq!(known.names[&0xffff_ffff_c000_1000], "apic_timer_fn");
        assert!(known.find(unread, &names, "dD").is_err());
        // A guest more uses it.
        known.forget_others(modules(&before.replace(" 0 -", " 9 kvm,")));
        assert_eq!(known.find(unread, &names, "tT").unwrap(), found);
        known.forget_others(modules(&before.replace("c0a", "c0b")));
        assert!(known.find(unread, &names, "tT").is_err());
        // Addresses that nobody may see are asked for again.
        assert_eq!(known.find(|| Ok(text), &["hidden"], "tT").unwrap(), [Some(0)]);
        assert!(known.find(unread, &["hidden"], "tT").is_err());
    }

    #[test]
    fn functions_are_found_also_in_modules() {
        let symbols: &[u8] = b"ffffffff81000000 T apic_timer_fn_other\n\
            ffffffffc0001000 t apic_timer_fn\t[kvm]\n0000000000000000 d apic_timer\n";
        let names = ["apic_timer", "apic_timer_fn"];
        let found = find_symbols(symbols, &names, "tT").unwrap();
        assert_eq!(found, [None, Some(0xffff_ffff_c000_1000)]);
        assert_eq!(find_symbols(symbols, &names, "dD").unwrap(), [Some(0), None]);
    }
}
