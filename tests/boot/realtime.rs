// SPDX-License-Identifier: GPL-2.0-only
//! Kernels with PREEMPT_RT.

use crate::support::{host_for, sh, text};

#[test]
fn scratch() {
    let image = std::path::PathBuf::from(std::env::var_os("RT").unwrap());
    let host = host_for(image, 2, &[]);
    let result = host
        .exec(sh("dmesg | grep -i -B3 -A20 'kvm\\|svm\\|bug:\\|warn'; ls -l /dev/kvm"))
        .unwrap();
    println!("{}", text(&result.stdout));
}
