// SPDX-License-Identifier: GPL-2.0-only
//! Kernel images: built once per set of inputs, kept in `<cache>/kernel/<key>/`.

use crate::{
    cache,
    kernel::{
        base::{Base, Source},
        config, make, run,
        series::{Patch, Series},
        source::{self, Followed},
        KernelImage, Variant,
    },
    progress::{Event, Events},
    repo,
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};

/// Part of every key: raise it when the recipe changes in a way that changes images.
const RECIPE: &str = "kernel 1";

/// Where the image is in the object folder (both bases are x86 only).
const BZIMAGE: &str = "arch/x86/boot/bzImage";

/// What is kept beside an image, to be told without building anything.
#[derive(Serialize, Deserialize)]
struct Info {
    release: String,
    base: String,
    package_version: Option<String>,
    tarball_sha256: String,
    patches: Option<String>,
    toolchain: String,
}

/// Everything an image depends on.
struct Inputs {
    source: Source,
    patches: Vec<Patch>,
    patches_key: Option<String>,
    /// Configuration symbols of the series, which this variant does not have.
    unknown: BTreeSet<String>,
    /// Names the object folder.
    config_name: String,
    /// As it was when the key was made: files may be edited while a build runs.
    config: String,
    suffix: &'static str,
    toolchain: String,
}

/// The image for a base and variant, with `fragment` in place of `kernel/config/lab.config` if given.
pub fn ensure(
    base: &str,
    variant: Variant,
    fragment: Option<&Path>,
    events: Events,
) -> Result<KernelImage> {
    let inputs = Inputs::gather(base, variant, fragment, events)?;
    let key = inputs.key();
    let dir = cache::dir()?.join("kernel").join(&key);
    if !dir.is_dir() {
        // One object folder per variant and configuration file: rebuilds then have little to do.
        let purpose = format!("{}-{}", &inputs.suffix[1..], inputs.config_name);
        let tree = Followed::open(&inputs.source, &purpose, events)?;
        // Another process may have built it while this one waited.
        if !dir.is_dir() {
            inputs.build(&tree, &dir, events)?;
        }
    }
    read(&dir, key)
}

fn read(dir: &Path, key: String) -> Result<KernelImage> {
    let info: Info = serde_json::from_str(&fs_err::read_to_string(dir.join("info.json"))?)?;
    Ok(KernelImage {
        bzimage: dir.join("bzImage"),
        config: dir.join("config"),
        system_map: dir.join("System.map"),
        key,
        release: info.release,
        patches: info.patches,
    })
}

impl Inputs {
    fn gather(
        base: &str,
        variant: Variant,
        fragment: Option<&Path>,
        events: Events,
    ) -> Result<Self> {
        let base = Base::load(base)?;
        let source = base.source(events)?;
        let series = Series::read(&base.patches()?)?;
        let lab = Series::read(&base.lab_patches()?)?;
        let key = cache::key([series.key().as_bytes(), lab.key().as_bytes()]);
        let mut patches = [series.patches, lab.patches].concat();
        let mut patches_key = Some(key);
        let mut unknown = BTreeSet::new();
        if variant == Variant::Unpatched {
            unknown = patches.iter().flat_map(Patch::new_symbols).collect();
            patches.clear();
            patches_key = None;
        }
        let fragment = match fragment {
            Some(path) => path.to_owned(),
            None => repo::root()?.join("kernel/config/lab.config"),
        };
        Ok(Inputs {
            source,
            patches,
            patches_key,
            unknown,
            config: config::essence(&fs_err::read_to_string(&fragment)?),
            config_name: fragment
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            suffix: match variant {
                Variant::Patched => "-paratick",
                Variant::Unpatched => "-base",
            },
            toolchain: make::toolchain()?,
        })
    }

    fn key(&self) -> String {
        cache::key(
            [
                RECIPE,
                &self.source.sha256,
                self.patches_key.as_deref().unwrap_or_default(),
                &self.config,
                self.suffix,
                &self.toolchain,
            ]
            .map(str::as_bytes),
        )
    }

    fn build(&self, tree: &Followed, dir: &Path, events: Events) -> Result<()> {
        let fresh = !tree.out.join("vmlinux").exists();
        tree.follow(&self.patches)?;
        events(Event::Step("configuring the kernel".into()));
        fs_err::write(&tree.log, "")?;
        let fragment = tree.out.with_file_name("wanted.config");
        fs_err::write(&fragment, self.wanted_config())?;
        config::configure(&tree.src, &tree.out, &[fragment], &self.unknown)?;
        events(Event::Step(format!(
            "building Linux {}{} with {} patches",
            self.source.base.name,
            self.suffix,
            self.patches.len()
        )));
        let mut make = make::command(&tree.src, &tree.out);
        make.arg("bzImage");
        // How much an incremental build has to do is not known before it has done it.
        let mut steps = make::Steps::new(fresh.then_some(self.source.base.build_steps), events);
        run::logged(&make, &tree.log, |line| steps.line(line))?;
        fs_err::create_dir_all(dir.parent().expect("in the cache"))?;
        source::build_into(dir, |part| self.keep(&tree.out, part))
    }

    fn wanted_config(&self) -> String {
        format!(
            "{}CONFIG_LOCALVERSION=\"{}\"\nCONFIG_LOCALVERSION_AUTO=n\n",
            self.config, self.suffix
        )
    }

    fn keep(&self, out: &Path, to: &Path) -> Result<()> {
        fs_err::create_dir_all(to)?;
        for (from, name) in [
            (BZIMAGE, "bzImage"),
            (".config", "config"),
            ("System.map", "System.map"),
        ] {
            fs_err::copy(out.join(from), to.join(name))?;
        }
        let release = fs_err::read_to_string(out.join("include/config/kernel.release"))?;
        let info = Info {
            release: release.trim().to_owned(),
            base: self.source.base.name.clone(),
            package_version: self.source.version.clone(),
            tarball_sha256: self.source.sha256.clone(),
            patches: self.patches_key.clone(),
            toolchain: self.toolchain.clone(),
        };
        fs_err::write(
            to.join("info.json"),
            serde_json::to_string_pretty(&info)? + "\n",
        )?;
        Ok(())
    }
}
