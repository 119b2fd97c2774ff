// SPDX-License-Identifier: GPL-2.0-only
//! Brings up the loopback interface: many programs talk to themselves.

use std::io;

pub fn up() -> io::Result<()> {
    // SAFETY: plain system calls on a structure that lives here; all-zero is a valid ifreq.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if result < 0 {
            return Err(error);
        }
        Ok(())
    }
}
