// SPDX-License-Identifier: GPL-2.0-only
//! What every instrument offers.

use anyhow::Result;
use serde::{de::DeserializeOwned, Serialize};

/// Reads something from its start until it is dropped, which leaves the kernel as it was.
///
/// An error of its start names what of the kernel is missing, with a hint.
pub trait Instrument: Send + Sized + 'static {
    /// As the machine asks for it.
    const NAME: &'static str;
    type Reading: Serialize + DeserializeOwned;

    fn start() -> Result<Self>;

    /// Begins anew: what was read before is forgotten.
    fn restart(self) -> Result<Self> {
        drop(self);
        Self::start()
    }

    /// What there was since the start.
    fn read(&mut self) -> Result<Self::Reading>;
}
