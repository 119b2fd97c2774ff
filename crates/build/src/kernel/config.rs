// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's configuration: tinyconfig plus fragments, and the proof that every line of them
//! holds.

use crate::kernel::{make, run};
use anyhow::{bail, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

/// Writes `out/.config` from tinyconfig and `fragments` (later ones win); fails when a wanted line
/// is not in the result.  `variables` are further ones for `make`, such as `ARCH=i386`.  Symbols
/// that only later patches bring are named in `unknown` (without `CONFIG_`): they cannot take.
pub fn configure(
    src: &Path,
    out: &Path,
    variables: &[String],
    fragments: &[PathBuf],
    unknown: &BTreeSet<String>,
) -> Result<()> {
    fs_err::create_dir_all(out)?;
    run::output(make::command(src, out).args(variables).arg("tinyconfig"))?;
    merge_in(src, out, variables, fragments, unknown)
}

/// The same on top of a whole configuration, such as a distribution's, instead of tinyconfig.
pub fn configure_from(
    whole: &Path,
    src: &Path,
    out: &Path,
    fragments: &[PathBuf],
    unknown: &BTreeSet<String>,
) -> Result<()> {
    fs_err::create_dir_all(out)?;
    fs_err::copy(whole, out.join(".config"))?;
    merge_in(src, out, &[], fragments, unknown)
}

fn merge_in(
    src: &Path,
    out: &Path,
    variables: &[String],
    fragments: &[PathBuf],
    unknown: &BTreeSet<String>,
) -> Result<()> {
    let mut merge = Command::new("sh");
    make::clean_environment(&mut merge);
    merge
        .arg(src.join("scripts/kconfig/merge_config.sh"))
        .args(["-m", "-O"])
        .arg(out)
        .arg(out.join(".config"))
        .args(fragments)
        .current_dir(out);
    run::output(&mut merge)?;
    run::output(make::command(src, out).args(variables).arg("olddefconfig"))?;
    let mut wanted = BTreeMap::new();
    for fragment in fragments {
        wanted.extend(settings(&fs_err::read_to_string(fragment)?));
    }
    wanted.retain(|name, _| !unknown.contains(name.trim_start_matches("CONFIG_")));
    let got = fs_err::read_to_string(out.join(".config"))?;
    let missing = unmet(&wanted, &settings(&got));
    if !missing.is_empty() {
        bail!(
            "the kernel's configuration lacks what was asked for:\n  {}\n\
             hint: a symbol that these depend on is missing from the fragments, or Linux renamed \
             them",
            missing.join("\n  ")
        );
    }
    Ok(())
}

/// `CONFIG_X` → its value, `n` where it is not set.
pub fn settings(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let off = line
                .strip_prefix("# ")
                .and_then(|rest| rest.strip_suffix(" is not set"))
                .filter(|name| name.starts_with("CONFIG_"));
            if let Some(name) = off {
                return Some((name.to_owned(), "n".to_owned()));
            }
            let (name, value) = line.split_once('=')?;
            name.starts_with("CONFIG_").then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// What fragments say without their comments, in a fixed order: what a build depends on.  Of two
/// lines about one symbol the later wins, as in [`configure`].
pub fn essence(text: &str) -> String {
    settings(text).iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

fn unmet(wanted: &BTreeMap<String, String>, got: &BTreeMap<String, String>) -> Vec<String> {
    wanted
        .iter()
        .filter_map(|(name, value)| {
            let is = got.get(name).map_or("n", String::as_str);
            (is != value).then(|| format!("{name}={value} (is {is})"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_did_not_take_is_named_and_absence_is_n() {
        let wanted =
            settings("# text\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=250\n# CONFIG_D is not set\n");
        let got = settings("CONFIG_A=y\n# CONFIG_C is not set\nCONFIG_D=y\n");
        assert_eq!(unmet(&wanted, &got), ["CONFIG_C=250 (is n)", "CONFIG_D=n (is y)"]);
    }

    #[test]
    fn of_two_fragments_the_later_wins() {
        let common = "CONFIG_A=y\nCONFIG_B=y\n";
        assert_eq!(
            essence(&[common, "# CONFIG_A is not set\n"].concat()),
            "CONFIG_A=n\nCONFIG_B=y\n"
        );
    }

    #[test]
    fn comments_do_not_change_the_essence() {
        assert_eq!(
            essence("# why\nCONFIG_B=y\nCONFIG_A=y\n"),
            essence("CONFIG_A=y\n\nCONFIG_B=y\n")
        );
    }
}
