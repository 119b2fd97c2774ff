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

/// The folders of the stack, from the bottom up; the last is only the lab's.
pub const SERIES: [&str; 3] = ["lower", "upper", "lab"];

/// The only file of the base that patches change, as it comes and as the patches of
/// [`Checkout::with_series`] leave it one after the other.
pub const BASE: &str = "int a;\n\nint tick(void)\n{\n\treturn 1;\n}\n\nint z;\n";
pub const LOWER: &str = "int a;\n\nint tick(void)\n{\n\treturn 1;\n}\n\nint low;\n";
pub const FIRST: &str = "int a;\n\nint tick(void)\n{\n\treturn 2;\n}\n\nint low;\n";
pub const SECOND: &str = "int b;\n\nint tick(void)\n{\n\treturn 2;\n}\n\nint low;\n";
pub const LAB: &str = "int b;\n\nint tick(void)\n{\n\treturn 3;\n}\n\nint low;\n";

/// What one more patch on top of `upper` makes of it.
pub const MORE: &str = "int b;\n\nint tick(void)\n{\n\treturn 2;\n}\n\nint low;\nint more;\n";

/// What is built is the file that patches change; a compiler would refuse BROKEN, and warn of ODD
/// and OLD.
const MAKEFILE: &str = "\
.PHONY: kernel/
tinyconfig:; echo > $(O)/.config
olddefconfig:; sed -i /DROPPED/d $(O)/.config
kernel/:
	! grep BROKEN kernel/tick.c
	@! grep -q ODD kernel/tick.c || echo $(CURDIR)/kernel/tick.c:1:1: warning: odd $(ARCH)
	@! grep -q OLD kernel/tick.c || echo $(CURDIR)/kernel/tick.c:1:1: warning: old
	mkdir -p $(O)/kernel && echo $(CURDIR)/kernel/tick.c > $(O)/kernel/.tick.o.cmd
bzImage: kernel/
	mkdir -p $(O)/arch/x86/boot $(O)/include/config
	cp kernel/tick.c $(O)/arch/x86/boot/bzImage
	sed -n 's/^CONFIG_LOCALVERSION=\"\\(.*\\)\"/6.12.0\\1/p' $(O)/.config \\
		> $(O)/include/config/kernel.release
	touch $(O)/System.map $(O)/vmlinux
kernelrelease:; @$(call release)
bindeb-pkg: kernel/
	mkdir -p $(O)/include/config && $(call release) > $(O)/include/config/kernel.release
	mkdir -p $(O)/debian && date '+ -- a <a@b>  %c' > $(O)/debian/changelog
	cd $(O) && set -- $(strip $(DPKG_FLAGS)) && sh -c \"$${1#--hook-init=}\"
	for kind in image headers libc-dev; do cat kernel/tick.c $(O)/debian/changelog > \\
		$(O)/../linux-$$kind-`$(call release)`_$(KDEB_PKGVERSION)_amd64.deb; done
release = sed -n 's/^CONFIG_LOCALVERSION=\"\\(.*\\)\"/6.12.0\\1/p' $(O)/.config
";

const MATRIX: &str = r#"
[[row]]
name = "plain"
what = "what everybody has"
arch = "x86_64"
compiler = "gcc"
config = ["CONFIG_B=y"]

[[row]]
name = "old"
what = "what few have"
arch = "m68k"
compiler = "m68k-linux-gnu-gcc"
lab = false
"#;

/// A checkout with a base of a few files, and a cache, both thrown away at the end.
pub struct Checkout {
    dir: TempDir,
}

impl Checkout {
    /// With a stack of empty series.
    pub fn new() -> Self {
        Checkout::with_text(BASE)
    }

