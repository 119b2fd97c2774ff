// SPDX-License-Identifier: GPL-2.0-only
//! What `--kernel` means.

use crate::usage::Usage;
use anyhow::Result;
use paratick_bench::Kernel;
use paratick_build::{
    kernel::{self, Variant},
    progress::Events,
};
use std::path::{Path, PathBuf};

/// A kernel as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A bzImage.
    Image(PathBuf),
    /// A base that the lab builds, such as `6.12`, with the series or without (`6.12-base`).
    Base(String, bool),
}

impl Choice {
    pub fn parse(name: &str) -> Result<Choice> {
        let path = Path::new(name);
        if path.is_file() {
            return Ok(Choice::Image(fs_err::canonicalize(path)?));
        }
        if name.contains('/') {
            return Err(Usage(format!(
                "no kernel at {name}\nhint: name a bzImage, or a base such as {} that the lab builds (`paratick kernel build`)",
                kernel::DEFAULT_BASE
            ))
            .into());
        }
        Ok(match name.strip_suffix("-base") {
            Some(base) => Choice::Base(base.into(), false),
            None => Choice::Base(name.into(), true),
        })
    }

    /// Known to be without the series.
    pub fn is_unpatched(&self) -> bool {
        matches!(self, Choice::Base(_, false))
    }

    pub fn ensure(&self, events: Events) -> Result<Kernel> {
        match self {
            Choice::Image(image) => Ok(Kernel {
                config: config_of(image),
                image: image.clone(),
                patches: None,
            }),
            Choice::Base(base, patched) => {
                let variant = match patched {
                    true => Variant::Patched,
                    false => Variant::Unpatched,
                };
                let built = kernel::ensure(base, variant, events)?;
                Ok(Kernel {
                    image: built.bzimage,
                    config: Some(built.config),
                    patches: built.patches,
                })
            }
        }
    }
}

/// The configuration of an image, where it lies as the kernel's build or Debian's packages leave it.
fn config_of(image: &Path) -> Option<PathBuf> {
    let folder = image.parent()?;
    let debian = image
        .file_name()?
        .to_str()?
        .replacen("vmlinuz-", "config-", 1);
    let tree = folder.ancestors().nth(3).map(|tree| tree.join(".config"));
    [Some(folder.join("config")), Some(folder.join(debian)), tree]
        .into_iter()
        .flatten()
        .find(|file| file.is_file() && file != image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_base_and_a_path_is_an_image() {
        assert_eq!(
            Choice::parse("6.12").unwrap(),
            Choice::Base("6.12".into(), true)
        );
        assert!(Choice::parse("6.12-base").unwrap().is_unpatched());
        let error = Choice::parse("/no/such/bzImage").unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().contains("hint:"));
    }

    #[test]
    fn the_configuration_of_a_built_tree_is_found() {
        let tree = tempfile::tempdir().unwrap();
        let boot = tree.path().join("arch/x86/boot");
        std::fs::create_dir_all(&boot).unwrap();
        std::fs::write(boot.join("bzImage"), "x").unwrap();
        assert_eq!(config_of(&boot.join("bzImage")), None);
        std::fs::write(tree.path().join(".config"), "CONFIG_HZ=250\n").unwrap();
        assert_eq!(
            config_of(&boot.join("bzImage")),
            Some(tree.path().join(".config"))
        );
    }
}
