// SPDX-License-Identifier: GPL-2.0-only
//! Results as one self-contained HTML page.  Pure: results go in, a text comes out.

mod averages;
mod change;
mod document;
pub mod number;
mod page;
mod paper;
mod section;
mod select;
mod svg;
mod timeline;

pub use averages::averages;
pub use document::{BadDocument, Document};
use paratick_core::{results::Results, timeline::Timeline};
pub use section::table1::Prediction;
use select::Selection;

/// What a report is made of.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub results: Vec<Results>,
    pub timelines: Vec<Timeline>,
    /// What a model says of Table 1; none: the column is left away.
    pub predictions: Vec<Prediction>,
}

/// The page could not be put together: an error in this crate, not in the input.
#[derive(Debug, thiserror::Error)]
#[error("the report's page could not be put together: {0:#}")]
pub struct RenderError(#[from] minijinja::Error);

impl Input {
    /// Adds what a file holds.
    pub fn add(&mut self, document: Document) {
        match document {
            Document::Results(results) => self.results.push(*results),
            Document::Timeline(timeline) => self.timelines.push(*timeline),
        }
    }
}

/// The whole document.
pub fn html(input: &Input) -> Result<String, RenderError> {
    let selection = Selection::new(&input.results);
    Ok(page::render(&section::page(input, &selection))?)
}
