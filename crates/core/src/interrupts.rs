// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel itself says of its interrupts: /proc/interrupts, and their sum in /proc/stat.

use std::collections::BTreeMap;

/// Counts of all CPUs, by the names at the beginning of lines: `LOC`, `24`, ….
pub type Interrupts = BTreeMap<String, u64>;

/// The name under which the sum is kept, as vmstat(8) shows it.
pub const SUM: &str = "intr";

/// Of the texts of both files; none where one of them is not what it should be.
pub fn parse(interrupts: &str, stat: &str) -> Option<Interrupts> {
    let mut lines = interrupts.lines();
    let cpus = lines.next()?.split_ascii_whitespace().count();
    let mut counts: Interrupts = lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let each = rest.split_ascii_whitespace().take(cpus);
            let each = each.map_while(|word| word.parse::<u64>().ok());
            Some((name.trim().to_string(), each.sum()))
        })
        .collect();
    let sum = stat.lines().find_map(|line| line.strip_prefix("intr "))?;
    counts.insert(SUM.into(), sum.split_ascii_whitespace().next()?.parse().ok()?);
    Some(counts)
}

/// Those that came since `before`; none of 0.
pub fn since(after: &Interrupts, before: &Interrupts) -> Interrupts {
    let came = after.iter().map(|(name, count)| {
        let had = before.get(name).copied().unwrap_or(0);
        (name.clone(), count.saturating_sub(had))
    });
    came.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "            CPU0       CPU1
   0:          5          0   IO-APIC   2-edge      timer
 LOC:        100         20   Local timer interrupts
 ERR:          3
";
    const STAT: &str = "cpu  1 2\nintr 130 5 0 0\nctxt 5\n";

    #[test]
    fn lines_add_up_over_cpus_and_words_are_no_counts() {
        let all = parse(INTERRUPTS, STAT).unwrap();
        let expected = [("0", 5), ("LOC", 120), ("ERR", 3), (SUM, 130)];
        assert_eq!(all, expected.map(|(name, count)| (name.to_string(), count)).into());
        assert_eq!(parse(INTERRUPTS, "cpu 1\n"), None);
        assert_eq!(parse("", STAT), None);
    }

    #[test]
    fn what_did_not_come_is_left_out() {
        let before = parse(INTERRUPTS, STAT).unwrap();
        let mut after = before.clone();
        *after.get_mut("LOC").unwrap() += 7;
        after.insert("VTK".into(), 2);
        let came = [("LOC", 7), ("VTK", 2)].map(|(name, count)| (name.to_string(), count));
        assert_eq!(since(&after, &before), came.into());
    }
}
