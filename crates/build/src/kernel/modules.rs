// SPDX-License-Identifier: GPL-2.0-only
//! What a stock kernel has as modules, and hosts and guests of the lab need: an archive of these,
//! which the agent loads in the order of their names.

use crate::initramfs::{self, Files};
use anyhow::{bail, Context, Result};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The folder of the archive, from which the agent loads all.
const FOLDER: &str = "/modules";

/// Devices first: without them nobody hears of what else fails.  Those without a reason are taken
/// where the kernel has them.
const WANTED: [(&str, Option<&str>); 11] = [
    ("virtio_pci", Some(VIRTIO)),
    ("virtio_console", Some(VIRTIO)),
    // For guests of the machine type microvm.
    ("virtio_mmio", None),
    ("virtio_blk", None),
    ("ext4", None),
    ("9pnet_virtio", None),
    ("9p", None),
    ("kvm_amd", None),
    ("kvm_intel", None),
    ("cpuid", None),
    ("msr", None),
];

const VIRTIO: &str = "the lab speaks with hosts and guests over virtio";
/// What a system that sees the machine's files needs, and what one needs whose files are on a disk.
const SHARED_ROOT: [&str; 2] = ["9pnet_virtio", "9p"];
const ROOT_DISK: [&str; 2] = ["virtio_blk", "ext4"];

/// Writes the archive of what is needed of this tree of modules, as a package has it.  Returns
/// whether the kernel can share files; else its root has to be on a disk.
pub fn archive(tree: &Path, to: &Path) -> Result<bool> {
    let list = fs_err::read_to_string(tree.join("modules.builtin"))?;
    let built_in: Vec<String> = list.lines().map(name_of).collect();
    let mut files = BTreeMap::new();
    find(&tree.join("kernel"), &mut files)?;
    let stage = tempfile::tempdir()?;
    let mut unpacked = BTreeMap::new();
    let is_there = |name: &str| built_in.iter().any(|one| one == name) || files.contains_key(name);
    let missing =
        WANTED.iter().find_map(|(name, why)| Some((name, (*why)?)).filter(|it| !is_there(it.0)));
    if let Some((name, why)) = missing {
        bail!(
            "it has no {name}, neither built in nor as a module: {why}\n\
             hint: take a kernel of another flavour; Debian's for amd64 has it"
        );
    }
    let shares = SHARED_ROOT.iter().all(|name| is_there(name));
    if let Some(name) = ROOT_DISK.iter().find(|name| !shares && !is_there(name)) {
        bail!(
            "it can have no root file system: it shares no files over 9p, and reads no disk \
             without {name}\n\
             hint: take a kernel of another flavour; Debian's for amd64 has 9p"
        );
    }
    // Of no use to those that share: loading them takes time.
    let wanted = WANTED.iter().map(|(name, _)| *name).filter(|name| !shares || *name != "ext4");
    let wanted = wanted.filter(|name| files.contains_key(*name));
    let order = in_order(wanted, |name| {
        let file = files.get(name).with_context(|| format!("it has no module {name}"))?;
        let plain = stage.path().join(name);
        unpack(file, &plain)?;
        let depends = dependencies(&fs_err::read(&plain)?);
        unpacked.insert(name.to_owned(), plain);
        Ok(depends)
    })?;
    let mut archive = Files::new();
    for (number, name) in order.iter().enumerate() {
        let to = format!("{FOLDER}/{number:02}-{name}.ko");
        archive.insert(to.into(), unpacked[name].clone());
    }
    initramfs::create(&archive, to)?;
    Ok(shares)
}

/// Every module once, behind those that it depends on.
fn in_order<'a>(
    wanted: impl IntoIterator<Item = &'a str>,
    mut depends: impl FnMut(&str) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for name in wanted {
        add(name, &mut order, &mut Vec::new(), &mut depends)?;
    }
    Ok(order)
}

fn add(
    name: &str,
    order: &mut Vec<String>,
    above: &mut Vec<String>,
    depends: &mut impl FnMut(&str) -> Result<Vec<String>>,
) -> Result<()> {
    if order.iter().any(|one| one == name) {
        return Ok(());
    }
    if above.iter().any(|one| one == name) {
        bail!("module {name} depends on itself");
    }
    above.push(name.to_owned());
    for other in depends(name)? {
        add(&other, order, above, depends)?;
    }
    above.pop();
    order.push(name.to_owned());
    Ok(())
}

/// All modules below a folder, by their names.
fn find(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find(&path, files)?;
        } else {
            files.insert(name_of(&path.display().to_string()), path);
        }
    }
    Ok(())
}

/// `kvm_amd`, of `kernel/arch/x86/kvm/kvm-amd.ko.xz`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

fn unpack(file: &Path, to: &Path) -> Result<()> {
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs_err::copy(file, to).map(drop).map_err(Into::into),
    };
    let mut command = Command::new(program);
    command.arg("-dc").arg(file).stdout(Stdio::from(std::fs::File::create(to)?));
    let status = command.status().with_context(|| {
        format!("cannot run {program} to unpack a module\nhint: apt-get install {program}-utils")
    })?;
    match status.success() {
        true => Ok(()),
        false => bail!("{program} cannot unpack {}", file.display()),
    }
}

/// What a module says of itself: packages come without `modules.dep`, which depmod(8) makes.
fn dependencies(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(at) = module.windows(FIELD.len()).position(|part| part == FIELD) else {
        return Vec::new();
    };
    let text = module[at + FIELD.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text);
    names.split(',').filter(|name| !name.is_empty()).map(name_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depends(name: &str) -> Result<Vec<String>> {
        let on: &[&str] = match name {
            "9p" => &["netfs", "9pnet"],
            "9pnet" => &["netfs"],
            "9pnet_virtio" => &["9pnet"],
            "kvm_amd" => &["kvm", "ccp"],
            "kvm" => &["irqbypass"],
            "egg" => &["hen"],
            "hen" => &["egg"],
            _ => &[],
        };
        Ok(on.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn what_a_module_needs_is_before_it_and_nothing_comes_twice() {
        let order = in_order(["virtio_blk", "9pnet_virtio", "9p", "kvm_amd"], depends).unwrap();
        let expected = [
            "virtio_blk",
            "netfs",
            "9pnet",
            "9pnet_virtio",
            "9p",
            "irqbypass",
            "kvm",
            "ccp",
            "kvm_amd",
        ];
        assert_eq!(order, expected);
        assert!(in_order(["egg"], depends).is_err());
    }

    #[test]
    fn a_module_says_what_it_needs() {
        let module = b"\x7fELF\0name=kvm_amd\0depends=kvm,ccp\0intree=Y\0";
        assert_eq!(dependencies(module), ["kvm", "ccp"]);
        assert!(dependencies(b"\x7fELF\0depends=\0intree=Y\0").is_empty());
        assert_eq!(dependencies(b"\0depends=kvm-amd\0"), ["kvm_amd"]);
    }

    #[test]
    fn a_file_is_a_module_by_its_name() {
        for name in ["kvm-amd.ko", "kernel/arch/x86/kvm/kvm-amd.ko.xz", "kvm_amd.ko.zst"] {
            assert_eq!(name_of(name), "kvm_amd");
        }
    }
}
