// SPDX-License-Identifier: GPL-2.0-only
//! What `--kernel` and `--host-kernel` mean.

use crate::errors::usage;
use anyhow::Result;
use clap::Args;
use paratick_bench::Kernel;
use paratick_build::{
    kernel::{
        self,
        debian::{self, Name, Stock},
        lacks, Changes, Extra, KernelImage, Variant, DEFAULT_BASE,
    },
    root::{self, System},
};
use paratick_core::{disk_device::DiskDevice, event::Events, mode::Mode};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};
use strum::IntoEnumIterator;

#[derive(Args, Clone)]
pub struct Kernels {
    /// The guests' kernel: a bzImage, `6.12` (with the series), `6.12-base` (without), or Debian's
    /// own, fetched and not built: `debian:6.1`, `debian:6.12-cloud`, `debian:7.3`,
    /// `debian:PACKAGE` or FILE.deb; one of `paratick kernel deb` has the series. Those that are
    /// built are PREEMPT_RT with `-rt`, or look for mistakes of their own with `-debug`, have a
    /// driver of NVMe disks with `-nvme`, and of network cards with `-net`, and tick 1000 times a
    /// second with `-hz1000`, in this order
    #[arg(long, value_name = "KERNEL", default_value = DEFAULT_BASE)]
    pub kernel: KernelName,
    /// The host's kernel [default: the guests']
    #[arg(long, value_name = "KERNEL")]
    pub host_kernel: Option<KernelName>,
}

impl Kernels {
    /// Without the series some modes would silently be `tickless`.
    pub fn check<'a>(&self, modes: impl IntoIterator<Item = &'a Mode>) -> Result<()> {
        let is_packaged = self.kernel.is_packaged();
        let missing = |mode: &&Mode| match (mode.needs(), is_packaged) {
            (needed, true) => needed == Some(LAB) || mode.undoes_series(),
            (needed, false) => needed.is_some() && self.kernel.has_no_series(),
        };
        match modes.into_iter().find(missing) {
            Some(mode) if is_packaged => Err(usage(format!(
                "kernel {} has no mode {mode}: it has no patches of the lab's own\n\
                 hint: name a kernel that the lab builds, such as --kernel {DEFAULT_BASE}",
                self.kernel
            ))),
            Some(mode) => Err(usage(format!(
                "kernel {} has no mode {mode}\n\
                 hint: choose periodic or tickless, or name a kernel with the series, such as \
                 --kernel {DEFAULT_BASE}",
                self.kernel
            ))),
            None => Ok(()),
        }
    }

    /// The same, and the guests' has the driver of their disk where the lab builds it.
    pub fn for_disk(&self, device: DiskDevice) -> Result<Kernels> {
        let mut kernels = self.clone();
        if device == DiskDevice::Nvme {
            let what = format!("--disk-device {device}");
            kernels.kernel.add(Extra::Nvme, &what, "--kernel")?;
        }
        Ok(kernels)
    }

    /// The same, and both have what guests need to talk to each other, where the lab builds them.
    pub fn for_network(&self) -> Result<Kernels> {
        let mut kernels = self.clone();
        kernels.kernel.add(Extra::Net, "a network", "--kernel")?;
        if let Some(kernel) = &mut kernels.host_kernel {
            kernel.add(Extra::Net, "a network", "--host-kernel")?;
        }
        Ok(kernels)
    }

    /// The guests' and the host's, built where they must be; `system` is what the guests boot, if
    /// not the machine's files.
    pub fn ensure(&self, system: Option<&System>, events: Events) -> Result<(Kernel, Kernel)> {
        let (mut guests, host) = self.both(|name| name.ensure(events))?;
        if !debian::shares_files(&guests.image) {
            guests.root_disk = Some(root::disk(system, events)?);
        }
        Ok((guests, host))
    }

    /// The same for a dry run: nothing is built.
    pub fn built(&self, system: Option<&System>, events: Events) -> Result<(Kernel, Kernel)> {
        let (mut guests, host) = self.both(|name| match name.built(events)? {
            Some(kernel) => Ok(kernel),
            None => Err(usage(format!(
                "a dry run builds no kernel, and {name} is not built\n\
                 hint: {}, once; or name a bzImage",
                name.how()
            ))),
        })?;
        if !debian::shares_files(&guests.image) {
            guests.root_disk = Some(root::built_disk(system)?);
        }
        Ok((guests, host))
    }

    fn both(
        &self,
        mut find: impl FnMut(&KernelName) -> Result<Kernel>,
    ) -> Result<(Kernel, Kernel)> {
        let guests = find(&self.kernel)?;
        let (host, name) = match &self.host_kernel {
            Some(name) if *name != self.kernel => (find(name)?, name),
            _ => (guests.clone(), &self.kernel),
        };
        if !debian::shares_files(&host.image) {
            return Err(usage(format!(
                "kernel {name} cannot be the host's: it has no 9p, over which hosts have their \
                 files\n\
                 hint: name another, such as --host-kernel {DEFAULT_BASE}"
            )));
        }
        Ok((guests, host))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelName {
    Image(PathBuf),
    /// One that the lab builds.
    Built(Built),
    /// Debian's own.
    Debian(Stock),
}

/// Written as the base's name, such as `6.12`, and then `-base` where it is without the series, the
/// names of what it has more, such as `-rt`, and `-hz1000` where a rate of its tick is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    base: String,
    variant: Variant,
    extras: BTreeSet<Extra>,
    hz: Option<u32>,
}

