// SPDX-License-Identifier: GPL-2.0-only
//! An amount of memory or disk, written `512M` or `2G`.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A number of bytes; read from text, as many as a file can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
pub struct Size(pub u64);

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

impl Size {
    pub const fn mib(count: u64) -> Size {
        Size(count << 20)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Whole MiB, rounded up: what QEMU's `-m` takes.
    pub const fn in_mib(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl std::ops::Add for Size {
    type Output = Size;

    fn add(self, other: Size) -> Size {
        Size(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Size {
    /// The largest unit that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().rev().find(|(_, shift)| self.0 != 0 && self.0 % (1 << shift) == 0);
        match exact {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a size\n\
     hint: write a whole number with K, M, G or T, such as 512M or 2G; 8388607T is the most"
)]
pub struct BadSize(pub String);

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadSize(text.to_string());
        let upper = text.trim().to_ascii_uppercase();
        let bare = upper.strip_suffix("IB").unwrap_or(&upper);
        let unit = UNITS.iter().find(|(unit, _)| bare.ends_with(*unit));
        let (digits, shift) = match unit {
            Some((unit, shift)) => (bare.trim_end_matches(*unit), *shift),
            None => (bare, 0),
        };
        let count: u64 = digits.parse().map_err(|_| bad())?;
        match count.checked_mul(1 << shift) {
            Some(bytes) if bytes > 0 && i64::try_from(bytes).is_ok() => Ok(Size(bytes)),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        assert_eq!("512M".parse(), Ok(Size::mib(512)));
        assert_eq!("2g".parse(), Ok(Size::mib(2048)));
        assert_eq!("4GiB".parse(), Ok(Size::mib(4096)));
        assert_eq!("4096".parse(), Ok(Size(4096)));
        assert_eq!("8388607T".parse(), Ok(Size(8388607 << 40)));
    }

    #[test]
    fn what_is_not_a_size_is_named() {
        for text in ["", "M", "0", "-1G", "1.5G", "1X", "8388608T", "99999999T"] {
            assert_eq!(text.parse::<Size>(), Err(BadSize(text.into())));
        }
    }

    proptest! {
        #[test]
        fn a_size_reads_back_as_it_is_written(bytes in 1..=i64::MAX as u64) {
            let size = Size(bytes);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
