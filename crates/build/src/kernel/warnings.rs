// SPDX-License-Identifier: GPL-2.0-only
//! What compilers warned about, and which files they have compiled.

use anyhow::Result;
use std::{
    cmp::Ordering,
    collections::BTreeSet,
    path::{Component, Path},
};

/// Two are the same when file and text are: a patch moves lines.
#[derive(Debug, Clone)]
pub struct Warning {
    /// Relative to the source, or an object relative to where it is made.
    file: String,
    text: String,
    /// As it was printed, without where the source is.
    pub line: String,
}

impl Warning {
    /// Does it stand in one of these files?  objtool tells of objects only: any may be made of
    /// them.
    pub fn concerns(&self, files: &BTreeSet<String>) -> bool {
        files.contains(&self.file) || self.file.ends_with(".o")
    }

    fn key(&self) -> (&str, &str) {
        (&self.file, &self.text)
    }
}

impl PartialEq for Warning {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Warning {}

impl PartialOrd for Warning {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Warning {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A line such as `kernel/smp.c:12:3: warning: …`; `src` is where the source is.
pub fn parse(line: &str, src: &Path) -> Option<Warning> {
    let (place, text) = line.split_once(" warning: ")?;
    let place = place.strip_suffix(':')?;
    let (path, _) = place.split_once(':').unwrap_or((place, ""));
    Some(Warning {
        file: within(path, src).unwrap_or_else(|| path.to_owned()),
        text: without_offsets(text),
        line: relative(line, src),
    })
}

/// The same line, but the file with which it begins is told relative to the source.
pub fn relative(line: &str, src: &Path) -> String {
    let (path, rest) = line.split_once(':').unwrap_or((line, ""));
    within(path, src).map_or_else(|| line.to_owned(), |file| format!("{file}:{rest}"))
}

/// `function+0x12` → `function`: offsets are others after any change of the function.
fn without_offsets(text: &str) -> String {
    let mut parts = text.split("+0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// The files of the source that objects in these folders of `out`, and below, were made of: as
/// kbuild has noted it.
pub fn sources(out: &Path, folders: &BTreeSet<String>, src: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut dirs: Vec<_> = folders.iter().map(|folder| out.join(folder)).collect();
    dirs.retain(|dir| dir.is_dir());
    while let Some(dir) = dirs.pop() {
        for entry in fs_err::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_string_lossy().ends_with(".o.cmd") {
                let text = fs_err::read_to_string(path)?;
                found.extend(text.split_whitespace().filter_map(|word| within(word, src)));
            }
        }
    }
    Ok(found)
}

/// The path relative to `src`, and without `..`: KVM's files are `arch/x86/kvm/../../../virt/…`.
fn within(path: &str, src: &Path) -> Option<String> {
    let mut parts = vec![];
    for part in Path::new(path).strip_prefix(src).ok()?.components() {
        match part {
            Component::ParentDir => {
                parts.pop()?;
            }
            part => parts.push(part.as_os_str().to_str()?),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> Option<Warning> {
        parse(line, Path::new("/c/src"))
    }

    #[test]
    fn a_warning_is_that_of_another_line_but_not_of_another_file_or_text() {
        let here = seen("/c/src/kernel/smp.c:12:3: warning: unused variable 'x' [-Wunused]");
        assert_eq!(here, seen("/c/src/kernel/smp.c:99: warning: unused variable 'x' [-Wunused]"));
        assert_ne!(here, seen("/c/src/kernel/smp.c:12:3: warning: unused variable 'y' [-Wunused]"));
        assert_ne!(here, seen("/c/src/kernel/cpu.c:12:3: warning: unused variable 'x' [-Wunused]"));
        assert_eq!(
            here.unwrap().line,
            "kernel/smp.c:12:3: warning: unused variable 'x' [-Wunused]"
        );
        assert_eq!(seen("  CC      kernel/smp.o"), None);
        assert_eq!(seen("kernel/smp.c:1: error: no"), None);
        let error = |place: &str| relative(&format!("{place}:1: error: x"), Path::new("/c/src"));
        assert_eq!(error("/c/src/a/../kernel/smp.c"), "kernel/smp.c:1: error: x");
        assert_eq!(error("clang"), "clang:1: error: x");
    }

    #[test]
    fn a_warning_of_a_file_that_is_reached_by_a_detour_is_that_of_the_file() {
        let touched = BTreeSet::from(["virt/kvm/kvm_main.c".to_owned()]);
        let path = "/c/src/arch/x86/kvm/../../../virt/kvm/kvm_main.c";
        assert!(seen(&format!("{path}:1:1: warning: x")).unwrap().concerns(&touched));
        assert!(!seen("/c/src/virt/kvm/eventfd.c:1:1: warning: x").unwrap().concerns(&touched));
    }

    #[test]
    fn what_objtool_says_of_an_object_counts_whatever_the_offset() {
        let one = seen("kernel/time/timer.o: warning: objtool: run+0x1f: call to x() leaves");
        let other = seen("kernel/time/timer.o: warning: objtool: run+0x20: call to x() leaves");
        assert_eq!(one, other);
        assert!(one.unwrap().concerns(&BTreeSet::new()));
    }

    #[test]
    fn the_files_of_objects_are_found_with_what_they_include() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("kernel/sched");
        fs_err::create_dir_all(&folder).unwrap();
        let text = "source_kernel/sched/a.o := /c/src/kernel/sched/a.c\n\ndeps := \\\n    \
            $(wildcard include/config/SMP) \\\n  /c/src/kernel/sched/b.c \\\n  /usr/x.h \\\n";
        fs_err::write(folder.join(".a.o.cmd"), text).unwrap();
        let folders = ["kernel/".to_owned(), "none/".to_owned()].into();
        let found = sources(dir.path(), &folders, Path::new("/c/src")).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["kernel/sched/a.c", "kernel/sched/b.c"]);
    }
}
