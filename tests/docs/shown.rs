// SPDX-License-Identifier: GPL-2.0-only
//! Every test that a page names exists: `SUITE module::begin_of_its_name…`, where the suite is a
//! folder of tests/, or a crate.

use crate::files::{self, File};

const PAGE: &str = "docs/howto/reports.md";

/// The names of tests in a source, as cargo lists them after the suite or the crate.
fn tests(file: &File) -> Option<Vec<String>> {
    let path = file.path.strip_suffix(".rs")?;
    let (place, path) = match path.strip_prefix("tests/") {
        Some(rest) => rest.split_once('/')?,
        None => {
            let (name, path) = path.strip_prefix("crates/")?.split_once('/')?;
            (name, path.strip_prefix("src/")?)
        }
    };
    let module = path.trim_end_matches("_tests");
    let parts: Vec<&str> =
        module.split('/').filter(|part| !["main", "lib", "mod", "tests"].contains(part)).collect();
    let of = |text: &str| {
        let name = text.split_once("fn ")?.1.split_once('(')?.0;
        let parts = parts.iter().copied().chain([name]);
        Some(format!("{place} {}", parts.collect::<Vec<_>>().join("::")))
    };
    Some(file.text.split("#[test]").skip(1).filter_map(of).collect())
}

#[test]
fn each_test_that_is_named_exists() {
    let all: Vec<String> = files::all().iter().filter_map(tests).flatten().collect();
    let page = files::read(PAGE);
    let quoted = page.split('`').filter(|text| text.ends_with('…'));
    let named: Vec<&str> = quoted.map(|text| text.trim_end_matches('…')).collect();
    assert!(named.len() > 30, "{named:?}");
    let those = |begin: &str| all.iter().filter(|name| name.starts_with(begin)).count();
    let wrong: Vec<_> = named.iter().filter(|begin| those(begin) != 1).collect();
    assert!(wrong.is_empty(), "{PAGE}: none, or several: {wrong:?}");
}

#[test]
fn a_name_is_that_of_its_file() {
    let named = |path: &str| {
        let text = "#[test]\n#[ignore]\nfn it_works() {}".to_string();
        tests(&File { path: path.into(), text })
    };
    let is = |path, name: &str| assert_eq!(named(path), Some(vec![name.to_string()]));
    is("tests/boot/doctor/beside.rs", "boot doctor::beside::it_works");
    is("tests/intel/main.rs", "intel it_works");
    is("crates/core/src/cause/x86_tests.rs", "core cause::x86::it_works");
    is("crates/observe/src/costs/tests.rs", "observe costs::it_works");
    assert_eq!(named("docs/serve.md"), None);
}