impl FromStr for KernelName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let path = Path::new(name);
        let is_package = path.extension().is_some_and(|extension| extension == "deb");
        let refused = |why: String| {
            format!(
                "{why}\n\
                 hint: name a bzImage, or a base such as {DEFAULT_BASE} that the lab builds \
                 (`paratick kernel build`)"
            )
        };
        if path.is_file() {
            let path = path.canonicalize().map_err(|error| error.to_string())?;
            if is_package {
                return Ok(KernelName::Debian(Stock::File(path)));
            }
            return match kernel::is_bzimage(&path) {
                Ok(true) => Ok(KernelName::Image(path)),
                Ok(false) => Err(refused("this file is no bzImage".into())),
                Err(error) => Err(refused(error.to_string())),
            };
        }
        if let Some(name) = name.strip_prefix(debian::PREFIX) {
            return Ok(KernelName::Debian(Stock::Named(name.parse()?)));
        }
        if name.contains('/') || is_package {
            return Err(refused("no such file".into()));
        }
        if let Some(series) = name.strip_suffix("-debian") {
            return Ok(KernelName::Debian(Stock::Named(Name::Series(series.into()))));
        }
        name.parse().map(KernelName::Built)
    }
}

impl FromStr for Built {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (name, hz) = match name.rsplit_once(HZ) {
            Some((name, hz)) => (name, Some(hz.parse().map_err(|_| NO_NAME)?)),
            None => (name, None),
        };
        let mut name = name;
        let mut extras = BTreeSet::new();
        for extra in Extra::iter().rev() {
            if let Some(shorter) = name.strip_suffix(&format!("-{extra}")) {
                name = shorter;
                extras.insert(extra);
            }
        }
        if extras.contains(&Extra::Rt) && extras.contains(&Extra::Debug) {
            return Err("a kernel is either -rt or -debug\nhint: leave one of them".into());
        }
        let (base, variant) = match name.strip_suffix(UNPATCHED) {
            Some(base) => (base, Variant::Unpatched),
            None => (name, Variant::Patched),
        };
        // Known bases are in the checkout; of what cannot be one, the rest is in a wrong order.
        if base.is_empty() || !base.chars().all(|one| one.is_ascii_digit() || one == '.') {
            return Err(NO_NAME.into());
        }
        Ok(Built { base: base.into(), variant, extras, hz })
    }
}

/// The series that is never mailed, nor in packages.
const LAB: &str = "lab";
/// What a base's name ends in where the series is not wanted.
const UNPATCHED: &str = "-base";
/// What comes before the rate of the tick.
const HZ: &str = "-hz";
const NO_NAME: &str = "no kernel has this name\n\
    hint: after the base, such as 6.12, write in this order what is wanted of -base, -rt or \
    -debug, -nvme, -net and -hz1000";

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelName::Image(path) => path.display().fmt(f),
            KernelName::Debian(stock) => stock.fmt(f),
            KernelName::Built(Built { base, variant, extras, hz }) => {
                f.write_str(base)?;
                if *variant == Variant::Unpatched {
                    f.write_str(UNPATCHED)?;
                }
                extras.iter().try_for_each(|extra| write!(f, "-{extra}"))?;
                hz.map_or(Ok(()), |hz| write!(f, "{HZ}{hz}"))
            }
        }
    }
}

