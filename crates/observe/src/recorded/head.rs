// SPDX-License-Identifier: GPL-2.0-only
//! What a perf.data begins with (tools/perf/Documentation/perf.data-file-format.txt).

use anyhow::{bail, Result};
use std::io::{Read, Seek, SeekFrom};

/// Of `struct perf_file_header`.
const HEAD: usize = 104;
/// … of one that was written to a pipe.
const PIPE_HEAD: u64 = 16;
/// Offset and size.
const SECTION: u64 = 16;

/// Whether it is one, and all that its head names is in it: whoever reads it makes room for what it
/// says.
pub fn check(file: &mut (impl Read + Seek)) -> Result<()> {
    let end = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut head = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut head)?;
    let number = |at: usize| {
        let bytes = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    match head.get(..8) {
        _ if end == 0 => bail!("it is empty"),
        Some(b"PERFILE2") => {}
        Some(b"2ELIFREP") => bail!("it is of a big-endian machine, and so not of x86"),
        Some(magic) if magic.starts_with(b"\x17\x08\x44trac") => {
            bail!("trace-cmd's files cannot be read, perf's can")
        }
        _ if head.starts_with(b"{") => bail!(
            "it is JSON, and no perf.data\n\
             hint: what `paratick exits --save FILE` wrote is for `paratick exits --compare FILE`"
        ),
        _ => bail!("it is no perf.data"),
    }
    if number(8) == PIPE_HEAD {
        bail!("it was written to a pipe, and its records have no order");
    }
    if head.len() < HEAD {
        bail!("it ends within its head");
    }
    let [attributes, data, types] = [24, 40, 56].map(|at| (number(at), number(at + 8)));
    if data.1 == 0 {
        bail!("perf was killed while it wrote it, or recorded nothing: it has no data");
    }
    let is_inside = |(at, size): (u64, u64)| at.checked_add(size).is_some_and(|to| to <= end);
    let features: u64 = (72..HEAD).step_by(8).map(|at| u64::from(number(at).count_ones())).sum();
    let table = (data.0.saturating_add(data.1), features * SECTION);
    let mut inside = [attributes, data, types, table].into_iter().all(is_inside);
    if inside {
        let mut sections = Vec::new();
        file.seek(SeekFrom::Start(table.0))?;
        file.take(table.1).read_to_end(&mut sections)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let section = |both: &[u8]| (number(&both[..8]), number(&both[8..]));
        inside = sections.chunks_exact(SECTION as usize).map(section).all(is_inside);
    }
    if !inside {
        bail!("it is only a part: its head names more than is in it");
    }
    file.rewind()?;
    Ok(())
}
