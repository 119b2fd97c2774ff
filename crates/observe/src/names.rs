// SPDX-License-Identifier: GPL-2.0-only
//! What VMs are called, by the command lines of their VMMs.  Pure.

use std::{fmt, path::Path};

/// A VM by the process that runs its vCPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub process: u32,
    /// None: only the process is known.
    pub name: Option<String>,
    /// What else it is called.
    pub others: Vec<String>,
}

impl Identity {
    /// From the command line, and whether the process is in a container of Kubernetes.
    pub fn of(process: u32, line: &[String], in_pod: bool) -> Identity {
        let program = line.first().map(String::as_str).unwrap_or_default();
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let (name, others) = match program.as_ref() {
            vmm if vmm.starts_with("firecracker") => (option(line, "id"), Vec::new()),
            vmm if vmm.starts_with("crosvm") => (option(line, "name"), Vec::new()),
            vmm if vmm.starts_with("lkvm") => (option(line, "name"), Vec::new()),
            vmm if vmm.starts_with("cloud-hypervisor") => {
                (option(line, "api-socket").as_deref().and_then(of_socket), Vec::new())
            }
            _ => qemu(line),
        };
        let name = name.map(|name| plain(&name));
        match name.as_ref().and_then(|name| name.split_once('_')).filter(|_| in_pod) {
            // KubeVirt's domains: neither part can have an underscore.
            Some((space, vm)) => {
                let names = [format!("{space}_{vm}")].into_iter().chain(others);
                Identity { process, name: Some(format!("{space}/{vm}")), others: names.collect() }
            }
            None => Identity { process, name, others },
        }
    }

    pub fn is_called(&self, word: &str) -> bool {
        let (mut names, plain) = (self.name.iter().chain(&self.others), plain(word));
        names.any(|name| *name == plain || is_uuid(name) && name.eq_ignore_ascii_case(word))
    }
}

/// In one line, without control characters, which are escaped as in JSON.
fn plain(name: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    name.chars().map(escaped).collect()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (pid {})", self.process),
            None => write!(f, "pid {}", self.process),
        }
    }
}

/// QEMU's, with libvirt, Proxmox or nobody above it; and what takes its options.  Of an option that
/// is given twice it takes the last.
fn qemu(line: &[String]) -> (Option<String>, Vec<String>) {
    let names = options(line, "name").filter_map(|value| {
        let parts = parts(&value);
        let given = parts.iter().find_map(|part| part.strip_prefix("guest=").map(String::from));
        given.or_else(|| parts.first().filter(|part| !part.contains('=')).cloned())
    });
    let name = names.last();
    let smbios = options(line, "smbios").filter_map(|value| {
        parts(&value).iter().find_map(|part| part.strip_prefix("uuid=").map(String::from))
    });
    let uuid = options(line, "uuid").last().or(smbios.last());
    let others = [option(line, "id"), uuid];
    let mut others: Vec<String> = others.into_iter().flatten().collect();
    match name {
        None if !others.is_empty() => (Some(others.remove(0)), others),
        name => (name, others),
    }
}

/// The first value of an option.
pub fn option(line: &[String], name: &str) -> Option<String> {
    options(line, name).next()
}

/// The values of an option, with one dash or two, and behind it or behind `=`.
pub fn options<'a>(line: &'a [String], name: &'a str) -> impl Iterator<Item = String> + 'a {
    line.iter().enumerate().filter_map(move |(place, word)| {
        let word = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        let value = match word.strip_prefix(name)? {
            "" => line.get(place + 1)?,
            rest => rest.strip_prefix('=')?,
        };
        (!value.is_empty()).then(|| value.to_string())
    })
}

/// Between commas, of which two are one in a value.
pub fn parts(value: &str) -> Vec<String> {
    let kept = value.replace(",,", "\0");
    kept.split(',').map(|part| part.replace('\0', ",")).collect()
}

/// Of `path=/run/vm/web.sock` or `/run/vm/web/api.sock`, the part that is not always the same.
fn of_socket(value: &str) -> Option<String> {
    const ALWAYS: [&str; 6] = ["api", "clh-api", "ch", "cloud-hypervisor", "ch-api", "socket"];
    let parts = parts(value);
    let path = parts.iter().find_map(|part| part.strip_prefix("path=")).unwrap_or(&parts[0]);
    let path = Path::new(path);
    let stem = path.file_stem()?.to_str()?;
    let folder = || path.parent()?.file_name()?.to_str();
    let name = if ALWAYS.contains(&stem) { folder()? } else { stem };
    Some(name.to_string())
}

pub fn is_uuid(name: &str) -> bool {
    name.len() == 36 && name.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

/// What libvirt says in `/run/libvirt/qemu/NAME.xml` of the domain of this process.
pub fn of_domain(xml: &str, process: u32) -> Option<Identity> {
    let status = xml.split_once("<domstatus ")?.1.split('>').next()?;
    let pid = ['\'', '"'].iter().any(|q| status.contains(&format!("pid={q}{process}{q}")));
    let text = |tag: &str| {
        let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
        let text = rest.split('<').next()?.trim();
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        Some(text.replace("&apos;", "'").replace("&amp;", "&"))
    };
    let name = text("name").filter(|_| pid)?;
    Some(Identity { process, name: Some(name), others: text("uuid").into_iter().collect() })
}

/// VMs that were chosen; of none, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted(Vec<Choice>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Process(u32),
    /// Whoever has the name then, too.
    Name(String),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotOne {
    #[error("no VM '{word}' runs on this machine\nhint: {}", those(.running))]
    None { word: String, running: Vec<Identity> },
    #[error(
        "{} VMs are called '{word}'\nhint: give the process of one of them: {}",
        .called.len(),
        list(.called)
    )]
    Several { word: String, called: Vec<Identity> },
}

fn list(vms: &[Identity]) -> String {
    const SHOWN: usize = 20;
    let shown = vms.iter().take(SHOWN).map(Identity::to_string).collect::<Vec<_>>().join(", ");
    match vms.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

fn those(running: &[Identity]) -> String {
    match running {
        [] => "start it first; no VM runs now".into(),
        running => format!("give one of these: {}", list(running)),
    }
}

impl Wanted {
    /// Each word must be one VM's.
    pub fn of(words: &[String], running: &[Identity]) -> Result<Wanted, NotOne> {
        let choose = |word: &String| {
            if let Some(vm) = running.iter().find(|vm| word.parse() == Ok(vm.process)) {
                return Ok(Choice::Process(vm.process));
            }
            let called: Vec<_> = running.iter().filter(|vm| vm.is_called(word)).cloned().collect();
            let word = word.clone();
            match called.len() {
                0 => Err(NotOne::None { word, running: running.to_vec() }),
                1 => Ok(Choice::Name(word)),
                _ => Err(NotOne::Several { word, called }),
            }
        };
        Ok(Wanted(words.iter().map(choose).collect::<Result<_, _>>()?))
    }

    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, vm: &Identity) -> bool {
        let is = |choice: &Choice| match choice {
            Choice::Process(process) => *process == vm.process,
            Choice::Name(name) => vm.is_called(name),
        };
        self.is_all() || self.0.iter().any(is)
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
