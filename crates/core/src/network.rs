// SPDX-License-Identifier: GPL-2.0-only
//! How guests on one host talk to each other.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Who moves packets between a guest's virtio-net device and its host's bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Network {
    /// A thread of the host's kernel, as with libvirt: a guest's notification ends in KVM.
    #[default]
    Vhost,
    /// QEMU itself.
    Qemu,
}

/// A guest's network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    pub network: Network,
    pub address: Ipv4Addr,
}

/// Of the guest that runs servers: the second.
pub const SERVER: Ipv4Addr = address(1);

/// Of the n-th guest of a bench, from 0.
pub const fn address(nth: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 75, 0, nth + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_written_as_it_is_read() {
        for network in [Network::Vhost, Network::Qemu] {
            assert_eq!(network.to_string().parse(), Ok(network));
            assert_eq!(serde_json::to_value(network).unwrap(), network.to_string());
        }
    }
}
