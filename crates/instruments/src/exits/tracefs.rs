// SPDX-License-Identifier: GPL-2.0-only
//! What this kernel's tracepoints look like, and where its timer functions are.

use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// A folder of tracefs, mounted where kernels mount it.
pub struct Tracefs {
    events: PathBuf,
}

/// A tracepoint's fields: name, offset, size.
#[derive(Debug, PartialEq, Eq)]
pub struct Format(Vec<(String, u32, u32)>);

impl Tracefs {
    pub fn find() -> Result<Tracefs> {
        ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"]
            .into_iter()
            .map(PathBuf::from)
            .find(|events| events.is_dir())
            .map(|events| Tracefs { events })
            .context("exits cannot be counted: no tracepoints in /sys/kernel/tracing\nhint: mount -t tracefs none /sys/kernel/tracing (as root, on a kernel with CONFIG_FTRACE)")
    }

    pub fn has(&self, event: &str) -> bool {
        self.events.join(event).is_dir()
    }

    /// Reads the format of `event`, given as `kvm/kvm_exit`.
    pub fn format(&self, event: &str) -> Result<Format> {
        let path = self.events.join(event).join("format");
        let text = fs_err::read_to_string(&path).with_context(|| {
            format!("tracepoint {event} is missing\nhint: load KVM (modprobe kvm_amd or kvm_intel), and be root")
        })?;
        Ok(Format::parse(&text))
    }
}

impl Format {
    fn parse(text: &str) -> Format {
        Format(text.lines().filter_map(parse_field).collect())
    }

    /// The offset of a field that must have `size` bytes.
    pub fn offset(&self, name: &str, size: u32) -> Result<u32> {
        match self.0.iter().find(|field| field.0 == name) {
            Some((_, offset, found)) if *found == size => Ok(*offset),
            Some((_, _, found)) => bail!("field {name} has {found} bytes, not {size}: this kernel's tracepoint is not one we know"),
            None => bail!("field {name} is missing: this kernel's tracepoint is not one we know"),
        }
    }
}

/// Parses `field:unsigned int vcpu_id; offset:60; size:4; signed:0;`, with tabs between the parts.
fn parse_field(line: &str) -> Option<(String, u32, u32)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.rsplit([' ', '*']).next()?;
    let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
    let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
    Some((name.to_string(), offset, size))
}

/// The address of a kernel function; `None` if this kernel has no such function.
pub fn function_address(name: &str) -> Result<Option<u64>> {
    let path = Path::new("/proc/kallsyms");
    let symbols = fs_err::read_to_string(path).context(
        "cannot tell timers apart\nhint: the kernel needs CONFIG_KALLSYMS, and /proc mounted",
    )?;
    match find_symbol(&symbols, name) {
        Some(0) => bail!("the address of {name} is hidden in /proc/kallsyms\nhint: be root, and set /proc/sys/kernel/kptr_restrict to 0 or 1"),
        found => Ok(found),
    }
}

fn find_symbol(symbols: &str, name: &str) -> Option<u64> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?;
        let kind = words.next()?;
        let function = matches!(kind, "t" | "T") && words.next()? == name;
        function
            .then(|| u64::from_str_radix(address, 16).ok())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: kvm_exit\nID: 321\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:unsigned int exit_reason;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:u64 info1;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"vcpu %u\", REC->vcpu_id\n";

    #[test]
    fn fields_are_found_with_their_offsets() {
        let format = Format::parse(FORMAT);
        assert_eq!(format.offset("exit_reason", 4).unwrap(), 8);
        assert_eq!(format.offset("function", 8).unwrap(), 16);
        assert_eq!(format.offset("info1", 8).unwrap(), 32);
    }

    #[test]
    fn a_missing_or_resized_field_is_an_error() {
        let format = Format::parse(FORMAT);
        assert!(format.offset("vcpu_id", 4).is_err());
        assert!(format.offset("info1", 4).is_err());
    }

    #[test]
    fn functions_are_found_also_in_modules() {
        let symbols = "ffffffff81000000 T apic_timer_fn_other\n\
            ffffffffc0001000 t apic_timer_fn\t[kvm]\n0000000000000000 d apic_timer\n";
        assert_eq!(
            find_symbol(symbols, "apic_timer_fn"),
            Some(0xffff_ffff_c000_1000)
        );
        assert_eq!(find_symbol(symbols, "apic_timer"), None);
    }
}
