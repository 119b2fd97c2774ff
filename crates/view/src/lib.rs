// SPDX-License-Identifier: GPL-2.0-only
//! What people see of results: tables as text and as HTML, and the report, one self-contained page.
//! Pure: results go in, a text comes out.

pub mod change;
pub mod compare;
pub mod figure;

mod input;
pub mod model;
pub mod number;
mod page;
pub mod paper;
pub mod rtla;
mod samples;
mod section;
mod set;
mod svg;
pub mod table;
pub mod tables;
pub mod terminal;
mod timeline;

pub use input::Input;

use paratick_core::noise::Ledger;

/// The page could not be put together: an error in this crate, not in the input.
#[derive(Debug, thiserror::Error)]
#[error("the report's page could not be put together: {0:#}")]
pub struct RenderError(#[from] minijinja::Error);

/// In every page, near its beginning.
const MARK: &str = r#"<meta name="generator" content="paratick report">"#;

/// Whether a file that begins so is a page of this program; a hundred bytes or so tell.
pub fn is_page(beginning: &[u8]) -> bool {
    String::from_utf8_lossy(beginning).contains(MARK)
}

pub fn html(input: &Input) -> Result<String, RenderError> {
    let selection = set::Selection::new(&input.results);
    Ok(page::render(&section::page(input, &selection))?)
}

/// A page with the time line of one recording of noise, as in the thesis' Figure 1.
pub fn noise_html(ledger: &Ledger, begin_ns: u64, has_host: bool) -> Result<String, RenderError> {
    let parts = tables::noise::parts(ledger, has_host);
    let moments = paratick_core::noise::moments(ledger, begin_ns);
    Ok(page::render(&section::noise(ledger.window_ns, &moments, parts))?)
}
