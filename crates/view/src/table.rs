// SPDX-License-Identifier: GPL-2.0-only
//! A table as a value.  [`Table::text`] writes it for a terminal, page.html for a browser: both
//! have the same rows, columns and numbers.

use crate::number;
use comfy_table::{presets, CellAlignment};
use serde::Serialize;
use std::ops::RangeBounds;
use textwrap::{Options, WordSplitter};

/// Texts fit a terminal of so many columns; tables are as wide as they must be.
const WIDTH: usize = 110;

/// Captions and notes may have `code` in backquotes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    pub caption: String,
    /// The first heads the rows.
    columns: Vec<Column>,
    groups: Vec<Group>,
    /// What the cells mean, below the table.
    notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Column {
    name: String,
    /// To the left; numbers are to the right.
    words: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Group {
    /// Empty: rows without a heading of their own.
    title: String,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    head: String,
    cells: Vec<String>,
}

impl Table {
    /// All columns but the first are of numbers.
    pub fn new(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Table {
        let column =
            |(place, name): (usize, _)| Column { name: Into::into(name), words: place == 0 };
        Table {
            caption: caption.into(),
            columns: columns.into_iter().enumerate().map(column).collect(),
            ..Table::default()
        }
    }

    /// Columns of words, not numbers.
    pub fn words(mut self, columns: impl RangeBounds<usize>) -> Table {
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.words |= columns.contains(&place);
        }
        self
    }

    /// Begins a group of rows; one that gets none is not shown.
    pub fn group(&mut self, title: impl Into<String>) {
        self.groups.retain(|group| !group.rows.is_empty());
        let title = title.into();
        self.groups.push(Group { title, rows: Vec::new() });
    }

    pub fn row(&mut self, head: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        if self.groups.is_empty() {
            self.group("");
        }
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(Row { head: head.into(), cells: cells.into_iter().collect() });
        }
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.rows.is_empty())
    }

    /// Leaves out columns of numbers of which no row has one.
    pub fn without_empty_columns(mut self) -> Table {
        let rows = || self.groups.iter().flat_map(|group| &group.rows);
        let empty = |nth: usize| rows().all(|row| row.cells[nth] == number::NOTHING);
        let keep: Vec<bool> =
            (0..self.columns.len()).map(|place| place == 0 || !empty(place - 1)).collect();
        let mut kept = keep.iter();
        self.columns.retain(|_| kept.next() == Some(&true));
        for row in self.groups.iter_mut().flat_map(|group| &mut group.rows) {
            let mut kept = keep.iter().skip(1);
            row.cells.retain(|_| kept.next() == Some(&true));
        }
        self
    }

    /// For a terminal: the caption, the table, its notes.  Headings of groups may be wider than the
    /// first column.
    pub fn text(&self) -> String {
        let titled = self.groups.iter().any(|group| !group.title.is_empty());
        let mut lines = self.lines(if titled { "  " } else { "" }).into_iter();
        let mut text = wrap(&self.caption);
        let mut add = |line: Option<String>| text += &(line.unwrap_or_default() + "\n");
        if self.columns.iter().any(|column| !column.name.is_empty()) {
            add(lines.next());
        } else {
            lines.next();
        }
        let groups = self.groups.iter().filter(|group| !group.rows.is_empty());
        for (number, group) in groups.enumerate() {
            if titled && number > 0 {
                add(None);
            }
            if !group.title.is_empty() {
                add(Some(wrap(&group.title).trim_end().to_string()));
            }
            for _ in &group.rows {
                add(lines.next());
            }
        }
        for (number, note) in self.notes.iter().enumerate() {
            text += if number == 0 { "\n" } else { "" };
            text += &wrap(note);
        }
        text
    }

    /// The head and every row, aligned, without the spaces that pad them to a rectangle.
    fn lines(&self, indent: &str) -> Vec<String> {
        let mut grid = comfy_table::Table::new();
        grid.load_preset(presets::NOTHING);
        grid.set_header(self.columns.iter().map(|column| &column.name));
        for row in self.groups.iter().flat_map(|group| &group.rows) {
            let head = format!("{indent}{}", row.head);
            let cells = [&head].into_iter().chain(&row.cells);
            grid.add_row(cells.map(|cell| plain(cell).replace('\n', " ")));
        }
        for (column, shown) in self.columns.iter().zip(grid.column_iter_mut()) {
            shown.set_padding((0, 2));
            if !column.words {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        grid.lines().map(|line| line.trim_end().into()).collect()
    }
}

/// A paragraph in lines that fit a terminal, further ones indented; of nothing, nothing.
pub fn wrap(text: &str) -> String {
    let options = Options::new(WIDTH)
        .subsequent_indent("  ")
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    match text.is_empty() {
        true => String::new(),
        false => textwrap::fill(&plain(text), options) + "\n",
    }
}

/// With the spaces that a terminal knows.
pub fn plain(text: &str) -> String {
    let text = text.replace(number::NO_BREAK, "");
    text.replace([number::NARROW_SPACE, number::SPACE], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("A caption", ["Mode", "Exits", "Ticks", "Word"]).words(3..);
        let cells = |cells: [&str; 3]| cells.map(String::from);
        table.group("nothing in it");
        table.group("a group whose name is wider than the first column");
        table.row("tickless", cells(["1\u{202f}000", "–", "less"]));
        table.group("another");
        table.row("paratick", cells(["9", "–", "more than that"]));
        table.note("–: not measured.");
        table
    }

    #[test]
    fn text_is_aligned_in_groups() {
        insta::assert_snapshot!(table().text());
    }

    #[test]
    fn columns_without_a_number_can_be_left_out() {
        insta::assert_snapshot!(table().without_empty_columns().text());
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        let text = wrap(&"six-letter words ".repeat(20));
        for line in text.lines() {
            assert!(line.len() <= WIDTH && !line.ends_with(' '), "{line}");
        }
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")));
        assert_eq!(
            text.matches("six-letter words").count() + text.matches("six-letter\n").count(),
            20
        );
    }
}
