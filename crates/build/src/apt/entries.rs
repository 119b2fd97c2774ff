// SPDX-License-Identifier: GPL-2.0-only
//! The entries of apt's lists of archives: ours, made from the machine's.

use anyhow::Result;
use std::path::{Path, PathBuf};

/// Debian's keys, those of newer releases, too.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

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

/// Writes our own entries into the folder `parts`, for the machine's release or another suite of
/// Debian's; whether there are any.  For a suite that is the machine's release there are none.
pub fn write(parts: &Path, kind: Kind, suite: Option<&str>) -> Result<bool> {
    if parts.exists() {
        fs_err::remove_dir_all(parts)?;
    }
    fs_err::create_dir(parts)?;
    let codename = codename(&fs_err::read_to_string("/etc/os-release")?);
    if suite.is_some() && suite == codename.as_deref() {
        return Ok(false);
    }
    let Some(suite) = suite else {
        // Entries that say `stable` are somebody else's more often than Debian's: second choice.
        return Ok(
            write_parts(parts, codename.as_deref(), kind)? || write_parts(parts, None, kind)?
        );
    };
    let Some(mirror) = mirror(codename.as_deref())? else { return Ok(false) };
    let kind = kind.word();
    let entry = format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n");
    fs_err::write(parts.join("0.list"), entry)?;
    Ok(true)
}

/// Our own entries, made from the machine's; whether there are any.
fn write_parts(parts: &Path, codename: Option<&str>, kind: Kind) -> Result<bool> {
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

/// Where the machine gets this release of Debian from; the archive of its security updates has no
/// other suites.
fn mirror(codename: Option<&str>) -> Result<Option<String>> {
    for (path, format) in machine_entries()? {
        let text = fs_err::read_to_string(&path)?;
        let found = match format {
            Format::Lines => mirror_of(lines_of(&text, codename, Kind::Packages).lines(), codename),
            Format::Stanzas => {
                let text = stanzas_of(&text, codename, Kind::Packages);
                mirror_of(text.split("\n\n"), codename)
            }
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The address in the first of these entries that has the release itself.
fn mirror_of<'a>(
    mut entries: impl Iterator<Item = &'a str>,
    codename: Option<&str>,
) -> Option<String> {
    let of_release = |entry: &&str| entry.split_whitespace().any(|word| Some(word) == codename);
    let entry = entries.find(of_release)?;
    entry.split_whitespace().find(|word| word.contains(":/")).map(str::to_owned)
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
    fn the_mirror_is_where_the_release_itself_is() {
        let lines = "deb [signed-by=/k.gpg] http://a.example/sec bookworm-security main\n\
            deb [signed-by=/k.gpg] http://a.example/debian bookworm main\n";
        let mirror = Some("http://a.example/debian".to_owned());
        assert_eq!(mirror_of(lines.lines(), RELEASE), mirror);
        let stanzas = "Types: deb\nURIs: http://a.example/sec\nSuites: bookworm-security\n\n\
            Types: deb\nURIs: http://a.example/debian\nSuites: bookworm bookworm-updates\n";
        assert_eq!(mirror_of(stanzas.split("\n\n"), RELEASE), mirror);
        assert_eq!(mirror_of(stanzas.split("\n\n"), Some("trixie")), None);
    }

    #[test]
    fn the_release_is_read() {
        let text = "NAME=\"Debian\"\nVERSION_CODENAME=bookworm\n";
        assert_eq!(codename(text).as_deref(), RELEASE);
        assert_eq!(codename(""), None);
    }
}
