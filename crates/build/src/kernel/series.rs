// SPDX-License-Identifier: GPL-2.0-only
//! Series of patches, stacked: `series` in a folder gives their order, `NNNN-subject.patch` is
//! what format-patch wrote.

use crate::cache;
use anyhow::{bail, Result};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

pub const LIST: &str = "series";
/// Kept by hand beside the patches.
pub const COVER_LETTER: &str = "cover-letter.txt";

/// Where one series of a base's stack is.
#[derive(Debug, Clone)]
pub struct Folder {
    pub name: String,
    pub dir: PathBuf,
    /// Not only the lab's.
    pub mailed: bool,
}

#[derive(Debug, Clone)]
pub struct Patch {
    pub series: String,
    /// File name, e.g. `0001-timers-program-the-tick-once.patch`.
    pub name: String,
    pub path: PathBuf,
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct Series {
    pub folder: Folder,
    pub patches: Vec<Patch>,
}

/// A base's series, each applied on top of the one before.
#[derive(Debug, Clone, Default)]
pub struct Stack(pub Vec<Series>);

impl Stack {
    pub fn read(folders: Vec<Folder>) -> Result<Self> {
        let series = folders.into_iter().map(Series::read);
        series.collect::<Result<_>>().map(Stack)
    }

    pub fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.0.iter().flat_map(|series| &series.patches)
    }

    /// Without what only the lab needs.
    pub fn mailed(self) -> Self {
        let series = self.0.into_iter();
        Stack(series.filter(|series| series.folder.mailed).collect())
    }

    /// Takes away, and returns, what lies on top of the series `name`.
    pub fn split_above(&mut self, name: &str) -> Result<Stack> {
        let found = self.0.iter().position(|series| series.folder.name == name);
        let Some(index) = found else {
            let names: Vec<_> = self.0.iter().map(|series| &*series.folder.name).collect();
            bail!("there is no series {name} in the stack\nhint: it has {}", names.join(", "));
        };
        Ok(Stack(self.0.split_off(index + 1)))
    }

    /// Hash of everything that the patches change, the lab's apart.
    pub fn key(&self) -> String {
        cache::key([self.part_key(true).as_bytes(), self.part_key(false).as_bytes()])
    }

    /// Hash of what the mailed patches change, or the lab's; how they are divided into series, what
    /// their messages say and who wrote them does not matter.
    pub fn part_key(&self, mailed: bool) -> String {
        let part = self.0.iter().filter(|series| series.folder.mailed == mailed);
        let patches = part.flat_map(|series| &series.patches);
        let changes: Vec<String> = patches.map(Patch::change).collect();
        cache::key(changes.iter().map(|change| change.as_bytes()))
    }
}

impl Series {
    pub fn read(folder: Folder) -> Result<Self> {
        let patch = |name: String| {
            let path = folder.dir.join(&name);
            let text = String::from_utf8_lossy(&fs_err::read(&path)?).into_owned();
            Ok(Patch { series: folder.name.clone(), name, path, text })
        };
        let patches = listed(&folder.dir)?.into_iter().map(patch);
        let patches = patches.collect::<Result<_>>()?;
        Ok(Series { folder, patches })
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{}/{}", self.series, self.name)
    }
}

/// Where `series` and the files beside it disagree; reads no patch.
pub fn disagreements(dir: &Path) -> Result<Vec<String>> {
    let listed = listed(dir)?;
    let mut found: BTreeSet<String> = names(dir)?
        .into_iter()
        .filter(|name| ![LIST, COVER_LETTER].contains(&name.as_str()))
        .collect();
    let mut wrong = vec![];
    for (index, name) in listed.iter().enumerate() {
        let number = format!("{:04}-", index + 1);
        if !name.starts_with(&number) || !name.ends_with(".patch") {
            wrong.push(format!("{name}: should be named {number}….patch"));
        }
        if !found.remove(name) {
            wrong.push(format!(
                "{name}: listed in {LIST} (or listed twice), but there is no such file"
            ));
        }
    }
    wrong.extend(found.iter().map(|name| format!("{name}: not listed in {LIST}")));
    Ok(wrong)
}

