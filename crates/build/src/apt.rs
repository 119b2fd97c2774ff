// SPDX-License-Identifier: GPL-2.0-only
//! Debian's packages, through apt, without touching the machine's own lists.
//!
//! The machine already says where it gets its packages from and whom it trusts.  Its entries are
//! copied, for sources with `deb` turned into `deb-src`, and used with lists and a cache of our
//! own, so that apt checks what it fetches exactly as it does for the machine, and the machine does
//! not change.

use crate::kernel::run;
use anyhow::{bail, Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

pub struct Apt {
    dir: PathBuf,
    /// The lists are the machine's; only the cache is ours.
    of_machine: bool,
}

/// What lists are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sources,
    Packages,
}

impl Kind {
    /// As apt's entries name it.
    fn word(self) -> &'static str {
        match self {
            Kind::Sources => "deb-src",
            Kind::Packages => "deb",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Lines,
    Stanzas,
}

impl Apt {
    /// Sets it up in `dir` from what the machine's apt uses; None where that has no Debian archive.
    pub fn new(dir: &Path, kind: Kind) -> Result<Option<Apt>> {
        let apt = Apt { of_machine: false, ..Apt::of_machine(dir)? };
        let codename = codename(&fs_err::read_to_string("/etc/os-release")?);
        // Entries that say `stable` are somebody else's more often than Debian's: second choice.
        let found = write_parts(&dir.join("parts"), codename.as_deref(), kind)?
            || write_parts(&dir.join("parts"), None, kind)?;
        Ok(found.then_some(apt))
    }

