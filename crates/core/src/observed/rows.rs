// SPDX-License-Identifier: GPL-2.0-only
//! What was observed as lines for programs: each is of one VM, vCPU and kind.

use super::{Bound, Exits, Observed, Vm};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
pub struct Row<'a> {
    vm: &'a str,
    process: u32,
    ended: bool,
    seconds: f64,
    vcpu: u32,
    cause: &'static str,
    reason: &'a str,
    about: Option<&'a str>,
    exits: u64,
    /// None where no time passed.
    exits_per_second: Option<f64>,
    /// KVM, VMM and interrupts, as a share of one CPU.
    /// None of a recording that does not tell.
    cpu: Option<f64>,
    mean_ns: Option<u64>,
    /// The end of a bucket; none where the last one has no end.
    p99_at_most_ns: Option<u64>,
    /// None, as the next four, of a recording that does not tell.
    kvm_ns: Option<u64>,
    vmm_ns: Option<u64>,
    interrupts_ns: Option<u64>,
    blocked_ns: Option<u64>,
    steal_ns: Option<u64>,
    unplaced_ns: u64,
}

/// The columns of a CSV, in their order: the names of the fields.
const COLUMNS: [&str; 19] = [
    "vm",
    "process",
    "ended",
    "seconds",
    "vcpu",
    "cause",
    "reason",
    "about",
    "exits",
    "exits_per_second",
    "cpu",
    "mean_ns",
    "p99_at_most_ns",
    "kvm_ns",
    "vmm_ns",
    "interrupts_ns",
    "blocked_ns",
    "steal_ns",
    "unplaced_ns",
];

impl Row<'_> {
    fn of<'a>(vm: &'a Vm, Exits { vcpu, kind, spent }: &'a Exits) -> Row<'a> {
        let placed = |ns: u64| spent.is_placed().then_some(ns);
        Row {
            vm: &vm.name,
            process: vm.process,
            ended: vm.ended,
            seconds: vm.ns as f64 / 1e9,
            vcpu: *vcpu,
            cause: kind.cause.name(),
            reason: &kind.reason,
            about: kind.about.as_deref(),
            exits: spent.count,
            exits_per_second: (vm.ns > 0).then(|| vm.per_second(spent.count)),
            cpu: spent.is_placed().then(|| vm.share(spent.cpu_ns())),
            mean_ns: spent.mean_ns(),
            p99_at_most_ns: match spent.at_most(0.99) {
                Some(Bound::AtMost(ns)) => Some(ns),
                Some(Bound::Above(_)) | None => None,
            },
            kvm_ns: placed(spent.kvm_ns),
            vmm_ns: placed(spent.vmm_ns),
            interrupts_ns: placed(spent.interrupts_ns),
            blocked_ns: placed(spent.blocked_ns),
            steal_ns: placed(spent.steal_ns),
            unplaced_ns: spent.unplaced_ns.unwrap_or(0),
        }
    }
}

impl Observed {
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.vms.iter().flat_map(|vm| vm.exits.iter().map(|exits| Row::of(vm, exits)))
    }

    /// A JSON object for each row.
    pub fn jsonl(&self) -> serde_json::Result<String> {
        let line = |row| Ok(serde_json::to_string(&row)? + "\n");
        self.rows().map(line).collect()
    }

    /// With a head (RFC 4180).
    pub fn csv(&self) -> serde_json::Result<String> {
        let mut text = COLUMNS.join(",") + "\n";
        for row in self.rows() {
            let row = serde_json::to_value(row)?;
            let cells = COLUMNS.map(|name| cell(&row[name]));
            text += &(cells.join(",") + "\n");
        }
        Ok(text)
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::tests::{exits, observed, vm};

    #[test]
    fn every_field_has_a_column_and_commas_are_quoted() {
        let web = vm("a,\"b\"", 7, vec![exits(0, crate::cause::Cause::Arm, "TSC_DEADLINE", 20)]);
        let seen = observed(vec![web]);
        let row: Value = serde_json::from_str(seen.jsonl().unwrap().trim()).unwrap();
        let mut names: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns = COLUMNS.to_vec();
        names.sort_unstable();
        columns.sort_unstable();
        assert_eq!(names, columns);
        let csv = seen.csv().unwrap();
        let (head, line) = csv.split_once('\n').unwrap();
        assert!(head.starts_with("vm,process,"), "{head}");
        let begin = "\"a,\"\"b\"\"\",7,false,2.0,0,arm,msr_write,TSC_DEADLINE,20,10.0,";
        assert!(line.starts_with(begin), "{line}");
    }
}
