// SPDX-License-Identifier: GPL-2.0-only
//! Tables without a form of their own: rows that boot tests print (`row_of()` of
//! `tests/boot/support.rs`), and that `docs/evaluation/runs.py` makes.

use crate::{generated, swept};
use paratick_view::number::{decimal, range, whole, NARROW_SPACE};
use serde::Deserialize;
use serde_json::Value;

/// Each with the file that has its rows.
pub const TABLES: [(&str, &str); 25] = [
    ("applied", "applied"),
    ("balanced-after", "tests"),
    ("beside-hand-offs", "tests"),
    ("beside-sleeps", "tests"),
    ("counting", "tests"),
    ("deferring", "tests"),
    ("grouped", "grouped"),
    ("hardware-noise", "tests"),
    ("in-guest", "in-guest"),
    ("isolated-program", "tests"),
    ("kicks", "tests"),
    ("late-beside-a-task", "tests"),
    ("lateness", "tests"),
    ("pulls", "pulls"),
    ("rare", "rare"),
    ("recorded-cpuid", "tests"),
    ("recorded-exits", "tests"),
    ("rtla", "rtla"),
    ("slack", "tests"),
    ("slower-tick", "slower-tick"),
    ("stock-hardware", "tests"),
    ("two-on-a-pcpu", "tests"),
    ("wake-ups", "tests"),
    ("weights", "tests"),
    ("windows", "windows"),
];

#[derive(Deserialize)]
struct Row {
    table: String,
    /// Columns, each with its value, in order.
    cells: Vec<(String, Value)>,
}

fn number(n: f64) -> String {
    let said = if n.fract() == 0.0 || n.abs() >= 100.0 { whole(n) } else { decimal(n) };
    said.replace(NARROW_SPACE, " ")
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) => number(n.as_f64().expect("a number")),
        Value::Array(three) => {
            let three: Vec<f64> = three.iter().filter_map(Value::as_f64).collect();
            let [median, low, high] = three[..] else { panic!("{three:?}") };
            range(low, median, high, number)
        }
        other => panic!("{other}"),
    }
}

/// The table of this name, and where it comes from.
pub fn table(name: &str) -> Option<(&'static str, String)> {
    let (name, file) = TABLES.into_iter().find(|(known, _)| *known == name)?;
    let kept = swept::kept::<Row>(file);
    let rows: Vec<&Row> = kept.rest.rows.iter().filter(|row| row.table == name).collect();
    let first = rows.first().unwrap_or_else(|| panic!("{file}.json has no {name}"));
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let head = line(first.cells.iter().map(|(column, _)| column.clone()).collect());
    let head = format!("{head}\n|{}", "---|".repeat(first.cells.len()));
    let rows =
        rows.iter().map(|row| line(row.cells.iter().map(|(_, value)| said(value)).collect()));
    Some((name, kept.below(generated::table(&head, rows))))
}
