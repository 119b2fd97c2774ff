// SPDX-License-Identifier: GPL-2.0-only
//! The entries of BPF maps, by a system call for thousands of them instead of two for each.

use anyhow::{Context, Result};
use aya::{
    maps::{Array, HashMap, Map, MapData},
    Ebpf, Pod,
};
use std::{
    io,
    mem::size_of,
    os::fd::{AsFd, AsRawFd},
};

/// A call.  A bucket that has more is an error; on average one has less than 1.
const MOST: u32 = 1024;

/// Of `enum bpf_cmd`.
const MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The part of `union bpf_attr` for it (linux/bpf.h).
#[repr(C)]
struct Batch {
    from: u64,
    next: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    flags: [u64; 2],
}

/// What a hash map has all the while is in it once; what comes or goes meanwhile may be.
pub fn entries<K: Pod, V: Pod>(ebpf: &Ebpf, name: &str) -> Result<Vec<(K, V)>> {
    let map = ebpf.map(name).with_context(|| format!("no BPF map {name}"))?;
    // Their sizes are these.
    HashMap::<_, K, V>::try_from(map)?;
    let Map::HashMap(data) = map else { unreachable!("it is a hash map") };
    let mut entries = Vec::new();
    batches(data, name, usize::MAX, &mut |keys: &[K], values: &[V]| {
        entries.extend(keys.iter().copied().zip(values.iter().copied()));
    })?;
    Ok(entries)
}

/// Calls `see` with the first elements of an array, some at a time, and the place of the first of
/// these: at least so many in all, if it has them.
pub fn elements<V: Pod>(
    ebpf: &Ebpf,
    name: &str,
    least: u32,
    mut see: impl FnMut(usize, &[V]),
) -> Result<()> {
    let map = ebpf.map(name).with_context(|| format!("no BPF map {name}"))?;
    Array::<_, V>::try_from(map)?;
    let Map::Array(data) = map else { unreachable!("it is an array") };
    let mut place = 0;
    batches(data, name, least as usize, &mut |_: &[u32], values: &[V]| {
        see(place, values);
        place += values.len();
    })
}

fn batches<K: Pod, V: Pod>(
    data: &MapData,
    name: &str,
    least: usize,
    see: &mut dyn FnMut(&[K], &[V]),
) -> Result<()> {
    let map = data.fd().as_fd().as_raw_fd() as u32;
    let mut keys = Vec::<K>::with_capacity(MOST as usize);
    let mut values = Vec::<V>::with_capacity(MOST as usize);
    let (mut seen, mut place, mut from) = (0, 0_u32, 0);
    loop {
        keys.clear();
        values.clear();
        let mut batch = Batch {
            from,
            next: &raw mut place as u64,
            keys: keys.spare_capacity_mut().as_mut_ptr() as u64,
            values: values.spare_capacity_mut().as_mut_ptr() as u64,
            count: MOST,
            map,
            flags: [0; 2],
        };
        // SAFETY: there is room for so many keys and values, and the kernel says how many it wrote.
        let (is_last, error) = unsafe {
            let (attr, size) = (&raw mut batch, size_of::<Batch>());
            let result = libc::syscall(libc::SYS_bpf, MAP_LOOKUP_BATCH, attr, size);
            let error = (result != 0).then(io::Error::last_os_error);
            let is_last = error.as_ref().and_then(io::Error::raw_os_error) == Some(libc::ENOENT);
            if is_last || error.is_none() {
                keys.set_len(batch.count as usize);
                values.set_len(batch.count as usize);
            }
            (is_last, error)
        };
        if let Some(error) = error.filter(|_| !is_last) {
            return Err(error).with_context(|| format!("cannot read the BPF map {name}"));
        }
        see(&keys, &values);
        seen += keys.len();
        if is_last || seen >= least {
            return Ok(());
        }
        from = &raw const place as u64;
    }
}
