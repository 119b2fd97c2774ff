// SPDX-License-Identifier: GPL-2.0-only
//! Where this kernel has what no tracepoint tells: from its BTF, where it has one.
//!
//! The format is of Documentation/bpf/btf.rst; BTF of a module goes on where the kernel's ends.

use std::{fs, path::Path};

const KERNEL: &str = "/sys/kernel/btf";
const MAGIC: u32 = 0xeb9f;
/// The version, 1, is in front of flags that there are none of.
const VERSION: u32 = 1;

const POINTER: u32 = 2;
const STRUCT: u32 = 4;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const CONST: u32 = 10;
const PROTO: u32 = 13;

/// So many bytes follow the twelve that all types have, by the kind of the type: once, and for each
/// of its members.
const SIZES: [(usize, usize); 20] = {
    let mut sizes = [(0, 0); 20];
    sizes[1] = (4, 0);
    sizes[3] = (12, 0);
    sizes[4] = (0, 12);
    sizes[5] = (0, 12);
    sizes[6] = (0, 8);
    sizes[13] = (0, 8);
    sizes[14] = (4, 0);
    sizes[15] = (0, 12);
    sizes[17] = (4, 0);
    sizes[19] = (0, 12);
    sizes
};

#[derive(Default)]
pub struct Btf {
    strings: Vec<u8>,
    /// By their number; the first is void.
    types: Vec<Type>,
}

#[derive(Clone, Default)]
struct Type {
    name: u32,
    kind: u32,
    /// The size of a struct, the type that a pointer leads to, …
    of: u32,
    /// Of a struct: name, type, offset in bits; of a function: name, type; of an enum: name, value.
    members: Vec<[u32; 3]>,
}

