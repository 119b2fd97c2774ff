// SPDX-License-Identifier: GPL-2.0-only
//! Kernel images: built once per set of inputs, kept in `<cache>/kernel/<key>/`.

use crate::{
    cache,
    kernel::{
        base::{Base, Source},
        config, make, run,
        series::{Patch, Stack},
        source::{self, Followed},
    },
    progress::{Events, Step},
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Part of every key: raise it when the recipe changes in a way that changes images.
const RECIPE: &str = "kernel 1";

/// Where the image is in the object folder (x86 only).
const BZIMAGE: &str = "arch/x86/boot/bzImage";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The whole stack: one image for host and guest in every mode.
    Patched,
    /// Debian's source as it is, with the same configuration.
    Unpatched,
}

#[derive(Debug, Clone)]
pub struct KernelImage {
    pub bzimage: PathBuf,
    pub config: PathBuf,
    /// Names the inputs: source, patches, configuration, compiler.
    pub key: String,
    /// What `uname -r` says, e.g. `6.12.117-paratick`.
    pub release: String,
    /// Hash of the patches it is built with; none on an unpatched kernel.
    pub patches: Option<String>,
}

/// A fragment of kernel/config that an image may have beyond its base's; the name is the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumIter)]
#[strum(serialize_all = "lowercase")]
pub enum Extra {
    /// PREEMPT_RT.
    Rt,
    /// The kernel looks for mistakes of its own, and is slow.  Not with `Rt`: this has a preemption
    /// model of its own.
    Debug,
    /// A driver of NVMe disks.
    Nvme,
    /// What guests need to talk to each other: virtio-net, vhost, tap devices, a bridge.
    Net,
}

/// What an image may have otherwise than the base says.
#[derive(Debug, Default)]
pub struct Changes {
    /// The series to end the stack with.
    pub up_to: Option<String>,
    /// A fragment to merge into tinyconfig instead of the base's.
    pub config: Option<PathBuf>,
    /// The rate of the tick, instead of the base's.
    pub hz: Option<u32>,
    /// What it has more, in the order of its name.
    pub extras: BTreeSet<Extra>,
    /// How CPU time is accounted, instead of as the base says: `tick` or `irq`.
    pub accounting: Option<String>,
}

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

struct Inputs {
    source: Source,
    stack: Stack,
    /// Of the stack, unless nothing of it is applied.
    patches_key: Option<String>,
    /// Configuration symbols of the patches that are left out.
    unknown: BTreeSet<String>,
    /// Names the object folder: rebuilds of one purpose have little to do.
    purpose: String,
    /// As it was when the key was made: files may be edited while a build runs.
    config: String,
    suffix: String,
    toolchain: String,
}

/// The image of `base` (e.g. `6.12`); builds it (4–7 minutes on 2 cores) unless the cache has it.
pub fn ensure(base: &str, variant: Variant, events: Events) -> Result<KernelImage> {
    ensure_changed(base, variant, &Changes::default(), events)
}

pub fn ensure_changed(
    base: &str,
    variant: Variant,
    changes: &Changes,
    events: Events,
) -> Result<KernelImage> {
    let inputs = Inputs::gather(base, variant, changes, events)?;
    let key = inputs.key();
    let dir = cache::dir()?.join("kernel").join(&key);
    if !dir.is_dir() {
        let tree = Followed::open(&inputs.source, &inputs.purpose, events)?;
        // Another process may have built it while this one waited.
        if !dir.is_dir() {
            inputs.build(&tree, &dir, events)?;
        }
    }
    read(&dir, key)
}

/// The same, if the cache has it.
pub fn built(
    base: &str,
    variant: Variant,
    changes: &Changes,
    events: Events,
) -> Result<Option<KernelImage>> {
    let key = Inputs::gather(base, variant, changes, events)?.key();
    let dir = cache::dir()?.join("kernel").join(&key);
    dir.is_dir().then(|| read(&dir, key)).transpose()
}

fn read(dir: &Path, key: String) -> Result<KernelImage> {
    let info: Info = serde_json::from_str(&fs_err::read_to_string(dir.join("info.json"))?)?;
    Ok(KernelImage {
        bzimage: dir.join("bzImage"),
        config: dir.join("config"),
        key,
        release: info.release,
        patches: info.patches,
    })
}

impl Inputs {
    fn gather(base: &str, variant: Variant, changes: &Changes, events: Events) -> Result<Self> {
        let base = Base::load(base)?;
        let source = base.source(events)?;
        let mut stack = Stack::read(base.stack())?;
        let left_out = match (variant, &changes.up_to) {
            (Variant::Unpatched, _) => std::mem::take(&mut stack),
            (Variant::Patched, Some(name)) => stack.split_above(name)?,
            (Variant::Patched, None) => Stack::default(),
        };
        let kind = match variant {
            Variant::Patched => "paratick",
            Variant::Unpatched => "base",
        };
        let top = changes.up_to.as_deref().filter(|_| !left_out.0.is_empty());
        let (config_name, mut fragments) = match &changes.config {
            Some(file) => {
                let stem = file.file_stem().unwrap_or_default();
                (stem.to_string_lossy().into_owned(), vec![file.clone()])
            }
            None => ("lab".to_owned(), base.config()),
        };
        let mut more = String::new();
        for extra in &changes.extras {
            more.push_str(&format!("-{extra}"));
            fragments.push(base.fragment(&extra.to_string()));
        }
        if let Some(how) = &changes.accounting {
            more.push_str(&format!("-{how}-accounting"));
            fragments.push(base.fragment(&format!("{how}-accounting")));
        }
        // What a fragment of the user's own comes to is not known.
        if let Some(hz) = changes.hz.filter(|hz| *hz != base.hz || changes.config.is_some()) {
            more.push_str(&format!("-hz{hz}"));
            fragments.push(base.tick(hz)?);
        }
        let config = fragments.iter().map(fs_err::read_to_string);
        Ok(Inputs {
            source,
            patches_key: (variant == Variant::Patched).then(|| stack.key()),
            stack,
            unknown: left_out.patches().flat_map(Patch::new_symbols).collect(),
            purpose: format!("{kind}-{config_name}{more}"),
            config: config::essence(&config.collect::<std::io::Result<Vec<_>>>()?.join("\n")),
            suffix: format!("-{}{more}", top.unwrap_or(kind)),
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
                &self.suffix,
                &self.toolchain,
            ]
            .map(str::as_bytes),
        )
    }

    fn build(&self, tree: &Followed, dir: &Path, events: Events) -> Result<()> {
        let fresh = !tree.out.join("vmlinux").exists();
        tree.follow(self.stack.patches())?;
        events(Step::ConfiguringKernel.into());
        fs_err::write(&tree.log, "")?;
        let fragment = tree.out.with_file_name("wanted.config");
        fs_err::write(&fragment, self.wanted_config())?;
        config::configure(&tree.src, &tree.out, &[], &[fragment], &self.unknown)?;
        let building = Step::BuildingKernel {
            base: &self.source.base.name,
            suffix: &self.suffix,
            patches: self.stack.patches().count(),
        };
        events(building.into());
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
        for (from, name) in
            [(BZIMAGE, "bzImage"), (".config", "config"), ("System.map", "System.map")]
        {
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
        fs_err::write(to.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
        Ok(())
    }
}