pub fn listed(dir: &Path) -> Result<Vec<String>> {
    let list = dir.join(LIST);
    if !list.exists() {
        bail!(
            "kernel/bases.toml names a series, but there is no {}\n\
             hint: correct the name; a new series begins with an empty list",
            list.display()
        );
    }
    Ok(fs_err::read_to_string(list)?
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

fn names(dir: &Path) -> Result<Vec<String>> {
    fs_err::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

impl Patch {
    /// The files that the patch changes, adds or removes.
    pub fn touched(&self) -> BTreeSet<String> {
        self.diff_lines()
            .filter_map(|line| {
                let (_, new) = line.strip_prefix("diff --git a/")?.split_once(" b/")?;
                Some(new.to_owned())
            })
            .collect()
    }

    /// All that it does to the source, and nothing of its message.
    fn change(&self) -> String {
        let diff = self.diff_lines().skip_while(|line| !line.starts_with("diff --git "));
        diff.filter(|line| !line.starts_with("index ")).flat_map(|line| [line, "\n"]).collect()
    }

    /// Configuration symbols that the patch adds to a Kconfig file.
    pub fn new_symbols(&self) -> Vec<String> {
        let mut in_kconfig = false;
        let mut symbols = vec![];
        for line in self.diff_lines() {
            if let Some(file) = line.strip_prefix("+++ b/") {
                in_kconfig =
                    file.rsplit('/').next().is_some_and(|name| name.starts_with("Kconfig"));
            } else if let Some(symbol) = line.strip_prefix("+config ").filter(|_| in_kconfig) {
                symbols.push(symbol.trim().to_owned());
            }
        }
        symbols
    }

    fn diff_lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().skip_while(|line| *line != "---")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(text: &str) -> Patch {
        Patch {
            series: "x".into(),
            name: "0001-x.patch".into(),
            path: "0001-x.patch".into(),
            text: text.into(),
        }
    }

    const TEXT: &str = "From 0\nFrom: A B <a@b>\nSubject: [PATCH] x\n\n\
        diff --git a/no b/no\n\nSigned-off-by: A B <a@b>\n---\n a | 1 +\n\n\
        diff --git a/kernel/Kconfig.hz b/kernel/Kconfig.hz\n\
        --- a/kernel/Kconfig.hz\n+++ b/kernel/Kconfig.hz\n@@ -1 +1,2 @@\n+config PV_TICK\n\
        diff --git a/x.c b/x.c\n--- /dev/null\n+++ b/x.c\n+config NOT_ONE\n";

    #[test]
    fn touched_files_come_from_the_diff_and_not_from_the_message() {
        let touched = patch(TEXT).touched();
        assert_eq!(touched.into_iter().collect::<Vec<_>>(), ["kernel/Kconfig.hz", "x.c"]);
    }

    #[test]
    fn a_change_is_the_same_by_whoever_and_whatever_its_message_says() {
        let change = patch(TEXT).change();
        assert!(change.starts_with("diff --git a/kernel/Kconfig.hz"), "{change}");
        let other = TEXT.replace("A B <a@b>", "C D <c@d>").replace("[PATCH] x", "[PATCH] better");
        let other = other.replace("--- a/kernel", "index 1..2 100644\n--- a/kernel");
        assert_eq!(patch(&other).change(), change);
        assert_ne!(patch(&TEXT.replace("+config PV_TICK", "+config PV")).change(), change);
    }

    #[test]
    fn symbols_are_found_in_kconfig_files_only() {
        assert_eq!(patch(TEXT).new_symbols(), ["PV_TICK"]);
    }

    #[test]
    fn a_stray_a_missing_and_a_misnumbered_patch_are_each_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            (LIST, "0001-a.patch\n0003-b.patch\n0003-gone.patch\n"),
            (COVER_LETTER, ""),
            ("0001-a.patch", ""),
            ("0003-b.patch", ""),
            ("0004-stray.patch", ""),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let wrong = disagreements(dir.path()).unwrap().join("\n");
        assert!(wrong.contains("0003-b.patch: should be named 0002-"), "{wrong}");
        assert!(wrong.contains("0003-gone.patch: listed"), "{wrong}");
        assert!(wrong.contains("0004-stray.patch: not listed"), "{wrong}");
        assert!(!wrong.contains("0001-a"), "{wrong}");
    }
}