impl Btf {
    /// The kernel's and a module's, which may be built in; none where the kernel has none.
    pub fn of_module(module: &str) -> Option<Btf> {
        let read = |name: &str| fs::read(Path::new(KERNEL).join(name)).ok();
        let mut btf = Btf { types: vec![Type::default()], ..Btf::default() };
        btf.add(&read("vmlinux")?)?;
        if let Some(bytes) = read(module) {
            btf.add(&bytes)?;
        }
        Some(btf)
    }

    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let [head, length, types_at, types_size, strings_at, strings_size] = numbers(bytes, 0)?;
        if head & 0xff_ffff != MAGIC | VERSION << 16 {
            return None;
        }
        let part = |at: u32, size: u32| {
            let begin = (length as usize).checked_add(at as usize)?;
            bytes.get(begin..begin.checked_add(size as usize)?)
        };
        let mut types = part(types_at, types_size)?;
        while !types.is_empty() {
            let (one, rest) = Type::parse(types)?;
            self.types.push(one);
            types = rest;
        }
        self.strings.extend(part(strings_at, strings_size)?);
        Some(())
    }

    /// The offset in bytes of a member of a struct; none where there is none.
    pub fn offset(&self, structure: &str, member: &str) -> Option<u32> {
        let those = self.types.iter().filter(|one| one.kind == STRUCT);
        let members = those.filter(|one| self.is_named(one.name, structure));
        let mut members = members.flat_map(|one| &one.members);
        let [_, _, bits] = members.find(|[name, ..]| self.is_named(*name, member))?;
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// The names of an enum, with their values; none where there is no such enum.
    pub fn values(&self, name: &str) -> Vec<(String, u32)> {
        let mut those = self.types.iter().filter(|one| one.kind == ENUM);
        let found = those.find(|one| self.is_named(one.name, name));
        let members = found.map(|one| one.members.as_slice()).unwrap_or_default();
        let value = |[name, value, _]: &[u32; 3]| Some((self.string(*name)?, *value));
        members.iter().filter_map(value).collect()
    }

    /// Whether the first argument of an event's raw tracepoint is a pointer to such a struct.
    pub fn begins_with(&self, event: &str, structure: &str) -> bool {
        let event = format!("btf_trace_{event}");
        let is_it = |one: &&Type| one.kind == TYPEDEF && self.is_named(one.name, &event);
        let first = self.types.iter().find(is_it).and_then(|one| {
            let proto = self.pointed(one.of)?;
            // In front of it is what belongs to the program.
            let [_, argument, _] = proto.members.get(1).filter(|_| proto.kind == PROTO)?;
            self.pointed_by(*argument)
        });
        first.is_some_and(|one| one.kind == STRUCT && self.is_named(one.name, structure))
    }

    fn pointed(&self, pointer: u32) -> Option<&Type> {
        let pointer = self.types.get(pointer as usize)?;
        self.types.get(pointer.of as usize).filter(|_| pointer.kind == POINTER)
    }

    /// The same of what may be constant.
    fn pointed_by(&self, pointer: u32) -> Option<&Type> {
        let to = self.pointed(pointer)?;
        match to.kind {
            CONST => self.types.get(to.of as usize),
            _ => Some(to),
        }
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let found = self.strings.get(at as usize..);
        let rest = found.and_then(|found| found.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, at: u32) -> Option<String> {
        let bytes = self.strings.get(at as usize..)?.split(|byte| *byte == 0).next()?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl Type {
    /// The first of these, and what follows it.
    fn parse(bytes: &[u8]) -> Option<(Type, &[u8])> {
        let [name, info, of] = numbers(bytes, 0)?;
        let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
        let (once, each) = *SIZES.get(kind as usize)?;
        // Bit fields have their size beside their offset.
        let mask = if info >> 31 == 1 { 0xff_ffff } else { u32::MAX };
        let members = match kind {
            STRUCT => (0..count)
                .map(|nth| {
                    let [name, of, bits] = numbers(bytes, 12 + nth * each)?;
                    Some([name, of, bits & mask])
                })
                .collect::<Option<_>>()?,
            PROTO | ENUM => (0..count)
                .map(|nth| {
                    let [name, of] = numbers(bytes, 12 + nth * each)?;
                    Some([name, of, 0])
                })
                .collect::<Option<_>>()?,
            _ => Vec::new(),
        };
        let rest = bytes.get(12 + once + count * each..)?;
        Some((Type { name, kind, of, members }, rest))
    }
}

/// So many numbers from an offset on.
fn numbers<const N: usize>(bytes: &[u8], at: usize) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    let words = bytes.get(at..at + 4 * N)?.chunks_exact(4);
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = u32::from_ne_bytes(word.try_into().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: u32 = 1;

    /// BTF of these types and strings.
    fn btf(types: &[&[u32]], strings: &str) -> Vec<u8> {
        let types: Vec<u32> = types.concat();
        let size = 4 * types.len() as u32;
        let head = [MAGIC | VERSION << 16, 24, 0, size, size, strings.len() as u32];
        let numbers = head.iter().chain(&types).flat_map(|number| number.to_ne_bytes());
        numbers.chain(strings.bytes()).collect()
    }

    fn info(kind: u32, count: u32) -> u32 {
        kind << 24 | count
    }

    /// The kernel's with a struct of two members, and a module's whose event begins with it.
    fn both(argument: u32) -> Option<Btf> {
        let strings = "\0int\0kvm_vcpu\0kvm\0id\0flag\0";
        let kernel = btf(
            &[
                &[1, info(INT, 0), 4, 32],
                &[14, info(ENUM, 2), 4, 18, 0, 21, 3],
                &[5, info(STRUCT, 3) | 1 << 31, 16, 14, 1, 0, 18, 1, 64, 21, 1, 3 << 24 | 97],
                &[0, info(POINTER, 0), 3],
            ],
            strings,
        );
        let name = strings.len() as u32 + 1;
        let module = btf(
            &[
                &[0, info(PROTO, 2), 0, 0, 7, 0, argument],
                &[name, info(TYPEDEF, 0), 7],
                &[0, info(POINTER, 0), 5],
            ],
            "\0btf_trace_kvm_entry\0",
        );
        let mut btf = Btf { types: vec![Type::default()], ..Btf::default() };
        btf.add(&kernel)?;
        btf.add(&module)?;
        Some(btf)
    }

    #[test]
    fn fields_are_where_btf_says() {
        let btf = both(4).unwrap();
        assert_eq!(btf.offset("kvm_vcpu", "id"), Some(8));
        assert_eq!(btf.offset("kvm_vcpu", "kvm"), Some(0));
        // No such member, a bit within a byte, no such struct.
        for (structure, member) in [("kvm_vcpu", "i"), ("kvm_vcpu", "flag"), ("kvm", "id")] {
            assert_eq!(btf.offset(structure, member), None, "{member}");
        }
    }

    #[test]
    fn the_values_of_an_enum_have_names() {
        let btf = both(4).unwrap();
        assert_eq!(btf.values("kvm"), [("id".into(), 0), ("flag".into(), 3)]);
        assert!(btf.values("kvm_vcpu").is_empty());
    }

    #[test]
    fn an_events_first_argument_is_told_across_kernel_and_module() {
        assert!(both(4).unwrap().begins_with("kvm_entry", "kvm_vcpu"));
        assert!(!both(4).unwrap().begins_with("kvm_entry", "kvm"));
        assert!(!both(4).unwrap().begins_with("kvm_exit", "kvm_vcpu"));
        // A number, as before 5.10.
        assert!(!both(1).unwrap().begins_with("kvm_entry", "kvm_vcpu"));
    }

    #[test]
    fn what_is_cut_off_or_no_btf_is_refused() {
        let whole = btf(&[&[1, info(STRUCT, 1), 4, 1, 1, 0]], "\0a\0");
        let read = |bytes: &[u8]| Btf::default().add(bytes).is_some();
        assert!(read(&whole));
        assert!((0..whole.len()).all(|end| !read(&whole[..end])));
        assert!(!read(&btf(&[&[1, info(31, 0), 4]], "\0a\0")));
        assert!(!read(&[&[0], &whole[1..]].concat()));
    }
}
