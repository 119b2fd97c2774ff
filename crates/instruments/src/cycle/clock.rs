// SPDX-License-Identifier: GPL-2.0-only
//! What a guest's time stamp counter is ahead of its host's, from KVM's debugfs.

use std::{fs, path::Path};

/// Where KVM has a folder for each guest, named by its process.
const GUESTS: &str = "/sys/kernel/debug/kvm";

/// Of a vCPU of the host's only guest.  None where that is not known, there are several guests, or
/// their clock runs at another rate.
pub fn guest_offset(vcpu: u32) -> Option<i64> {
    offset_in(Path::new(GUESTS), vcpu)
}

fn offset_in(guests: &Path, vcpu: u32) -> Option<i64> {
    let folders = fs::read_dir(guests).ok()?.flatten().map(|entry| entry.path());
    let mut guests: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    let guest = guests.pop().filter(|_| guests.is_empty())?.join(format!("vcpu{vcpu}"));
    let read = |name: &str| fs::read_to_string(guest.join(name)).ok()?.trim().parse::<i64>().ok();
    let is_scaled = match (read("tsc-scaling-ratio"), read("tsc-scaling-ratio-frac-bits")) {
        (Some(ratio), Some(bits)) => 1i64.checked_shl(bits as u32) != Some(ratio),
        // The processor cannot.
        _ => false,
    };
    read("tsc-offset").filter(|_| !is_scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clock_of_an_only_guest_that_runs_at_the_hosts_rate_is_known() {
        let root = std::env::temp_dir().join(format!("paratick-clock-{}", std::process::id()));
        let write = |guest: &str, name: &str, text: &str| {
            let vcpu = root.join(guest).join("vcpu0");
            fs::create_dir_all(&vcpu).unwrap();
            fs::write(vcpu.join(name), text).unwrap();
        };
        assert_eq!(offset_in(&root, 0), None);
        write("17-9", "tsc-offset", "-1234567\n");
        fs::write(root.join("halt_exits"), "5\n").unwrap();
        assert_eq!((offset_in(&root, 0), offset_in(&root, 1)), (Some(-1_234_567), None));
        write("17-9", "tsc-scaling-ratio-frac-bits", "32\n");
        write("17-9", "tsc-scaling-ratio", "4294967296\n");
        assert_eq!(offset_in(&root, 0), Some(-1_234_567));
        write("17-9", "tsc-scaling-ratio", "4294967297\n");
        assert_eq!(offset_in(&root, 0), None);
        write("17-9", "tsc-scaling-ratio", "4294967296\n");
        write("18-9", "tsc-offset", "0\n");
        assert_eq!(offset_in(&root, 0), None);
        fs::remove_dir_all(root).unwrap();
    }
}
