// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's `make`, with nothing of the caller's environment that could change what it makes.

use crate::{
    kernel::run,
    progress::{Event, Events},
};
use anyhow::Result;
use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// What the image says about its making: fixed, so that equal inputs give equal images.
const IDENTITY: &[(&str, &str)] = &[
    ("KBUILD_BUILD_USER", "paratick"),
    ("KBUILD_BUILD_HOST", "lab"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("KBUILD_BUILD_TIMESTAMP", TIMESTAMP),
];
const TIMESTAMP: &str = "Thu Jan  1 00:00:00 UTC 2026";
/// The same, as packages' changelogs have it, and in seconds.
const CHANGELOG_DATE: &str = "Thu, 01 Jan 2026 00:00:00 +0000";
const EPOCH: &str = "1767225600";

/// Variables that kbuild or make would take from the environment.  An outer `make demo` exports the
/// last few.
const FOREIGN: &str =
    "ARCH SUBARCH CROSS_COMPILE CC HOSTCC LD LLVM KCFLAGS KCPPFLAGS KAFLAGS HOSTCFLAGS CFLAGS \
    LDFLAGS KBUILD_OUTPUT KCONFIG_CONFIG KCONFIG_ALLCONFIG O V W C M INSTALL_HDR_PATH \
    MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES GNUMAKEFLAGS";

/// `make -C SRC O=OUT -jN`; the caller adds targets.
pub fn command(src: &Path, out: &Path) -> Command {
    let mut make = Command::new("make");
    clean_environment(&mut make);
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    make.arg("-C").arg(src);
    make.arg(format!("O={}", out.display())).arg(format!("-j{jobs}"));
    make
}

/// Where the source keeps KVM's selftests.
pub const KVM_SELFTESTS: &str = "tools/testing/selftests/kvm/";

/// `make` for KVM selftests, named relative to their folder, whose programs end up in `built`.
/// The headers of `make headers` must be in `out`.
pub fn selftests<'a>(
    src: &Path,
    out: &Path,
    built: &Path,
    programs: impl Iterator<Item = &'a str>,
) -> Command {
    let mut make = Command::new("make");
    clean_environment(&mut make);
    make.arg("-C").arg(src.join(KVM_SELFTESTS));
    make.arg(format!("OUTPUT={}", built.display()));
    make.arg(format!("KHDR_INCLUDES=-isystem {}/usr/include", out.display()));
    make.args(programs.map(|program| built.join(program)));
    make
}

/// What packages are made of: the names of kbuild's own variables.
pub struct Package<'a> {
    pub source: &'a str,
    pub version: &'a str,
}

/// [`command`] for `bindeb-pkg`: linux-image and linux-headers, without debug symbols.
pub fn packages(src: &Path, out: &Path, package: &Package) -> Command {
    let mut make = command(src, out);
    make.arg("bindeb-pkg");
    // Its mkdebian writes today's date, whatever the environment says.  make leaves one of two
    // spaces.
    let redate = format!("sed -i \"s/^\\( -- .*> *\\).*/\\1{CHANGELOG_DATE}/\" debian/changelog");
    make.env("DPKG_FLAGS", format!("'--hook-init={redate}'"));
    make.env("SOURCE_DATE_EPOCH", EPOCH);
    make.env("KDEB_SOURCENAME", package.source).env("KDEB_PKGVERSION", package.version);
    make.env("KDEB_CHANGELOG_DIST", "unstable").env("DEB_BUILD_OPTIONS", "terse");
    make.env("DEB_BUILD_PROFILES", format!("pkg.{}.nokerneldbg", package.source));
    for foreign in ["KDEB_COMPRESS", "KDEB_HOOKDIR", "KBUILD_DEBARCH", "DEBEMAIL", "DEBFULLNAME"] {
        make.env_remove(foreign);
    }
    make
}

pub fn clean_environment(command: &mut Command) {
    for name in FOREIGN.split(' ') {
        command.env_remove(name);
    }
    // Set but empty: no "+" for a tree that is not a clean tag.
    command.env("LOCALVERSION", "").env("LC_ALL", "C");
    command.envs(IDENTITY.iter().copied());
}

/// First line of what the compiler and the linker say they are.
pub fn toolchain() -> Result<String> {
    let mut words = vec![];
    for program in ["gcc", "ld"] {
        let said = run::output(Command::new(program).arg("--version").env("LC_ALL", "C"))?;
        words.push(said.lines().next().unwrap_or_default().to_owned());
    }
    Ok(words.join("; "))
}

/// Counts the lines that kbuild prints (`  CC      file.o`) into progress events.
pub struct Steps<'a> {
    events: Events<'a>,
    total: Option<u64>,
    done: u64,
    start: Instant,
}

impl<'a> Steps<'a> {
    pub fn new(total: Option<u64>, events: Events<'a>) -> Self {
        Steps { events, total, done: 0, start: Instant::now() }
    }

    pub fn line(&mut self, line: &str) {
        if is_step(line) {
            self.done += 1;
            (self.events)(Event::Progress {
                done: self.done,
                total: self.total,
                left: self.total.and_then(|total| left(self.start.elapsed(), self.done, total)),
            });
        }
    }
}

fn is_step(line: &str) -> bool {
    line.strip_prefix("  ")
        .and_then(|rest| rest.chars().next())
        .is_some_and(|first| first.is_ascii_uppercase())
}

/// The time left at the same speed; no guess while there is little to go by, nor past the
/// estimate.
pub fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    (done >= 20 && done <= total).then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_speed_so_far() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 500, 1000), Some(minute));
        assert_eq!(left(minute, 3, 1000), None);
        assert_eq!(left(minute, 1001, 1000), None);
    }

    #[test]
    fn only_the_lines_of_kbuild_count() {
        assert!(is_step("  CC      kernel/time/tick-sched.o"));
        assert!(!is_step("make[1]: Entering directory"));
        assert!(!is_step("   in file included from"));
    }
}
