// SPDX-License-Identifier: GPL-2.0-only
//! Network interfaces: a guest's own, and on its host a bridge with a tap device for each guest.

use anyhow::{Context, Result};
use std::{
    fs::File,
    io,
    mem::size_of,
    net::Ipv4Addr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// How guests find theirs.
pub const CARD: &str = "eth0";
const BRIDGE: &str = "paratick";
const TUN: &str = "/dev/net/tun";

// What libc does not have: linux/if_tun.h, linux/sockios.h.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
const SIOCBRADDBR: libc::c_ulong = 0x89a0;
const SIOCBRADDIF: libc::c_ulong = 0x89a2;

/// Brings an interface up.
pub fn up(name: &str) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    control(&socket()?, libc::SIOCSIFFLAGS, &mut request)
}

/// Gives it an address, of a network of 256, and brings it up.
pub fn at(name: &str, address: Ipv4Addr) -> Result<()> {
    let socket = socket()?;
    let mask = Ipv4Addr::new(255, 255, 255, 0);
    for (what, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        let mut request = request(name);
        // SAFETY: both are plain structures of the same size, and the kernel reads the family
        // first.
        request.ifr_ifru.ifru_addr = unsafe {
            std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: u32::from(value).to_be() },
                sin_zero: [0; 8],
            })
        };
        control(&socket, what, &mut request)
            .with_context(|| format!("giving {name} the address {value}"))?;
    }
    up(name).with_context(|| format!("bringing up {name}"))
}

/// Makes a tap device that stays, on the bridge; the bridge comes with the first.
pub fn tap(name: &str) -> Result<()> {
    let socket = socket()?;
    match add_bridge(&socket) {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => {
            return Err(error).context("making a bridge")
        }
        _ => up(BRIDGE).context("bringing up the bridge")?,
    }
    let tun = File::options().read(true).write(true).open(TUN).with_context(|| TUN)?;
    let mut wanted = request(name);
    wanted.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    let made = control(&tun, TUNSETIFF, &mut wanted);
    // SAFETY: the request takes a number.
    let stays = made.and_then(|()| done(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETPERSIST, 1) }));
    stays.with_context(|| format!("making the tap device {name}"))?;
    let mut on_bridge = request(BRIDGE);
    let mut index = request(name);
    control(&socket, libc::SIOCGIFINDEX, &mut index)?;
    on_bridge.ifr_ifru = index.ifr_ifru;
    control(&socket, SIOCBRADDIF, &mut on_bridge)
        .with_context(|| format!("putting {name} on the bridge"))?;
    up(name).with_context(|| format!("bringing up {name}"))
}

fn add_bridge(socket: &OwnedFd) -> io::Result<()> {
    let mut request = request(BRIDGE);
    // The request is the name alone, which a request of interfaces begins with.
    control(socket, SIOCBRADDBR, &mut request)
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    done(socket)?;
    // SAFETY: it was just opened, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// About the interface of this name, which is short.
fn request(name: &str) -> libc::ifreq {
    assert!(name.len() < libc::IFNAMSIZ, "{name} is too long for an interface's name");
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    request
}

fn control(on: &impl AsRawFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    const { assert!(size_of::<libc::ifreq>() == 40) };
    // SAFETY: all requests of this file take an ifreq, or begin as one does, and read and write no
    // more than it has.
    done(unsafe { libc::ioctl(on.as_raw_fd(), what as _, request as *mut libc::ifreq) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