    /// The same where the base's file says this.
    pub fn with_text(tick: &str) -> Self {
        let checkout = Checkout { dir: TempDir::new().unwrap() };
        let source = checkout.path("linux");
        for (file, text) in [
            (".gitattributes", "*.c diff=cpp\n"),
            // Ignored by git, but part of the source.
            (".gitignore", "*.rej\n*.generated\n"),
            ("shipped.generated", "shipped\n"),
            ("kernel/tick.c", tick),
            ("Makefile", MAKEFILE),
            (
                "scripts/kconfig/merge_config.sh",
                "shift 3; config=$1; shift; cat \"$@\" >> \"$config\"\n",
            ),
            // Complains about what the tests plant, in the form of the real one.
            (
                "scripts/checkpatch.pl",
                "my $f = $ARGV[-1]; open(F, $f); while (<F>) { \
                 if (/WRONG/) { print \"$f:$.: ERROR:PLANTED: wrong\\n\"; exit 1 } }\n",
            ),
            (
                "scripts/kernel-doc",
                "shift; for my $f (@ARGV) { open(F, $f); while (<F>) { \
                 print STDERR \"$f:$.: warning: PLANTED\\n\" if /UNSAID/ } }\n",
            ),
        ] {
            let path = source.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tarball = checkout.path("linux.tar.xz");
        run(
            "tar",
            &["-cJf", text(&tarball), "-C", text(checkout.dir.path()), "linux"],
            checkout.dir.path(),
        );
        let sum = run("sha256sum", &[text(&tarball)], checkout.dir.path());
        checkout.write(
            "kernel/bases.toml",
            &format!(
                "[\"6.12\"]\npackage = \"no-such-package\"\nversion = \"1\"\nbuild_steps = 1\n\
                 tarball = \"{}\"\nsha256 = \"{}\"\n\
                 series = [\"lower\", \"upper\"]\nlab_series = [\"lab\"]\nconfig = [\"common\"]\n\
                 hz = 250\n",
                tarball.display(),
                sum.split_whitespace().next().unwrap()
            ),
        );
        checkout.write("kernel/checkpatch.ignore", "");
        checkout.write("kernel/matrix.toml", MATRIX);
        checkout.write("kernel/config/common.config", "CONFIG_A=y\n");
        for name in SERIES {
            checkout.write(&format!("kernel/series/{name}/6.12/series"), "");
        }
        checkout
    }

    /// With one patch in `lower`, two in `upper` and one in `lab`, exported; `upper` is checked
    /// out.
    pub fn with_series() -> Self {
        let checkout = Checkout::new();
        checkout.paratick(&["kernel", "tree"]).assert().success();
        checkout.git(&["checkout", "-q", "lower"]);
        checkout.commit_signed(LOWER, "tick: Name it low");
        checkout.git(&["checkout", "-q", "-B", "upper"]);
        checkout.commit_signed(
            FIRST,
            "tick: Return two, with a subject that is so long that git folds it in the file",
        );
        checkout.commit_signed(SECOND, "[odd] tick: Name it b");
        checkout.git(&["checkout", "-q", "-B", "lab"]);
        checkout.commit_signed(LAB, "tick: Return three in the lab");
        checkout.git(&["checkout", "-q", "upper"]);
        checkout.paratick(&["kernel", "export"]).assert().success();
        checkout.write_cover_letter("upper", 2);
        checkout
    }

    /// For so many patches.
    pub fn write_cover_letter(&self, series: &str, patches: usize) {
        self.write(
            &format!("kernel/series/{series}/6.12/cover-letter.txt"),
            &format!("Subject: [PATCH 0/{patches}] Tick\n\nDear maintainers,\n"),
        );
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
        command.env("PARATICK_ROOT", self.dir.path()).env("PARATICK_CACHE", self.path("cache"));
        command
    }

    /// What it prints when it ends with this code.
    pub fn stdout(&self, args: &[&str], code: i32) -> String {
        let done = self.paratick(args).assert().code(code);
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    }

    /// What it says on standard error when it ends with this code.
    pub fn stderr(&self, args: &[&str], code: i32) -> String {
        let done = self.paratick(args).assert().code(code);
        String::from_utf8(done.get_output().stderr.clone()).unwrap()
    }

    /// Commits a new text of `kernel/tick.c` in the tree, on the branch that is checked out.
    pub fn commit(&self, text: &str, message: &str) {
        fs::write(self.tree().join("kernel/tick.c"), text).unwrap();
        let author = format!("--author={AUTHOR}");
        self.git(&["commit", "-qa", &author, "--date=2026-02-03T04:05:06+0100", "-m", message]);
    }

    pub fn git(&self, args: &[&str]) -> String {
        let identity = ["-c", "user.name=me", "-c", "user.email=me@here"];
        run("git", &[&identity[..], args].concat(), &self.tree())
    }

    /// The same, with a message that its author signed off.
    pub fn commit_signed(&self, text: &str, subject: &str) {
        self.commit(text, &format!("{subject}\n\nBecause.\n\nSigned-off-by: {AUTHOR}"));
    }

    /// Puts the lab's branch on top of `upper` again, as the hint of `export` says.
    pub fn rebase_lab(&self) {
        let before = "refs/paratick/saved/upper";
        self.git(&["rebase", "-q", "--update-refs", "--onto", "upper", before, "lab"]);
        self.git(&["checkout", "-q", "upper"]);
    }

    /// Every file of the folders of patches, by name.
    pub fn patches(&self) -> Vec<(String, String)> {
        let mut all = vec![];
        for series in SERIES {
            let folder = format!("kernel/series/{series}/6.12");
            for entry in fs::read_dir(self.path(&folder)).into_iter().flatten() {
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

/// The beginning of a kernel's image, which says this of itself: not a kernel.
pub fn bzimage(version: &str) -> Vec<u8> {
    let mut image = vec![0; 0x280];
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    // Where that is said, from 0x200 on.
    image[0x20e..0x210].copy_from_slice(&0x80_u16.to_le_bytes());
    image.extend(version.bytes().chain([0]));
    image
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let output = process::Command::new(program).args(args).current_dir(dir).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