    /// One that reads the lists which the machine has already.
    pub fn of_machine(dir: &Path) -> Result<Apt> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs_err::create_dir_all(dir.join(folder))?;
        }
        Ok(Apt { dir: dir.to_path_buf(), of_machine: true })
    }

    pub fn update(&self) -> Result<()> {
        run::output(self.command("apt-get").arg("update")).map(drop).context(
            "cannot fetch the list of Debian's packages\n\
                hint: this needs the network once; the lists go to the cache, not to the machine's \
                apt",
        )
    }

    /// The names of the packages that begin so.
    pub fn packages(&self, prefix: &str) -> Result<Vec<String>> {
        let said = run::output(self.command("apt-cache").args(["pkgnames", prefix]))?;
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// Downloads a package's newest version into `to`; the .deb's path.
    pub fn download(&self, package: &str, to: &Path) -> Result<PathBuf> {
        let mut get = self.command("apt-get");
        get.args(["download", package]).current_dir(to);
        run::output(&mut get).with_context(|| {
            format!("cannot fetch the package {package}\nhint: this needs the network once")
        })?;
        let prefix = format!("{package}_");
        let found = fs_err::read_dir(to)?
            .flatten()
            .find(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
        match found {
            Some(entry) => Ok(entry.path()),
            None => bail!("apt-get fetched {package}, but no file of it is in {}", to.display()),
        }
    }

    /// The version to take: the tested one, else the newest of the series.
    pub fn choose(&self, source: &str, tested: &str, series: &str) -> Result<String> {
        let said =
            run::output(self.command("apt-cache").args(["showsrc", "--only-source", source]))?;
        let versions = versions(&said);
        let newest = || {
            versions.iter().filter(|version| version.starts_with(series)).max_by(|a, b| order(a, b))
        };
        versions.iter().find(|version| *version == tested).or_else(newest).cloned().with_context(
            || {
                format!(
                    "the archive has no {source} {series}…, only {}\n\
                     hint: check whether emulator/patches fits another version; see \
                     emulator/README.md",
                    versions.join(", ")
                )
            },
        )
    }

    /// Downloads (or finds again) the package's files; the .dsc's path.
    pub fn fetch(&self, source: &str, version: &str) -> Result<PathBuf> {
        let files = self.dir.join("files");
        fs_err::create_dir_all(&files)?;
        let mut get = self.command("apt-get");
        get.args(["--download-only", "--only-source", "source"])
            .arg(format!("{source}={version}"))
            .current_dir(&files);
        run::output(&mut get)
            .with_context(|| format!("cannot fetch the source of {source} {version}"))?;
        let without_epoch = version.split_once(':').map_or(version, |(_, rest)| rest);
        let dsc = files.join(format!("{source}_{without_epoch}.dsc"));
        if !dsc.is_file() {
            bail!("apt-get fetched {source} {version}, but not {}", dsc.display());
        }
        Ok(dsc)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let mut option = |name: &str, value: &str| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        let at = |name: &str| self.dir.join(name).display().to_string();
        if !self.of_machine {
            option("Dir::Etc::sourcelist", "/dev/null");
            option("Dir::Etc::sourceparts", &at("parts"));
            option("Dir::State::lists", &at("lists"));
        }
        option("Dir::Cache", &at("cache"));
        option("Acquire::Retries", "3");
        // Nobody else can write to these folders, and apt's own user may not be able to.
        option("APT::Sandbox::User", "root");
        command.env("LC_ALL", "C");
        command
    }
}

/// Our own entries, made from the machine's; whether there are any.
fn write_parts(parts: &Path, codename: Option<&str>, kind: Kind) -> Result<bool> {
    if parts.exists() {
        fs_err::remove_dir_all(parts)?;
    }
    fs_err::create_dir(parts)?;
    let mut any = false;
    for (number, (path, format)) in machine_entries()?.into_iter().enumerate() {
        let text = fs_err::read_to_string(&path)?;
        let (text, extension) = match format {
            Format::Lines => (lines_of(&text, codename, kind), "list"),
            Format::Stanzas => (stanzas_of(&text, codename, kind), "sources"),
        };
        if !text.is_empty() {
            fs_err::write(parts.join(format!("{number}.{extension}")), text)?;
            any = true;
        }
    }
    Ok(any)
}

fn machine_entries() -> Result<Vec<(PathBuf, Format)>> {
    let mut found = Vec::new();
    let list = PathBuf::from("/etc/apt/sources.list");
    if list.is_file() {
        found.push((list, Format::Lines));
    }
    if let Ok(folder) = fs_err::read_dir("/etc/apt/sources.list.d") {
        for entry in folder {
            let path = entry?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("list") => found.push((path, Format::Lines)),
                Some("sources") => found.push((path, Format::Stanzas)),
                _ => {}
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// `bookworm`, from /etc/os-release.
fn codename(os_release: &str) -> Option<String> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
}

/// Whether an archive is part of this release of Debian, not somebody else's packages for it.
fn is_debian<'a>(
    codename: Option<&str>,
    mut suites: impl Iterator<Item = &'a str>,
    mut components: impl Iterator<Item = &'a str>,
) -> bool {
    let of_release = |suite: &str| match codename {
        Some(name) => suite
            .strip_prefix(name)
            .is_some_and(|rest| ["", "-updates", "-security", "/updates"].contains(&rest)),
        None => true,
    };
    suites.any(of_release) && components.any(|component| component == "main")
}

/// `deb [options] uri suite component…` as `deb-src`.
fn lines_of(text: &str, codename: Option<&str>, kind: Kind) -> String {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("deb ")?.trim_start();
            let entry = match rest.strip_prefix('[') {
                Some(options) => options.split_once(']')?.1,
                None => rest,
            };
            let mut words = entry.split_whitespace().skip(1);
            let suite = words.next()?;
            is_debian(codename, [suite].into_iter(), words)
                .then(|| format!("{} {rest}\n", kind.word()))
        })
        .collect()
}

/// The stanzas of a deb822 file, their `Types` replaced.
fn stanzas_of(text: &str, codename: Option<&str>, kind: Kind) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines
        .split(|line| line.trim().is_empty())
        .filter_map(|stanza| stanza_of(stanza, codename, kind))
        .collect()
}

