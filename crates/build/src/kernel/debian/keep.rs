// SPDX-License-Identifier: GPL-2.0-only
//! What of a kernel's packages is kept.

use crate::{
    initramfs::MODULES,
    kernel::{modules, run},
};
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Unpacks the packages into `stage` and writes what is kept of them into `to`; the kernel's
/// release, and whether it can share files.
pub(super) fn keep(debs: &[PathBuf], stage: &Path, to: &Path) -> Result<(String, bool)> {
    let tree = stage.join("tree");
    for deb in debs {
        run::output(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&tree))?;
    }
    let found = Found::of(&tree)?;
    fs_err::create_dir_all(to)?;
    fs_err::copy(&found.image, to.join("bzImage"))?;
    fs_err::copy(&found.config, to.join("config"))?;
    let shares = modules::archive(&found.modules, &to.join(MODULES))?;
    Ok((found.release, shares))
}

/// The parts of a kernel in a tree of unpacked packages.
#[derive(Debug)]
struct Found {
    release: String,
    image: PathBuf,
    config: PathBuf,
    /// The folder of its modules.
    modules: PathBuf,
}

impl Found {
    fn of(tree: &Path) -> Result<Found> {
        // Before and after Debian moved all of /lib to /usr/lib.
        let homes = ["lib/modules", "usr/lib/modules"].map(|home| tree.join(home));
        let folders: Vec<PathBuf> = homes.iter().flat_map(|home| entries(home)).collect();
        let boot = entries(&tree.join("boot"));
        let image = boot.iter().find(|file| name(file).starts_with("vmlinuz-"));
        let image = image.cloned().or_else(|| {
            folders.iter().map(|folder| folder.join("vmlinuz")).find(|file| file.is_file())
        });
        let image = image.context(
            "no kernel image in it\n\
             hint: name the package of a kernel; where linux-image-… is empty, linux-binary-… has \
             the image, and it takes the files of linux-modules-… and linux-base-… beside it",
        )?;
        let release = match name(&image).strip_prefix("vmlinuz-") {
            Some(release) => release.to_owned(),
            None => name(image.parent().unwrap_or(tree)).to_owned(),
        };
        let mut homes = folders.iter().filter(|folder| name(folder) == release);
        let modules = homes.find(|home| home.join("modules.builtin").is_file());
        let modules = modules.cloned().filter(|home| home.join("kernel").is_dir());
        let modules = modules.with_context(|| {
            format!(
                "no modules of Linux {release} in it\n\
                 hint: put the files of linux-modules-{release} and linux-base-{release} beside it"
            )
        })?;
        let configs = [tree.join(format!("boot/config-{release}")), modules.join("config")];
        let config = configs.into_iter().find(|file| file.is_file());
        let config =
            config.with_context(|| format!("no configuration of Linux {release} in it"))?;
        Ok(Found { release, image, config, modules })
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs_err::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for file in files {
            let file = tree.path().join(file);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            fs_err::write(file, "").unwrap();
        }
        tree
    }

    #[test]
    fn a_kernel_is_found_where_debian_has_put_it_at_its_time() {
        let old = [
            "boot/vmlinuz-6.1.0-56-amd64",
            "boot/config-6.1.0-56-amd64",
            "lib/modules/6.1.0-56-amd64/modules.builtin",
            "lib/modules/6.1.0-56-amd64/kernel/fs/9p/9p.ko",
        ];
        let new = [
            "usr/lib/modules/7.3.4+deb13-amd64/vmlinuz",
            "usr/lib/modules/7.3.4+deb13-amd64/config",
            "usr/lib/modules/7.3.4+deb13-amd64/modules.builtin",
            "usr/lib/modules/7.3.4+deb13-amd64/kernel/fs/9p/9p.ko.xz",
        ];
        for (files, release) in [(old, "6.1.0-56-amd64"), (new, "7.3.4+deb13-amd64")] {
            let tree = tree(&files);
            let found = Found::of(tree.path()).unwrap();
            assert_eq!(found.release, release);
            assert!(found.image.ends_with(files[0]) && found.config.ends_with(files[1]));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let of = |files: &[&str]| format!("{:#}", Found::of(tree(files).path()).unwrap_err());
        assert!(of(&["usr/share/doc/hello"]).contains("no kernel image"));
        let error = of(&["usr/lib/modules/7.3.4/vmlinuz", "usr/lib/modules/7.3.4/config"]);
        assert!(error.contains("linux-modules-7.3.4"), "{error}");
    }
}
