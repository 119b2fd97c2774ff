// SPDX-License-Identifier: GPL-2.0-only
//! What a page is made of, and making it HTML.

use crate::{
    svg::canvas::{escape, Size},
    table::Table,
};
use minijinja::{context, Environment, Value};
use serde::Serialize;

const TEMPLATE: &str = include_str!("page.html");
pub const STYLE: &str = include_str!("style.css");

#[derive(Debug, Serialize)]
pub struct Page {
    pub title: String,
    /// When and with what it was measured, in one line.
    pub subtitle: String,
    pub sections: Vec<Section>,
}

#[derive(Debug, Serialize)]
pub struct Section {
    pub id: String,
    pub title: String,
    pub blocks: Vec<Block>,
}

/// Texts may have `code` in backquotes; nothing else in them is markup.  A lead is larger: the
/// answer; what there is more is long, and closed until asked for.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Block {
    Heading { id: String, text: String },
    Text { text: String },
    Lead { text: String },
    List { items: Vec<String> },
    Command { text: String },
    Table { table: Table },
    More { summary: String, table: Table },
    Figure(Figure),
}

#[derive(Debug, Serialize)]
pub struct Figure {
    pub id: String,
    pub caption: String,
    /// One drawing for wide pages and paper, one for narrow pages; only one of them is shown.
    pub drawings: Vec<String>,
    pub table: Table,
}

impl Section {
    pub fn new(id: &str, title: impl Into<String>) -> Self {
        Section { id: id.into(), title: title.into(), blocks: Vec::new() }
    }

    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text { text: text.into() });
    }

    pub fn heading(&mut self, id: impl Into<String>, text: impl Into<String>) {
        self.blocks.push(Block::Heading { id: id.into(), text: text.into() });
    }

    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.blocks.push(Block::List { items });
        }
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table { table });
    }
}

impl Figure {
    /// `draw` is asked for each size.
    pub fn block(id: &str, caption: String, table: Table, draw: impl Fn(Size) -> String) -> Block {
        Block::Figure(Figure {
            id: id.into(),
            caption,
            drawings: Size::ALL.into_iter().map(draw).collect(),
            table,
        })
    }
}

pub fn render(page: &Page) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("prose", prose);
    environment.add_template("page.html", TEMPLATE)?;
    let template = environment.get_template("page.html")?;
    template.render(context! { page => Value::from_serialize(page), style => STYLE })
}

/// Text as HTML: escaped, with what stands in backquotes as code.
fn prose(text: String) -> Value {
    let mut html = String::new();
    for (number, part) in text.split('`').enumerate() {
        let part = escape(part);
        match number % 2 {
            0 => html += &part,
            _ => html += &format!("<code>{part}</code>"),
        }
    }
    Value::from_safe_string(html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_code_is_marked() {
        let html = prose("a < b: run `x --y=\"1\" && z`".into());
        assert_eq!(html.to_string(), "a &lt; b: run <code>x --y=&quot;1&quot; &amp;&amp; z</code>");
    }

    #[test]
    fn nothing_of_a_page_reaches_the_markup_unescaped() {
        let bad = "<script>alert(1)</script>";
        let mut table = Table::new(bad, [bad, bad]);
        table.group(bad);
        table.row(bad, [bad.into()]);
        table.note(bad);
        let mut section = Section::new("s", bad);
        section.text(bad);
        section.list(vec![bad.into()]);
        section.heading("h", bad);
        section.table(table.clone());
        section.blocks.push(Figure::block("f", bad.into(), table, |_| "<svg></svg>".into()));
        let page = Page { title: bad.into(), subtitle: bad.into(), sections: vec![section] };
        let html = render(&page).unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.matches("&lt;script").count() >= 12);
    }
}