fn stanza_of(stanza: &[&str], codename: Option<&str>, kind: Kind) -> Option<String> {
    let named = |line: &str, name: &str| {
        line.split_once(':').is_some_and(|(field, _)| field.trim().eq_ignore_ascii_case(name))
    };
    // A field's value goes on in lines that begin with a blank.
    let value = |name: &str| {
        let at = stanza.iter().position(|line| named(line, name))?;
        let first = stanza[at].split_once(':').map_or("", |(_, value)| value);
        let more = stanza[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t']));
        Some(std::iter::once(first).chain(more.copied()).collect::<String>())
    };
    let disabled = value("Enabled").is_some_and(|value| {
        ["no", "false", "off", "0"].contains(&value.trim().to_lowercase().as_str())
    });
    let (suites, components) = (value("Suites")?, value("Components")?);
    let types = value("Types")?;
    let wanted = types.split_whitespace().any(|kind| kind == "deb")
        && !disabled
        && is_debian(codename, suites.split_whitespace(), components.split_whitespace());
    wanted.then(|| {
        let lines = stanza.iter().map(|line| match named(line, "Types") {
            true => format!("Types: {}\n", kind.word()),
            false => format!("{line}\n"),
        });
        lines.chain(["\n".to_owned()]).collect()
    })
}

/// Of `apt-cache showsrc`.
fn versions(said: &str) -> Vec<String> {
    said.lines()
        .filter_map(|line| line.strip_prefix("Version: "))
        .map(|version| version.trim().to_owned())
        .collect()
}

/// Debian's order of versions; dpkg knows it.
pub fn order(a: &str, b: &str) -> std::cmp::Ordering {
    let is = |relation| {
        Command::new("dpkg")
            .args(["--compare-versions", a, relation, b])
            .status()
            .is_ok_and(|status| status.success())
    };
    match (is("lt"), is("gt")) {
        (true, _) => std::cmp::Ordering::Less,
        (_, true) => std::cmp::Ordering::Greater,
        _ => std::cmp::Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: Option<&str> = Some("bookworm");

    #[test]
    fn lines_become_source_lines_and_keep_their_options() {
        let text = "# comment\n\
            deb http://a.example/debian bookworm main contrib\n\
            deb [arch=amd64 signed-by=/k.gpg] http://a.example/sec bookworm-security main\n\
            deb-src http://a.example/debian bookworm main\n\
            deb http://b.example/tools bookworm stable\n\
            deb http://c.example/debian trixie main\n";
        assert_eq!(
            lines_of(text, RELEASE, Kind::Sources),
            "deb-src http://a.example/debian bookworm main contrib\n\
             deb-src [arch=amd64 signed-by=/k.gpg] http://a.example/sec bookworm-security main\n"
        );
    }

    #[test]
    fn stanzas_keep_everything_but_their_type() {
        let text = "Types: deb\n# comment\nURIs: http://a.example/debian\n\
            Suites: bookworm\n bookworm-updates\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n\
            Types: deb\nURIs: http://b.example\nSuites: nodistro\nComponents: main\n\n\
            Enabled: no\nTypes: deb\nURIs: http://c.example\nSuites: bookworm\nComponents: main\n";
        assert_eq!(
            stanzas_of(text, RELEASE, Kind::Sources),
            "Types: deb-src\nURIs: http://a.example/debian\n\
             Suites: bookworm\n bookworm-updates\nComponents: main\n\
             Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n"
        );
    }

    #[test]
    fn the_release_is_read() {
        let text = "NAME=\"Debian\"\nVERSION_CODENAME=bookworm\n";
        assert_eq!(codename(text).as_deref(), RELEASE);
        assert_eq!(codename(""), None);
    }

    #[test]
    fn versions_are_listed() {
        let said = "Package: qemu\nVersion: 1:7.2+dfsg-7+deb12u18\n\nVersion: 1:7.2+dfsg-7\n";
        assert_eq!(versions(said), ["1:7.2+dfsg-7+deb12u18", "1:7.2+dfsg-7"]);
    }
}
