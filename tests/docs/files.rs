// SPDX-License-Identifier: GPL-2.0-only
//! The texts that git knows.

use std::{fs, path::PathBuf, process::Command};

pub struct File {
    /// From the top of the repository.
    pub path: String,
    pub text: String,
}

pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file of the repository that is text, also those that are to be added.
pub fn all() -> Vec<File> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "-C"]).arg(root()).args(list);
    let output = git.output().expect("git lists the files");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names in UTF-8");
    let text_of = |path: &str| fs::read_to_string(root().join(path)).ok();
    let files: Vec<File> = names
        .lines()
        .filter_map(|path| Some(File { path: path.into(), text: text_of(path)? }))
        .collect();
    assert!(files.iter().any(|file| file.path == "README.md"), "not the repository: {names}");
    files
}

impl File {
    /// The targets of `[text](target)`, outside blocks of code.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines().filter(|line| !line.starts_with("    "));
        lines.flat_map(|line| {
            let after = line.split("](").skip(1);
            after.filter_map(|rest| rest.split(')').next())
        })
    }

    /// Whether a relative link leads to a file, and to a heading of it if it names one.
    pub fn leads(&self, link: &str, files: &[File]) -> bool {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = self.target(path);
        let is_folder = || root().join(&target).is_dir();
        match files.iter().find(|file| file.path == target) {
            Some(file) => heading.is_empty() || file.heading(heading).is_some(),
            None => heading.is_empty() && is_folder(),
        }
    }

    /// The file to which a relative link leads, from the top of the repository.
    pub fn target(&self, path: &str) -> String {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match path {
            "" => self.path.clone(),
            path => resolved(folder, path),
        }
    }

    /// The line of a heading, by the name that GitHub gives it in links.
    pub fn heading(&self, name: &str) -> Option<&str> {
        self.text.lines().filter(|line| line.starts_with('#')).find(|line| slug(line) == name)
    }

    /// From a heading's line to the next that is not below it; without one, all.
    pub fn section(&self, heading: Option<&str>) -> String {
        let Some(heading) = heading else { return self.text.clone() };
        let level = |line: &str| line.len() - line.trim_start_matches('#').len();
        let mut lines = self.text.lines().skip_while(|line| *line != heading);
        let first = lines.next();
        let within = lines.take_while(|line| !(1..=level(heading)).contains(&level(line)));
        first.into_iter().chain(within).collect::<Vec<_>>().join("\n")
    }
}

fn slug(line: &str) -> String {
    let title = line.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}