impl KernelName {
    /// Whether it is known to have none, unless it is packaged.
    fn has_no_series(&self) -> bool {
        match self {
            KernelName::Image(_) => false,
            KernelName::Built(built) => built.variant == Variant::Unpatched,
            KernelName::Debian(_) => true,
        }
    }

    /// Whether it is of `paratick kernel deb`: it has every series but the lab's.
    fn is_packaged(&self) -> bool {
        match self {
            KernelName::Image(file) => kernel::is_packaged(file),
            KernelName::Debian(Stock::File(file)) => debian::has_series(file),
            _ => false,
        }
    }

    /// Gives the kernel that `option` names this, for which `what` was asked, where the lab builds
    /// it.  Of another's image only the guest can say what it has, and is asked.
    fn add(&mut self, extra: Extra, what: &str, option: &str) -> Result<()> {
        match self {
            KernelName::Image(_) => {}
            KernelName::Built(built) => {
                built.extras.insert(extra);
            }
            KernelName::Debian(stock) => {
                return Err(usage(format!(
                    "{what} is not for kernel {stock}: the lab does not load the modules that it \
                     needs\n\
                     hint: name a kernel that the lab builds, such as {option} {DEFAULT_BASE}"
                )))
            }
        }
        Ok(())
    }

    pub fn ensure(&self, events: Events) -> Result<Kernel> {
        let built = match self {
            KernelName::Image(image) => return taken(image),
            KernelName::Debian(stock) => debian::ensure(stock, events)?,
            KernelName::Built(built) => {
                kernel::ensure_changed(&built.base, built.variant, &built.changes(), events)?
            }
        };
        Ok(kept(built))
    }

    /// None where it is not built yet.
    fn built(&self, events: Events) -> Result<Option<Kernel>> {
        let built = match self {
            KernelName::Image(image) => return taken(image).map(Some),
            KernelName::Debian(stock) => debian::built(stock, events)?,
            KernelName::Built(built) => {
                kernel::built(&built.base, built.variant, &built.changes(), events)?
            }
        };
        Ok(built.map(kept))
    }

    /// What brings it into the cache.
    fn how(&self) -> String {
        let KernelName::Built(Built { base, variant, extras, hz }) = self else {
            return format!(
                "`paratick lab run --kernel {self} --mode tickless -- true` fetches it"
            );
        };
        let mut command = format!("`paratick kernel build {base}");
        if *variant == Variant::Unpatched {
            command.push_str(" --base");
        }
        command.extend(extras.iter().map(|extra| format!(" --{extra}")));
        command + &hz.map_or(String::new(), |hz| format!(" --hz {hz}")) + "` builds it"
    }
}

impl Built {
    fn changes(&self) -> Changes {
        Changes { extras: self.extras.clone(), hz: self.hz, ..Changes::default() }
    }
}

/// An image of the user's; an error where its configuration says that it could not be used.
fn taken(image: &Path) -> Result<Kernel> {
    let config = config_of(image);
    if let Some((config, option)) = config.as_deref().and_then(|it| Some((it, lacks(image, it)?))) {
        return Err(usage(format!(
            "the kernel {} has no {option} built in, says {}\n\
             hint: the lab's devices and root need it; build a kernel with {option}=y, or name a \
             package of Debian's, such as --kernel debian:6.12: its modules are loaded",
            image.display(),
            config.display()
        )));
    }
    Ok(Kernel { config, image: image.into(), patches: None, root_disk: None })
}

/// One of the cache.
fn kept(image: KernelImage) -> Kernel {
    Kernel {
        image: image.bzimage,
        config: Some(image.config),
        patches: image.patches,
        root_disk: None,
    }
}

