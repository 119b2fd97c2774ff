// SPDX-License-Identifier: GPL-2.0-only
//! What fio (3.33) says at its end of the one job of a run.

/// For how long the job ran, in whole ms as fio has it: its throughput is its bytes by this; and
/// the mean latency of a block in ns.  None: no fio wrote this.
pub fn told(output: &str) -> Option<[(&'static str, f64); 2]> {
    let (job, group) = output.rsplit_once("Run status group 0 (all jobs):")?;
    let (_, run) = group.split_once(" run=")?;
    let ms = run.split_once('-')?.0.parse().ok()?;
    let (_, latency) =
        job.lines().find_map(|line| line.trim().split_once("lat (").filter(is_mean))?;
    let (unit, figures) = latency.split_once("):")?;
    let in_ns = match unit {
        "nsec" => 1.0,
        "usec" => 1e3,
        "msec" => 1e6,
        _ => return None,
    };
    let average: f64 = figures.split_once("avg=")?.1.split_once(',')?.0.trim().parse().ok()?;
    Some([("fio_run_ms", ms), ("fio_latency_ns", average * in_ns)])
}

/// Neither the part after the submission (`clat`), nor the list of shares that follows.
fn is_mean((before, after): &(&str, &str)) -> bool {
    before.is_empty() && after.contains("avg=")
}

#[cfg(test)]
mod tests {
    use super::told;

    const WROTE: &str = "\
seqr-4k: (groupid=0, jobs=1): err= 0: pid=81: Sat Nov 28 17:10:53 2026
  read: IOPS=5434, BW=21.2MiB/s (22.3MB/s)(4000KiB/184msec)
    clat (usec): min=37, max=5629, avg=182.25, stdev=453.94
     lat (usec): min=37, max=5629, avg=182.40, stdev=453.96
    clat percentiles (usec):
     |  1.00th=[   55],  5.00th=[   69], 10.00th=[   72], 20.00th=[   76]
  lat (usec)   : 50=0.20%, 100=77.00%, 250=11.00%, 500=6.30%, 750=2.00%
  cpu          : usr=10.93%, sys=11.48%, ctx=1032, majf=0, minf=0

Run status group 0 (all jobs):
   READ: bw=21.2MiB/s (22.3MB/s), 21.2MiB/s-21.2MiB/s (22.3MB/s-22.3MB/s), io=4000KiB (4096kB), \
run=184-184msec
";

    #[test]
    fn fio_says_how_long_its_job_ran_and_a_block_took() {
        assert_eq!(told(WROTE), Some([("fio_run_ms", 184.0), ("fio_latency_ns", 182_400.0)]));
        let slow = WROTE.replace("(usec): min=37, max=5629, avg=182.40", "(msec): avg=  1.5");
        assert_eq!(told(&slow).unwrap()[1].1, 1_500_000.0);
    }

    #[test]
    fn what_is_not_fios_has_none_of_these() {
        for text in ["", "lat (usec): avg=1, run=3-4msec", &WROTE.replace("lat (usec):", "lat:")] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
