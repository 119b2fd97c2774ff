// SPDX-License-Identifier: GPL-2.0-only
//! Probes of functions: what the kernel still does to them some time after they were attached.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

const LIST: &str = "/sys/kernel/debug/kprobes/list";
const OPTIMIZATION: &str = "/proc/sys/debug/kprobes-optimization";
/// It waits for all tasks to have been preempted once (`kernel/kprobes.c`, `kprobe_optimizer()`).
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until a probe at the beginning of a function is what it will be.  It begins as a
/// breakpoint, and some seconds later the kernel makes a jump of it, for which it interrupts all
/// CPUs: exits of every vCPU.  Where the kernel does not tell, this waits for nothing.
pub fn settle(function: &str) {
    if !fs::read_to_string(OPTIMIZATION).is_ok_and(|on| on.trim() == "1") {
        return;
    }
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let Ok(list) = fs::read_to_string(LIST) else { return };
        if !is_to_change(&list, function) {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Whether the list has a probe there that may yet be made a jump.
fn is_to_change(list: &str, function: &str) -> bool {
    let place = format!("{function}+0x0");
    let its = |line: &&str| line.split_whitespace().any(|word| word == place);
    let settled = ["[OPTIMIZED]", "[FTRACE]", "[DISABLED]", "[GONE]"];
    let changes = |line: &str| !settled.iter().any(|state| line.contains(state));
    list.lines().filter(its).any(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_changes_until_it_is_a_jump_or_a_call() {
        let list = "\
            ffffffff81000010  k  kvm_arch_vcpu_ioctl_run+0x0    [OPTIMIZED]\n\
            ffffffff81000020  k  tick_nohz_irq_exit+0x0  \n\
            ffffffff81000020  r  tick_nohz_irq_exit+0x0  \n\
            ffffffff81000030  k  haltpoll_reflect+0x0    [FTRACE]\n\
            ffffffff81000040  k  haltpoll_select+0x4  \n";
        assert!(is_to_change(list, "tick_nohz_irq_exit"));
        for settled in ["kvm_arch_vcpu_ioctl_run", "haltpoll_reflect", "haltpoll_select", "other"] {
            assert!(!is_to_change(list, settled), "{settled}");
        }
    }
}
