// SPDX-License-Identifier: GPL-2.0-only
//! What a bzImage says of itself.

use crate::{initramfs::modules_of, kernel::deb::Flavour};
use std::{
    io::{self, Read},
    path::Path,
};

/// Its setup code, where the text is, is shorter than this.
const SETUP: u64 = 1 << 16;
/// The boot protocol's `kernel_version`: where the text begins, from [`SECTOR`] on.
const POINTER: usize = 0x20e;
const SECTOR: usize = 0x200;
/// Its marks: the boot flag at the end of the first sector, and the header's magic.
const MARKS: [(usize, &[u8]); 2] = [(0x1fe, &[0x55, 0xaa]), (0x202, b"HdrS")];

/// Whether a file is one; an error if it cannot be read.
pub fn is_bzimage(file: &Path) -> io::Result<bool> {
    let setup = setup_of(file)?;
    Ok(MARKS.iter().all(|(at, mark)| setup.get(*at..).is_some_and(|it| it.starts_with(mark))))
}

/// Whether its kernel is PREEMPT_RT; not, if it cannot be read.
pub fn is_realtime(bzimage: &Path) -> bool {
    text_of(bzimage).is_some_and(|text| text.contains(" PREEMPT_RT "))
}

/// Whether `paratick kernel deb` made it: it has the series that one would mail, and not the lab's.
pub fn is_packaged(bzimage: &Path) -> bool {
    let text = text_of(bzimage).unwrap_or_default();
    let release = text.split(' ').next().unwrap_or_default();
    Flavour::ALL.iter().any(|flavour| release.ends_with(flavour.suffix()))
}

/// Whether its first CPU waits for the others in a loop without PAUSE, as before Linux 6.5: where
/// CPUs run in turn, they never get theirs.
pub fn keeps_its_turn(bzimage: &Path) -> bool {
    let text = text_of(bzimage).unwrap_or_default();
    let mut numbers = text.split(['.', '-', '+', ' ']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|release| release < (6, 5))
}

fn text_of(bzimage: &Path) -> Option<String> {
    let setup = setup_of(bzimage).ok()?;
    version(&setup).map(|text| String::from_utf8_lossy(text).into_owned())
}

fn setup_of(bzimage: &Path) -> io::Result<Vec<u8>> {
    let mut setup = Vec::new();
    fs_err::File::open(bzimage)?.take(SETUP).read_to_end(&mut setup)?;
    Ok(setup)
}

/// What hosts and guests need before they can load a module.
const NEEDED: [&str; 4] =
    ["CONFIG_VIRTIO_PCI", "CONFIG_VIRTIO_CONSOLE", "CONFIG_NET_9P_VIRTIO", "CONFIG_9P_FS"];

/// The first option that an image of the lab's needs and this one's configuration denies; none
/// where modules lie beside it.
pub fn lacks(bzimage: &Path, config: &Path) -> Option<&'static str> {
    let text = fs_err::read_to_string(config).ok().filter(|_| modules_of(bzimage).is_none())?;
    let denied = |option: &&str| {
        let (module, none) = (format!("{option}=m"), format!("# {option} is not set"));
        text.lines().any(|line| line == module || line == none)
    };
    NEEDED.into_iter().find(denied)
}

/// What `uname -rv` says, and who built it.
fn version(setup: &[u8]) -> Option<&[u8]> {
    let pointer = setup.get(POINTER..POINTER + 2)?.try_into().ok()?;
    let text = setup.get(SECTOR + usize::from(u16::from_le_bytes(pointer))..)?;
    text.split(|&byte| byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_image_by_both_marks() {
        let mut bytes = vec![0; 0x206];
        let file = tempfile::NamedTempFile::new().unwrap();
        for (at, mark) in MARKS {
            assert!(!is_bzimage(file.path()).unwrap());
            bytes[at..][..mark.len()].copy_from_slice(mark);
            fs_err::write(file.path(), &bytes).unwrap();
        }
        assert!(is_bzimage(file.path()).unwrap());
        assert!(is_bzimage(Path::new("/no/such/bzImage")).is_err());
    }

    fn image(text: &str) -> tempfile::NamedTempFile {
        let mut bytes = vec![0; 0x3000];
        bytes[POINTER..][..2].copy_from_slice(&0x2000_u16.to_le_bytes());
        bytes[SECTOR + 0x2000..][..text.len()].copy_from_slice(text.as_bytes());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_configuration_says_what_an_image_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let [image, config] = ["bzImage", "config"].map(|name| folder.path().join(name));
        for (text, lacking) in [
            ("CONFIG_9P_FS=y\n", None),
            ("CONFIG_VIRTIO_PCI=m\nCONFIG_9P_FS=y\n", Some("CONFIG_VIRTIO_PCI")),
            ("CONFIG_VIRTIO_PCI=y\n# CONFIG_9P_FS is not set\n", Some("CONFIG_9P_FS")),
        ] {
            fs_err::write(&config, text).unwrap();
            assert_eq!(lacks(&image, &config), lacking);
        }
        fs_err::write(folder.path().join(crate::initramfs::MODULES), "").unwrap();
        assert_eq!(lacks(&image, &config), None);
    }

    #[test]
    fn an_image_says_of_what_kind_it_is() {
        let version = |kind| format!("6.12.117 (paratick@lab) #1 SMP {kind} Thu Jan  1 00:00:00");
        assert!(is_realtime(image(&version("PREEMPT_RT")).path()));
        assert!(!is_realtime(image(&version("PREEMPT_DYNAMIC")).path()));
        assert!(!is_realtime(Path::new("/no/such/bzImage")));
        for (text, keeps) in [("6.1.0-56-amd64 (d", true), ("6.12.1+x (d", false), ("7.3 (", false)]
        {
            assert_eq!(keeps_its_turn(image(text).path()), keeps, "{text}");
        }
        for (text, packaged) in
            [("6.12.117-paratick-lab (d", true), ("6.12.117-paratick-rt (d", false), ("", false)]
        {
            assert_eq!(is_packaged(image(text).path()), packaged, "{text}");
        }
        let short = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(short.path(), "PREEMPT_RT").unwrap();
        assert!(!is_realtime(short.path()));
    }
}
