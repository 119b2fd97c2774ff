// SPDX-License-Identifier: GPL-2.0-only
//! Tables and numbers of `paratick model`.

use crate::bench::number::count;
use comfy_table::{presets, Cell, CellAlignment, Table};
use paratick_core::units::Nanos;

/// Fits a terminal of 110 columns.
const WIDTH: usize = 110;

pub fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head.iter().map(Cell::new));
    table
}

/// Numbers, from column `text` on, to the right; no padding at the left margin, none at line ends.
pub fn show(mut table: Table, text: usize) -> String {
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if number >= text {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.to_string();
    let lines: Vec<&str> = lines.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// A paragraph in lines of at most [`WIDTH`], further ones indented.
pub fn paragraph(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH {
            lines.push(format!("  {word}"));
        } else if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                *last += " ";
            }
            *last += word;
        }
    }
    lines.join("\n") + "\n"
}

/// `2 488 [1 995..2 981]`; the range is left away where there is none.
pub fn range(least: f64, likely: f64, most: f64) -> String {
    let (least, likely, most) = (whole(least), whole(likely), whole(most));
    match least == most {
        true => likely,
        false => format!("{likely} [{least}..{most}]"),
    }
}

/// Predictions are means: no half exits.
pub fn whole(exits: f64) -> String {
    count(exits.round())
}

/// A time given in seconds.
pub fn time(seconds: f64) -> String {
    Nanos((seconds * 1e9).round() as u64).to_string()
}

/// 1 if it is just that, else two digits.
pub fn share(share: f64) -> String {
    match share {
        0.0 | 1.0 => format!("{share}"),
        _ => format!("{share:.2}"),
    }
}
