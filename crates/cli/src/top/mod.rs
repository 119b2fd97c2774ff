// SPDX-License-Identifier: GPL-2.0-only
//! `--top`: the numbers of a question on a whole terminal, sorted, and a line opened into its own.

mod screen;

use paratick_view::{
    number::{count, decimal},
    table::plain,
};
use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind},
    layout::{Constraint, Layout},
    style::{Modifier, Style},
    text::Line as Text,
    widgets::{Cell, Row, Table, TableState},
    Frame,
};
pub use screen::{windows, Ended, Screen, EVERY};

/// What a question has to show.
pub trait Pages {
    /// Keys that sort, and their words: by the numbers of [`Line::ranks`], and at last by cells.
    const SORTS: &'static [(char, &'static str)];

    /// All, or what is in the line of this key; none if there is no such line any more.
    fn page(&self, open: Option<&str>) -> Option<Page>;
}

#[derive(Clone)]
pub struct Page {
    pub head: String,
    pub columns: &'static [Column],
    pub lines: Vec<Line>,
    /// Whether these lines can be opened.
    pub opens: bool,
}

/// A heading, how wide its column is, and whether it has words.
pub type Column = (&'static str, Constraint, bool);

#[derive(Clone)]
pub struct Line {
    /// Of no other line on this page, now or later.
    pub key: String,
    pub ranks: Vec<u64>,
    pub cells: Vec<String>,
    pub dim: bool,
}

pub struct Top<P> {
    pub pages: P,
    /// Which of the sorts.
    sort: usize,
    /// The line whose own are shown.
    open: Option<String>,
    /// The line that is marked, wherever sorting puts it; none: the first.
    marked: Option<String>,
}

impl<P: Pages> Top<P> {
    pub fn of(pages: P) -> Top<P> {
        Top { pages, sort: 0, open: None, marked: None }
    }

    pub fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-10),
            KeyCode::PageDown => self.go(10),
            KeyCode::Enter | KeyCode::Right => {
                let (page, at) = self.page();
                if page.opens {
                    self.open = page.lines.into_iter().nth(at).map(|line| line.key);
                    self.marked = None;
                }
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.marked = self.open.take(),
            KeyCode::Char(letter) => {
                let sort = P::SORTS.iter().position(|(key, _)| *key == letter);
                self.sort = sort.unwrap_or(self.sort);
            }
            _ => {}
        }
    }

    fn go(&mut self, by: isize) {
        let (page, at) = self.page();
        let last = page.lines.len().saturating_sub(1);
        let to = at.saturating_add_signed(by).min(last);
        self.marked = page.lines.into_iter().nth(to).map(|line| line.key);
    }

    fn opened(&self) -> Option<Page> {
        self.pages.page(Some(self.open.as_ref()?))
    }

    /// Its lines sorted, and which of them is marked.
    pub fn page(&self) -> (Page, usize) {
        let page = self.opened().or_else(|| self.pages.page(None));
        let mut page = page.expect("there is a page of all");
        let rank = |line: &Line| line.ranks.get(self.sort).copied();
        page.lines.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.cells.cmp(&b.cells)));
        let at = page.lines.iter().position(|line| Some(&line.key) == self.marked.as_ref());
        (page, at.unwrap_or(0))
    }

    pub fn draw(&self, frame: &mut Frame) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
                .areas(frame.area());
        let (page, at) = self.page();
        frame.render_widget(Text::from(plain(&page.head)).style(Modifier::BOLD), head);
        let rows = page.lines.iter().map(|line| {
            let cells = line.cells.iter().zip(page.columns);
            let row = Row::new(cells.map(|(text, column)| cell(plain(text), column)));
            if line.dim {
                row.style(Modifier::DIM)
            } else {
                row
            }
        });
        let headings = page.columns.iter().map(|column| cell(column.0.into(), column));
        let table = Table::new(rows, page.columns.iter().map(|column| column.1))
            .header(Row::new(headings).style(Modifier::UNDERLINED))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected((!page.lines.is_empty()).then_some(at));
        frame.render_stateful_widget(table, body, &mut state);
        frame.render_widget(Text::from(self.foot(page.opens)), foot);
    }

    fn foot(&self, opens: bool) -> String {
        let sorts = P::SORTS.iter().enumerate().map(|(number, (_, words))| {
            if number == self.sort {
                format!("[{words}]")
            } else {
                words.to_string()
            }
        });
        let keys = match (self.opened().is_some(), opens) {
            (true, _) => "Esc closes  ",
            (false, true) => "Enter opens  ",
            (false, false) => "",
        };
        format!("q quits  up/down  {keys}sort: {}", sorts.collect::<Vec<_>>().join(" "))
    }
}

/// So often in so many ns, for each second.
pub fn per_second(times: u64, ns: u64) -> String {
    decimal(times as f64 / (ns.max(1) as f64 / 1e9))
}

/// In percent of one CPU.
pub fn percent(part: u64, ns: u64) -> String {
    decimal(part as f64 / ns.max(1) as f64 * 100.0)
}

/// That so many are missing, for the end of a head.
pub fn lost(number: u64) -> String {
    if number == 0 {
        return String::new();
    }
    format!("   LOST {}", count(number as f64))
}

fn cell(text: String, column: &Column) -> Cell<'static> {
    let line = Text::from(text);
    Cell::from(if column.2 { line } else { line.right_aligned() })
}

#[cfg(test)]
pub mod test {
    use super::*;
    use ratatui::{backend::TestBackend, Terminal};

    /// What a terminal of this size shows.
    pub fn screen<P: Pages>(top: &Top<P>, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| top.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    pub fn press<P: Pages>(top: &mut Top<P>, keys: &[KeyCode]) {
        keys.iter().for_each(|key| top.press((*key).into()));
    }

    /// What is recorded in a file of the tests of the command.
    pub fn recorded<T: serde::de::DeserializeOwned>(file: &str) -> T {
        let file = format!("{}/../../tests/cli/{file}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }
}
