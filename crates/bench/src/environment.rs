// SPDX-License-Identifier: GPL-2.0-only
//! What the numbers depend on, written down beside them.

use super::settings::Settings;
use anyhow::Result;
use paratick_build::{cache::sha256, requirements::installed_version, tools::Tools};
use paratick_core::{
    catalogue::programs,
    results::{Configuration, Environment, Machine, PlannedWorkload},
    units::Hz,
};
use paratick_machine::spec::HostSpec;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Kernel versions and command lines follow when host and guests are up.
pub fn collect(settings: &Settings, spec: &HostSpec) -> Result<Environment> {
    let boots = spec.backend.boots();
    let host = spec.facts();
    let config = settings.kernel.config.as_deref().map(kernel_config).transpose()?;
    let host_config = match &settings.host_kernel {
        Some(kernel) => kernel.config.clone(),
        None => config_of_this_machine(),
    };
    let host_config = host_config.as_deref().map(kernel_config).transpose()?;
    let configuration = Configuration {
        kernel_sha256: sha256(&settings.kernel.image)?,
        host_kernel_sha256: if boots { sha256(&spec.boot.kernel)? } else { String::new() },
        hz: config.as_ref().and_then(hz),
        host_hz: host_config.as_ref().and_then(hz),
        kernel_config: config,
        guest_memory_bytes: settings.set.memory.bytes(),
        host_cpus: host.cpus,
        host_memory_bytes: host.memory.bytes(),
        host_is_machine: !boots,
        accelerator: host.accelerator,
        ns_per_instruction: host.ns_per_instruction,
        exit_cost_ns: host.exit_cost_ns,
        parallel_clock: host.parallel_clock,
    };
    Ok(Environment {
        patch_set_hash: settings.kernel.patches.clone(),
        host_patch_set_hash: settings.host_kernel.as_ref().and_then(|one| one.patches.clone()),
        hashes: hashes(settings, !boots)?,
        configuration,
        qemu_version: qemu_version(&settings.tools),
        machine: machine(),
        packages: versions(&settings.set.plan.workloads),
        ..Environment::default()
    })
}

/// Of the packages that the workloads' programs come from, as far as this machine knows them.
fn versions(workloads: &[PlannedWorkload]) -> BTreeMap<String, String> {
    let packages = workloads.iter().flat_map(programs::packages);
    let versions = packages.map(|name| Some((name.to_string(), installed_version(name)?)));
    versions.flatten().collect()
}

/// What this machine could still give to programs, in bytes.
pub fn available_memory() -> Option<u64> {
    meminfo("MemAvailable")
}

fn meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = field(&text, name, ':')?.split(' ').next()?.parse::<u64>().ok()?;
    Some(kib << 10)
}

/// Of what has no name or version of its own, and yet decides.
fn hashes(settings: &Settings, here: bool) -> Result<BTreeMap<String, String>> {
    let tools = &settings.tools;
    let mut hashes = BTreeMap::new();
    for (name, file) in [("agent", &tools.agent), ("qemu", &tools.qemu)] {
        hashes.insert(name.to_string(), sha256(file)?);
    }
    if here {
        hashes.insert("host".into(), paratick_build::cache::key([this_host().as_bytes()]));
    }
    Ok(hashes)
}

/// Where the machine is the host: its processor, its kernel and how KVM is set, which no image and
/// no command line tell.
fn this_host() -> String {
    let uname = rustix::system::uname();
    let mut text = format!("{}\n{:?} {:?}\n", machine().cpu, uname.release(), uname.version());
    for module in ["kvm", "kvm_intel", "kvm_amd"] {
        let folder = format!("/sys/module/{module}/parameters");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let value = std::fs::read_to_string(&file).unwrap_or_default();
            let _ = writeln!(text, "{} {}", file.display(), value.trim());
        }
    }
    text
}

/// The options that are set, by name without `CONFIG_`.
fn kernel_config(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs_err::read_to_string(file)?;
    Ok(text
        .lines()
        .filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='))
        .map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string()))
        .collect())
}

fn hz(config: &BTreeMap<String, String>) -> Option<Hz> {
    config.get("HZ")?.parse().ok().map(Hz)
}

/// Where distributions put it.
fn config_of_this_machine() -> Option<PathBuf> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    Some(PathBuf::from(format!("/boot/config-{release}"))).filter(|file| file.is_file())
}

fn qemu_version(tools: &Tools) -> Option<String> {
    let output = Command::new(&tools.qemu).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(String::from)
}

fn machine() -> Machine {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(|| "unknown".into()),
        cpus: paratick_service::online_cpus(),
        memory_bytes: meminfo("MemTotal").unwrap_or(0),
        kernel_version: rustix::system::uname().release().to_string_lossy().into_owned(),
        distribution: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
    }
}

/// The first value of `name` in lines of `name : value`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().trim_matches('"').to_string())
}

/// This moment, RFC 3339 in UTC, to the second.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_moment_is_written_to_the_second() {
        let now = now();
        assert!(now.ends_with('Z') && now.len() == "2026-01-02T03:04:05Z".len(), "{now}");
        assert!(now.parse::<jiff::Timestamp>().is_ok(), "{now}");
    }

    #[test]
    fn fields_are_found_in_the_kernels_own_tables() {
        let text = "MemTotal:       24000 kB\nMemFree: 1 kB\n";
        assert_eq!(field(text, "MemTotal", ':'), Some("24000 kB".into()));
        assert_eq!(field(text, "Swap", ':'), None);
        assert!(machine().memory_bytes > 0 && machine().cpus > 0);
    }

    #[test]
    fn only_options_that_are_set_are_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "# comment\nCONFIG_HZ=250\nCONFIG_NAME=\"x\"\n# CONFIG_OFF is not set\n",
        )
        .unwrap();
        let options = kernel_config(file.path()).unwrap();
        assert_eq!(options.len(), 2);
        assert_eq!((hz(&options), options["NAME"].as_str()), (Some(Hz(250)), "x"));
    }
}
