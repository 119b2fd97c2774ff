// SPDX-License-Identifier: GPL-2.0-only
//! Which pCPU each vCPU runs on, and where the rest of a guest's QEMU runs.

/// Hands out pCPUs from 1: 0 is left to the host, its interrupts and QEMU's other threads.
/// A spinning vCPU must never sit on the pCPU of the vCPU it waits for: under emulation a pause
/// takes no time and that looks like a hang.
#[derive(Debug)]
pub struct Pins {
    cpus: u32,
    next: u32,
}

impl Pins {
    pub fn new(cpus: u32) -> Pins {
        Pins { cpus, next: 1 }
    }

    /// One pCPU per vCPU; guests share pCPUs only once all are taken.
    pub fn take(&mut self, vcpus: u32) -> Vec<u32> {
        (0..vcpus).map(|_| self.take_one()).collect()
    }

    fn take_one(&mut self) -> u32 {
        if self.cpus <= 1 {
            return 0;
        }
        let cpu = self.next;
        self.next = if cpu + 1 < self.cpus { cpu + 1 } else { 1 };
        cpu
    }
}

/// Where everything of a guest but its vCPUs runs.
pub fn housekeeping(cpus: u32, pins: &[u32]) -> Vec<u32> {
    let free: Vec<u32> = (0..cpus).filter(|cpu| !pins.contains(cpu)).collect();
    if free.is_empty() {
        (0..cpus).collect()
    } else {
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_get_pcpus_of_their_own_while_there_are_any() {
        let mut pins = Pins::new(5);
        assert_eq!(pins.take(2), [1, 2]);
        assert_eq!(pins.take(2), [3, 4]);
        assert_eq!(pins.take(1), [1]);
    }

    #[test]
    fn a_host_of_one_pcpu_shares_it() {
        assert_eq!(Pins::new(1).take(2), [0, 0]);
        assert_eq!(housekeeping(1, &[0]), [0]);
    }

    #[test]
    fn qemu_itself_stays_off_the_vcpus() {
        assert_eq!(housekeeping(3, &[1, 2]), [0]);
    }
}
