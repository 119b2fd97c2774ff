// SPDX-License-Identifier: GPL-2.0-only
//! From a C header to Rust, so that what both sides share is written once.
//!
//! Only what our headers need is understood; all else panics, and with it the build.

/// Numbers become `u32` constants, structs `repr(C)` structs of plain integers, and of each other.
pub fn to_rust(header: &str) -> String {
    let (mut rust, mut rest) = (String::new(), String::new());
    for line in without_comments(header).lines() {
        match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            ["#define", name, ref value @ ..] if !value.is_empty() => {
                rust += &constant(name, number(&value.join(" ")));
            }
            // Guards and includes.
            [word, ..] if word.starts_with('#') => {}
            ref words => rest += &(words.join(" ") + " "),
        }
    }
    let (items, end) = rest.rsplit_once("};").unwrap_or(("", &rest));
    assert_eq!(end.trim(), "", "not understood");
    for item in items.split("};") {
        let (head, body) = item.split_once('{').expect("an item has a body");
        match head.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            ["struct", name] => rust += &structure(name, body),
            ["enum"] => {
                let names = body.split(',').map(str::trim).filter(|name| !name.is_empty());
                rust.extend((0..).zip(names).map(|(value, name)| constant(name, value)));
            }
            _ => panic!("not understood: {head}"),
        }
    }
    rust
}

fn without_comments(header: &str) -> String {
    let mut pieces = header.split("/*");
    let first = pieces.next().unwrap_or_default().to_string();
    pieces.fold(first, |text, piece| text + piece.split_once("*/").expect("a comment ends").1)
}

fn constant(name: &str, value: u32) -> String {
    format!("pub const {}: u32 = {value:#x};\n", identifier(name))
}

fn identifier(name: &str) -> &str {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    assert!(plain, "not a name: {name}");
    name
}

/// `4096`, `0x50415241` or `(1u << 7)`.
fn number(text: &str) -> u32 {
    let shift = text.strip_prefix("(1u << ").and_then(|text| text.strip_suffix(')'));
    let parsed = match (shift, text.strip_prefix("0x")) {
        (Some(bit), _) => bit.parse::<u32>().ok().and_then(|bit| 1u32.checked_shl(bit)),
        (None, Some(digits)) => u32::from_str_radix(digits, 16).ok(),
        (None, None) => text.parse().ok(),
    };
    parsed.unwrap_or_else(|| panic!("not a number: {text}"))
}

fn structure(name: &str, body: &str) -> String {
    let type_of = |name: &str| name[..1].to_uppercase() + &name[1..];
    let name = type_of(name);
    let (mut fields, mut sizes) = (String::new(), Vec::new());
    for field in body.split(';').map(str::trim).filter(|field| !field.is_empty()) {
        let (kind, field) = match field.split(' ').collect::<Vec<_>>()[..] {
            ["__u32", field] => ("u32".into(), field),
            ["__u64", field] => ("u64".into(), field),
            // Of another header, whose Rust is in scope.
            ["struct", other, field] => (type_of(identifier(other)), field),
            _ => panic!("not an integer of struct {name}: {field}"),
        };
        let (field, kind) = match field.strip_suffix(']').and_then(|field| field.split_once('[')) {
            Some((field, length)) => (field, format!("[{kind}; {}]", number(length))),
            None => (field, kind),
        };
        sizes.push(format!("size_of::<{kind}>()"));
        fields += &format!("    pub {}: {kind},\n", identifier(field));
    }
    let size = sizes.join(" + ");
    format!(
        "#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct {name} {{
{fields}}}
const _: () = assert!(size_of::<{name}>() == {size}, \"struct {name} has padding\");
// SAFETY: plain integers without padding.
unsafe impl aya::Pod for {name} {{}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_understood_becomes_rust() {
        let header = "#ifndef X_H\n#define X_H\n#include \"bpf.h\"\n/* Of\n two lines. */
#define LEAF\t0x50\n#define MOST 40\t/* so many */\n#define FACT_A (1u << 31)
struct key {\n\t__u64 total;\t/* all */\n\t__u32 a;\n\t__u32 b;\n};
enum {\n\tONE,\n\tTWO,\n};\n#endif\n";
        let rust = to_rust(header);
        let nested = to_rust("struct a {\n\tstruct key k;\n\t__u64 all[32];\n};\n");
        assert!(nested.contains("pub k: Key,\n    pub all: [u64; 32],"), "{nested}");
        for line in [
            "pub const LEAF: u32 = 0x50;",
            "pub const MOST: u32 = 0x28;",
            "pub const FACT_A: u32 = 0x80000000;",
            "pub const TWO: u32 = 0x1;",
            "pub struct Key {\n    pub total: u64,\n    pub a: u32,\n    pub b: u32,\n}",
            "size_of::<Key>() == size_of::<u64>() + size_of::<u32>() + size_of::<u32>()",
        ] {
            assert!(rust.contains(line), "{line}: {rust}");
        }
    }

    #[test]
    fn what_is_not_understood_stops_the_build() {
        for header in [
            "#define A 1.5\n",
            "#define A (1 << 2)\n",
            "struct key { int a; };",
            "struct key { __u32 a[N]; };",
            "enum { A = 3 };",
            "union { __u32 a; };",
            "int a;",
            "/* no end",
        ] {
            let result = std::panic::catch_unwind(|| to_rust(header));
            assert!(result.is_err(), "{header}: {result:?}");
        }
    }
}
