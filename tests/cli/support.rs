// SPDX-License-Identifier: GPL-2.0-only
//! Running `paratick`, and a small stand-in for a kernel's source.

use assert_cmd::Command;
use std::{
    fs,
    path::{Path, PathBuf},
    process,
};
use tempfile::TempDir;

/// Who writes the patches of these tests.
pub const AUTHOR: &str = "A U Thor <author@example.org>";

/// A checkout with a base of a few files, and a cache, both thrown away at the end.
pub struct Checkout {
    dir: TempDir,
}

impl Checkout {
    /// With an empty series.
    pub fn new() -> Self {
        let checkout = Checkout {
            dir: TempDir::new().unwrap(),
        };
        let source = checkout.path("linux");
        for (file, text) in [
            (".gitattributes", "*.c diff=cpp\n"),
            // Ignored by git, but part of the source.
            (".gitignore", "*.rej\n*.generated\n"),
            ("shipped.generated", "shipped\n"),
            ("kernel/tick.c", "int a;\n\nint tick(void)\n{\n\treturn 1;\n}\n"),
            // Complains about what the tests plant, in the form of the real one.
            (
                "scripts/checkpatch.pl",
                "my $f = $ARGV[-1]; open(F, $f); while (<F>) { if (/WRONG/) { print \"$f:$.: ERROR:PLANTED: wrong\\n\"; exit 1 } }\n",
            ),
        ] {
            let path = source.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tarball = checkout.path("linux.tar.xz");
        run(
            "tar",
            &[
                "-cJf",
                text(&tarball),
                "-C",
                text(checkout.dir.path()),
                "linux",
            ],
            checkout.dir.path(),
        );
        checkout.write(
            "kernel/bases.toml",
            &format!(
                "[\"6.12\"]\npackage = \"no-such-package\"\nversion = \"1\"\ntarball = \"{}\"\nsha256 = \"{}\"\nbuild_steps = 1\n",
                tarball.display(),
                run("sha256sum", &[text(&tarball)], checkout.dir.path()).split_whitespace().next().unwrap()
            ),
        );
        checkout.write("kernel/checkpatch.ignore", "");
        checkout
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn tree(&self) -> PathBuf {
        self.path("cache/tree/6.12")
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `paratick` with this checkout and cache.
    pub fn paratick(&self, args: &[&str]) -> Command {
        let mut command = paratick(args);
        command
            .env("PARATICK_ROOT", self.dir.path())
            .env("PARATICK_CACHE", self.path("cache"));
        command
    }

    /// Commits a new text of `kernel/tick.c` in the tree, on the branch that is checked out.
    pub fn commit(&self, text: &str, message: &str) {
        fs::write(self.tree().join("kernel/tick.c"), text).unwrap();
        let author = format!("--author={AUTHOR}");
        self.git(&[
            "commit",
            "-qa",
            &author,
            "--date=2026-02-03T04:05:06+0100",
            "-m",
            message,
        ]);
    }

    pub fn git(&self, args: &[&str]) -> String {
        let identity = ["-c", "user.name=me", "-c", "user.email=me@here"];
        run("git", &[&identity[..], args].concat(), &self.tree())
    }

    /// Every file of both folders of patches, by name.
    pub fn patches(&self) -> Vec<(String, String)> {
        let mut all = vec![];
        for folder in ["kernel/patches/6.12", "kernel/lab-patches/6.12"] {
            for entry in fs::read_dir(self.path(folder)).into_iter().flatten() {
                let path = entry.unwrap().path();
                let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
                all.push((name, fs::read_to_string(path).unwrap()));
            }
        }
        all.sort();
        all
    }
}

pub fn paratick(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("paratick").unwrap();
    command.args(args);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let output = process::Command::new(program)
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
