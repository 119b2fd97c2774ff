// SPDX-License-Identifier: GPL-2.0-only
//! What redis-benchmark (7.0, with `-q`) says at its end.

/// The mean time from one response to the next, in ns: over one connection that of a request.
/// None: no redis-benchmark wrote this.
pub fn told(output: &str) -> Option<(&'static str, f64)> {
    let (before, after) = output.rsplit_once(" requests per second")?;
    // It tells of its progress on the same line, in other words.
    let rate: f64 =
        after.starts_with(", p50=").then(|| before.rsplit(' ').next())??.parse().ok()?;
    (rate > 0.0).then_some(("redis_request_ns", 1e9 / rate))
}

#[cfg(test)]
mod tests {
    use super::told;

    const WROTE: &str = "PING_MBULK: rps=0.0 (overall: nan) avg_msec=nan (overall: nan)\r\
                         PING_MBULK: 12500.00 requests per second, p50=0.079 msec\n";

    #[test]
    fn redis_says_how_many_requests_it_did_in_a_second() {
        assert_eq!(told(WROTE), Some(("redis_request_ns", 80_000.0)));
        for text in ["", " requests per second", "x: 0.00 requests per second, p50=1"] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
