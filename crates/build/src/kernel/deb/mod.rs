// SPDX-License-Identifier: GPL-2.0-only
//! Debian packages of the base with the series, to be installed on a machine: built once per set of
//! inputs, kept in `<cache>/deb/<key>/`.

mod flavour;

pub use flavour::Flavour;

use crate::{
    cache,
    kernel::{
        base::{Base, Source},
        config, make, run,
        series::{Patch, Stack},
        source::{self, Followed},
    },
    progress::{Events, Step},
    requirements,
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Part of every key: raise it when the recipe changes in a way that changes packages.
const RECIPE: &str = "deb 1";
/// The name of the source package: how a package of ours is known.
pub(super) const SOURCE: &str = "linux-paratick";
/// What kbuild wants for packages, beside what it wants for an image.
const TOOLS: [&str; 7] = ["dpkg-dev", "debhelper", "rsync", "kmod", "cpio", "libssl-dev", "zstd"];
/// What of BTF is a setting: where there is pahole(1), and where there is none.
const BTF: [&str; 2] =
    ["CONFIG_DEBUG_INFO_NONE=y\n", "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_DEBUG_INFO_BTF_MODULES=y\n"];

/// What is built, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// What `uname -r` will say, e.g. `6.12.117-paratick-amd64`.
    pub release: String,
    /// Debian's, with paratick's own behind it.
    pub version: String,
    /// Names the inputs: source, patches, configuration, compiler.
    pub key: String,
    /// Hash of the patches.
    pub patches: String,
    /// Whether the kernel describes its types; it takes pahole(1).
    pub btf: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Packages {
    #[serde(flatten)]
    pub plan: Plan,
    pub image: PathBuf,
    pub headers: PathBuf,
    /// The kernel's configuration.
    pub config: PathBuf,
}

/// What is kept beside the packages.
#[derive(Serialize, Deserialize)]
struct Info {
    release: String,
    version: String,
    base: String,
    patches: String,
    toolchain: String,
}

struct Inputs {
    source: Source,
    stack: Stack,
    /// Configuration symbols of the patches that are left out.
    unknown: BTreeSet<String>,
    flavour: Flavour,
    /// Debian's configuration; none where it begins with tinyconfig.
    whole: Option<PathBuf>,
    config: String,
    btf: bool,
    version: String,
    toolchain: String,
}

/// The packages of a base (e.g. `6.12`): builds them unless the cache has them.
///
/// An error where a tool is missing, or an option does not take.
pub fn ensure(base: &str, flavour: Flavour, events: Events) -> Result<Packages> {
    requirements::check(TOOLS)?;
    let inputs = Inputs::gather(base, flavour, events)?;
    let dir = cache::dir()?.join("deb").join(inputs.key()?);
    if !dir.is_dir() {
        let tree = inputs.tree(events)?;
        // Another process may have built it while this one waited.
        if !dir.is_dir() {
            inputs.build(&tree, &dir, events)?;
        }
    }
    let release = info_of(&dir)?.release;
    let plan = inputs.plan(release)?;
    let file = |kind: &str| dir.join(file_name(kind, &plan.release, &plan.version));
    let [image, headers] = ["linux-image", "linux-headers"].map(file);
    Ok(Packages { plan, image, headers, config: dir.join("config") })
}

/// The same without compiling: only the configuration is made, and every option of the fragments
/// is looked for in it.
pub fn plan(base: &str, flavour: Flavour, events: Events) -> Result<(Plan, PathBuf)> {
    let inputs = Inputs::gather(base, flavour, events)?;
    let tree = inputs.tree(events)?;
    inputs.configure(&tree, events)?;
    let mut release = make::command(&tree.src, &tree.out);
    let release = run::output(release.args(["-s", "kernelrelease"]))?;
    Ok((inputs.plan(release)?, tree.out.join(".config")))
}

/// Copies both packages into a folder, which is made where there is none; their new places.
pub fn copy(packages: Packages, to: &Path) -> Result<Packages> {
    fs_err::create_dir_all(to)?;
    let copied = |file: PathBuf| {
        let new = to.join(file.file_name().context("a package has a name")?);
        fs_err::copy(&file, &new)?;
        Ok::<_, anyhow::Error>(new)
    };
    let [image, headers] = [copied(packages.image)?, copied(packages.headers)?];
    Ok(Packages { image, headers, ..packages })
}

fn info_of(dir: &Path) -> Result<Info> {
    Ok(serde_json::from_str(&fs_err::read_to_string(dir.join("info.json"))?)?)
}

fn file_name(kind: &str, release: &str, version: &str) -> String {
    format!("{kind}-{release}_{version}_amd64.deb")
}

/// Debian's version with ours behind it: newer than the kernel that it is made from.
fn version_of(debian: &str) -> String {
    format!("{debian}+paratick{}", env!("CARGO_PKG_VERSION"))
}

impl Inputs {
    fn gather(base: &str, flavour: Flavour, events: Events) -> Result<Self> {
        let base = Base::load(base)?;
        let source = base.source(events)?;
        let debian = source.version.clone().unwrap_or_else(|| base.version.clone());
        let whole = flavour.configuration(&base, &debian, events)?;
        let stack = Stack::read(base.stack())?;
        let left_out = stack.0.iter().filter(|series| !series.folder.mailed);
        let unknown = left_out.flat_map(|series| &series.patches).flat_map(Patch::new_symbols);
        let mut fragments = match whole {
            Some(_) => vec![base.fragment("debian")],
            None => base.config(),
        };
        fragments.push(base.fragment("deb"));
        let mut texts =
            fragments.iter().map(fs_err::read_to_string).collect::<std::io::Result<Vec<_>>>()?;
        let pahole = requirements::check(["pahole"]).is_ok().then(pahole).transpose()?;
        let btf = whole.is_some() && pahole.is_some();
        texts.push(BTF[usize::from(btf)].into());
        texts.push(format!("CONFIG_LOCALVERSION=\"{}\"\n", flavour.suffix()));
        Ok(Inputs {
            source,
            unknown: unknown.collect(),
            stack: stack.mailed(),
            flavour,
            whole,
            config: config::essence(&texts.join("\n")),
            btf,
            version: version_of(&debian),
            toolchain: format!("{}; {}", make::toolchain()?, pahole.unwrap_or_default()),
        })
    }

    fn key(&self) -> Result<String> {
        let whole = self.whole.as_ref().map(fs_err::read).transpose()?;
        let parts = [
            RECIPE,
            &self.source.sha256,
            &self.stack.key(),
            &self.config,
            &self.version,
            &self.toolchain,
        ];
        let parts = parts.map(str::as_bytes);
        Ok(cache::key(parts.into_iter().chain([whole.as_deref().unwrap_or_default()])))
    }

    fn plan(&self, release: String) -> Result<Plan> {
        Ok(Plan {
            release,
            version: self.version.clone(),
            key: self.key()?,
            patches: self.stack.key(),
            btf: self.btf,
        })
    }

    fn tree(&self, events: Events) -> Result<Followed> {
        Followed::open(&self.source, &format!("deb-{}", self.flavour), events)
    }

    fn configure(&self, tree: &Followed, events: Events) -> Result<()> {
        tree.follow(self.stack.patches())?;
        events(Step::ConfiguringKernel.into());
        let Followed { src, out, .. } = tree;
        let fragment = [out.with_file_name("wanted.config")];
        fs_err::write(&fragment[0], &self.config)?;
        match &self.whole {
            Some(whole) => config::configure_from(whole, src, out, &fragment, &self.unknown),
            None => config::configure(src, out, &[], &fragment, &self.unknown),
        }
    }

    fn build(&self, tree: &Followed, dir: &Path, events: Events) -> Result<()> {
        fs_err::write(&tree.log, "")?;
        self.configure(tree, events)?;
        let building = Step::BuildingKernel {
            base: &self.source.base.name,
            suffix: self.flavour.suffix(),
            patches: self.stack.patches().count(),
        };
        events(building.into());
        let package = make::Package { source: SOURCE, version: &self.version };
        let make = make::packages(&tree.src, &tree.out, &package);
        let mut steps = make::Steps::new(None, events);
        run::logged(&make, &tree.log, |line| steps.line(line))?;
        fs_err::create_dir_all(dir.parent().expect("in the cache"))?;
        source::build_into(dir, |part| self.keep(tree, part))
    }

    /// kbuild leaves its packages beside the object folder, and more of them than are wanted.
    fn keep(&self, tree: &Followed, to: &Path) -> Result<()> {
        let release = fs_err::read_to_string(tree.out.join("include/config/kernel.release"))?;
        let release = release.trim().to_owned();
        fs_err::create_dir_all(to)?;
        for kind in ["linux-image", "linux-headers"] {
            let name = file_name(kind, &release, &self.version);
            fs_err::copy(tree.out.with_file_name(&name), to.join(&name))?;
        }
        fs_err::copy(tree.out.join(".config"), to.join("config"))?;
        for entry in fs_err::read_dir(tree.out.parent().expect("in the cache"))? {
            let file = entry?.path();
            let kinds = ["deb", "changes", "buildinfo"];
            if kinds.iter().any(|kind| file.extension() == Some(kind.as_ref())) {
                fs_err::remove_file(file)?;
            }
        }
        let info = Info {
            release,
            version: self.version.clone(),
            base: self.source.base.name.clone(),
            patches: self.stack.key(),
            toolchain: self.toolchain.clone(),
        };
        fs_err::write(to.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
        Ok(())
    }
}

/// What pahole(1) says it is.
fn pahole() -> Result<String> {
    run::output(std::process::Command::new("pahole").arg("--version"))
        .map(|version| format!("pahole {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apt;
    use std::cmp::Ordering;

    #[test]
    fn a_package_is_newer_than_the_kernel_it_is_made_from_and_older_than_the_next() {
        let ours = version_of("6.12.117-1~deb12u1");
        assert_eq!(apt::order("6.12.117-1~deb12u1", &ours), Ordering::Less);
        for newer in ["6.12.117-1", "6.12.117-2~deb12u1", "6.12.118-1~deb12u1"] {
            assert_eq!(apt::order(&ours, newer), Ordering::Less, "{newer}");
        }
    }

    #[test]
    fn packages_have_names_as_debians() {
        let name = file_name("linux-image", "6.12.117-paratick-amd64", "6.12.117-1+paratick0.1.0");
        assert_eq!(name, "linux-image-6.12.117-paratick-amd64_6.12.117-1+paratick0.1.0_amd64.deb");
    }
}
