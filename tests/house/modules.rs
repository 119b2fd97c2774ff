// SPDX-License-Identifier: GPL-2.0-only
//! Which module of a crate uses which, and where that goes in a circle.

use crate::source::{Path, Source};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path as File,
};

/// The modules of one crate, by their paths below its root.
pub struct Modules(BTreeMap<Path, Module>);

struct Module {
    file: String,
    source: Source,
}

impl Modules {
    /// Reads a crate from the folder with its `lib.rs` or `main.rs`.
    pub fn read(src: &File) -> Modules {
        let mut modules = Modules(BTreeMap::new());
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name));
        let root = root.iter().find(|file| file.is_file()).expect("a root");
        modules.add(src, root, Path::new());
        modules
    }

    fn add(&mut self, src: &File, file: &File, path: Path) {
        let source = Source::parse(&fs::read_to_string(file).unwrap());
        for child in &source.children {
            let path: Path = path.iter().chain([child]).cloned().collect();
            let stem = src.join(path.join("/"));
            let files = [stem.with_extension("rs"), stem.join("mod.rs")];
            let file = files.iter().find(|file| file.is_file());
            self.add(src, file.expect("the file of a module"), path);
        }
        let file = file.strip_prefix(src).unwrap().display().to_string();
        self.0.insert(path, Module { file, source });
    }

    /// Each circle once, as `a.rs:LINE -> b.rs:LINE -> a.rs`: who uses the next one, and where.
    pub fn circles(&self) -> BTreeSet<String> {
        let uses: BTreeMap<&Path, BTreeMap<Path, usize>> =
            self.0.keys().map(|path| (path, self.uses_of(path))).collect();
        let circles = uses.keys().filter_map(|start| shortest(start, &uses));
        let name = |circle: Vec<&Path>| {
            // Begun at its first module, whichever it was found from.
            let first = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or(0);
            let mut text = String::new();
            for step in 0..circle.len() {
                let at = circle[(first + step) % circle.len()];
                let next = circle[(first + step + 1) % circle.len()];
                text += &format!("{}:{} -> ", self.0[at].file, uses[at][next]);
            }
            text + &self.0[circle[first]].file
        };
        circles.map(name).collect()
    }

    /// The other modules that one uses, and the line of the first use.
    fn uses_of(&self, module: &Path) -> BTreeMap<Path, usize> {
        let source = &self.0[module].source;
        let mut uses = BTreeMap::new();
        let mut add = |path: &Path, line: usize, a_module_counts: bool| {
            if let Some((found, item)) = self.find(module, path, 0) {
                if found != *module && (item || a_module_counts) {
                    uses.entry(found).and_modify(|l: &mut usize| *l = line.min(*l)).or_insert(line);
                }
            }
        };
        // A module that is only brought into scope is used where one of its items is named.
        for found in source.uses.values().filter(|found| !found.exported) {
            add(&found.path, found.line, false);
        }
        for (path, line) in &source.named {
            // What was brought into scope by its own name was looked at above, unless for others.
            let first = source.uses.get(&path[0]);
            if path.len() > 1 || first.is_some_and(|first| first.exported) {
                add(path, *line, false);
            }
        }
        for (path, line) in &source.globs {
            add(path, *line, true);
        }
        uses
    }

    /// The module that defines what `path` means in `module`, and whether it is an item of it
    /// rather than that module itself; none for other crates' things.
    fn find(&self, module: &Path, path: &[String], depth: u32) -> Option<(Path, bool)> {
        if depth > 9 {
            return None;
        }
        let source = &self.0[module].source;
        match path[0].as_str() {
            "crate" => self.descend(Path::new(), &path[1..], depth),
            "self" => self.descend(module.clone(), &path[1..], depth),
            "super" => {
                let parent = module[..module.len().checked_sub(1)?].to_vec();
                match path.get(1).is_some_and(|next| next == "super") {
                    true => self.find(&parent, &path[1..], depth),
                    false => self.descend(parent, &path[1..], depth),
                }
            }
            first if source.children.iter().any(|child| child == first) => {
                self.descend(module.clone(), path, depth)
            }
            first => {
                let used = source.uses.get(first)?;
                let path: Path = used.path.iter().chain(&path[1..]).cloned().collect();
                self.find(module, &path, depth + 1)
            }
        }
    }

    fn descend(&self, mut module: Path, path: &[String], depth: u32) -> Option<(Path, bool)> {
        for (at, name) in path.iter().enumerate() {
            let source = &self.0[&module].source;
            if source.children.contains(name) {
                module.push(name.clone());
                continue;
            }
            if source.items.contains(name) {
                return Some((module, true));
            }
            // It comes from elsewhere: by its name, or with all of a module.
            if source.uses.contains_key(name) {
                return self.find(&module, &path[at..], depth + 1);
            }
            let globs = source.globs.iter().filter_map(|(glob, _)| {
                let path: Path = glob.iter().chain(&path[at..]).cloned().collect();
                self.find(&module, &path, depth + 1)
            });
            return globs.into_iter().find(|(_, item)| *item);
        }
        Some((module, false))
    }
}

/// The shortest way from a module back to itself.
fn shortest<'a>(
    start: &'a Path,
    uses: &'a BTreeMap<&'a Path, BTreeMap<Path, usize>>,
) -> Option<Vec<&'a Path>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in uses[way[way.len() - 1]].keys() {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}