/// The configuration of an image, where it lies as the kernel's build or Debian's packages leave
/// it.
fn config_of(image: &Path) -> Option<PathBuf> {
    let folder = image.parent()?;
    let debian = image.file_name()?.to_str()?.replacen("vmlinuz-", "config-", 1);
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
        use {
            Extra::{Debug, Net, Nvme, Rt},
            Variant::{Patched, Unpatched},
        };
        let fast = Some(1000);
        for (name, variant, extras, hz) in [
            ("6.12", Patched, &[][..], None),
            ("6.12-base", Unpatched, &[], None),
            ("6.12-debug", Patched, &[Debug], None),
            ("6.12-rt", Patched, &[Rt], None),
            ("6.12-nvme", Patched, &[Nvme], None),
            ("6.12-nvme-net", Patched, &[Nvme, Net], None),
            ("6.12-rt-nvme-hz1000", Patched, &[Rt, Nvme], fast),
            ("6.12-base-rt-hz1000", Unpatched, &[Rt], fast),
            ("6.12-hz1000", Patched, &[], fast),
            ("6.12-base-debug-hz1000", Unpatched, &[Debug], fast),
        ] {
            let extras = extras.iter().copied().collect();
            let built = Built { base: "6.12".into(), variant, extras, hz };
            let parsed: KernelName = name.parse().unwrap();
            assert_eq!(parsed, KernelName::Built(built));
            assert_eq!(parsed.to_string(), name);
        }
        let debian: KernelName = "debian:6.12".parse().unwrap();
        assert_eq!(debian, KernelName::Debian(Stock::Named(Name::Series("6.12".into()))));
        assert!(debian.has_no_series() && debian.to_string() == "debian:6.12");
        assert_eq!("6.12-debian".parse().as_ref(), Ok(&debian));
        for name in ["debian:6.12-x", "debian:", "linux-image-6.12.deb"] {
            assert!(name.parse::<KernelName>().unwrap_err().contains("hint:"));
        }
        for name in ["6.12-hz", "6.12-hz1000-net", "6.12-net-nvme", "6.12-NET", "6.12-net-net", ""]
        {
            assert_eq!(name.parse::<KernelName>(), Err(NO_NAME.into()), "{name}");
        }
        assert!("6.12-rt-debug".parse::<KernelName>().unwrap_err().contains("either"));
        let error = "/no/such/bzImage".parse::<KernelName>().unwrap_err();
        assert!(error.contains("hint:"));
    }

    #[test]
    fn a_kernel_that_is_missing_is_made_by_a_command() {
        let how = |name: &str| name.parse::<KernelName>().unwrap().how();
        assert_eq!(how("6.12"), "`paratick kernel build 6.12` builds it");
        assert_eq!(
            how("6.12-base-rt-hz1000"),
            "`paratick kernel build 6.12 --base --rt --hz 1000` builds it"
        );
        assert_eq!(how("6.12-nvme"), "`paratick kernel build 6.12 --nvme` builds it");
        assert!(how("debian:6.12").contains("--kernel debian:6.12"));
    }

    #[test]
    fn a_kernel_of_the_lab_s_gets_the_driver_of_the_disk_and_one_of_debian_s_is_refused() {
        let with = |name: &str, device| {
            let kernels = Kernels { kernel: name.parse().unwrap(), host_kernel: None };
            kernels.for_disk(device).map(|kernels| kernels.kernel.to_string())
        };
        for (name, built) in [("6.12", "6.12-nvme"), ("6.12-nvme", "6.12-nvme")] {
            assert_eq!(with(name, DiskDevice::Nvme).unwrap(), built);
            assert_eq!(with(name, DiskDevice::VirtioBlk).unwrap(), name);
        }
        let error = with("debian:6.12", DiskDevice::Nvme).unwrap_err().to_string();
        assert!(error.contains("\nhint: ") && error.contains("--kernel 6.12"), "{error}");
        assert_eq!(with("debian:6.12", DiskDevice::VirtioBlk).unwrap(), "debian:6.12");
    }

    #[test]
    fn the_configuration_of_a_built_tree_is_found() {
        let tree = tempfile::tempdir().unwrap();
        let boot = tree.path().join("arch/x86/boot");
        std::fs::create_dir_all(&boot).unwrap();
        std::fs::write(boot.join("bzImage"), "x").unwrap();
        assert_eq!(config_of(&boot.join("bzImage")), None);
        std::fs::write(tree.path().join(".config"), "CONFIG_HZ=250\n").unwrap();
        assert_eq!(config_of(&boot.join("bzImage")), Some(tree.path().join(".config")));
    }
}
