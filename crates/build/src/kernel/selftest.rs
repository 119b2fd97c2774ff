// SPDX-License-Identifier: GPL-2.0-only
//! KVM's selftests, built from the patched source: programs that run on the lab's host.

use crate::{
    cache,
    kernel::{base::Base, make, run, series::Stack, source::Followed},
    progress::{Events, Step},
};
use anyhow::{bail, Result};
use std::path::PathBuf;

/// A KVM selftest of the source with the mailed series, e.g. `x86_64/kvm_pv_test`, as a program;
/// built once per source, series and compiler.
pub fn ensure(base: &str, test: &str, events: Events) -> Result<PathBuf> {
    let base = Base::load(base)?;
    let source = base.source(events)?;
    let stack = Stack::read(base.stack())?.mailed();
    let toolchain = make::toolchain()?;
    let parts = [&source.sha256, &stack.part_key(true), &toolchain];
    let key = cache::key(parts.map(|part| part.as_bytes()));
    let kept = cache::dir()?.join("selftest").join(key).join(test);
    if kept.is_file() {
        return Ok(kept);
    }
    let tree = Followed::open(&source, "selftest", events)?;
    tree.follow(stack.patches())?;
    let file = tree.src.join(make::KVM_SELFTESTS).join(format!("{test}.c"));
    if !file.is_file() {
        bail!(
            "there is no KVM selftest {test} in {} with the series: no {}\n\
             hint: name it relative to {}, such as x86_64/kvm_pv_test",
            base.package,
            file.display(),
            make::KVM_SELFTESTS
        );
    }
    events(Step::BuildingSelftest { test }.into());
    fs_err::write(&tree.log, "")?;
    let drop_line = |_: &str| ();
    run::logged(make::command(&tree.src, &tree.out).arg("headers"), &tree.log, drop_line)?;
    let built = tree.out.with_file_name("selftests");
    let make = make::selftests(&tree.src, &tree.out, &built, [test].into_iter());
    run::logged(&make, &tree.log, drop_line)?;
    fs_err::create_dir_all(kept.parent().expect("in the cache"))?;
    let part = kept.with_extension("part");
    fs_err::copy(built.join(test), &part)?;
    fs_err::rename(&part, &kept)?;
    Ok(kept)
}
