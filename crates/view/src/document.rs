// SPDX-License-Identifier: GPL-2.0-only
//! Reading the files that a report is made of.

use paratick_core::{
    results::{self, Cell, Figure, ReadError, Results},
    timeline::{self, Timeline},
};
use serde_json::{error::Category, Value};

/// One input file.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    Results(Box<Results>),
    Timeline(Box<Timeline>),
}

/// Why a text is neither.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadDocument {
    #[error(transparent)]
    Results(#[from] ReadError),
    #[error("its format is {found}, and this program reads {}\nhint: read it with the version of paratick that wrote it, or a newer one", timeline::SCHEMA)]
    OtherTimeline { found: String },
    #[error("it says it is {}, but does not fit it: {why}\nhint: docs/timeline.md describes the format; was the file edited?", timeline::SCHEMA)]
    Timeline { why: String },
}

impl Document {
    /// Reads a results file or a time line, told apart by `schema`.
    pub fn read(text: &str) -> Result<Document, BadDocument> {
        match schema(text)? {
            Some(schema) if schema == timeline::SCHEMA => serde_json::from_str(text)
                .map(|timeline| Document::Timeline(Box::new(timeline)))
                .map_err(|error| BadDocument::Timeline {
                    why: error.to_string(),
                }),
            Some(found) if found.starts_with("paratick-timeline/") => {
                Err(BadDocument::OtherTimeline { found })
            }
            _ => {
                let mut results = results::read(text)?;
                complete(&mut results);
                // By today's rules, whichever version wrote the file.
                results.summarize();
                Ok(Document::Results(Box::new(results)))
            }
        }
    }
}

/// Files from before `cpu_ns` knew no cost of a world switch: their instructions are it.
fn complete(results: &mut Results) {
    let before =
        |cell: &&mut Cell| !cell.summary.is_empty() && !cell.summary.contains_key(&Figure::CpuNs);
    for cell in results.cells.iter_mut().filter(before) {
        for sample in &mut cell.samples {
            let instructions = sample.host_instructions.zip(sample.guest_instructions);
            sample.cpu_ns = instructions.map(|(host, guest)| host + guest);
        }
    }
}

/// What the document says it is; a document cut short is an error, because it may have said more.
fn schema(text: &str) -> Result<Option<String>, ReadError> {
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => ReadError::Truncated { line: error.line() },
        _ => ReadError::NotJson(error.to_string()),
    })?;
    Ok(value
        .get("schema")
        .and_then(Value::as_str)
        .map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_line_is_told_from_results_by_its_schema() {
        let text = r#"{"schema": "paratick-timeline/1", "tool_version": "", "started": "", "workload": "sleep",
            "work": 1, "unit": "sleeps", "vcpus": 1, "lines": [], "problems": [], "environment": ENVIRONMENT}"#;
        let environment = serde_json::to_string(&results::Environment::default()).unwrap();
        let text = text.replace("ENVIRONMENT", &environment);
        let read = Document::read(&text).unwrap();
        assert!(matches!(read, Document::Timeline(timeline) if timeline.workload == "sleep"));
    }

    #[test]
    fn what_is_neither_is_said() {
        for (text, why) in [
            ("", "empty"),
            (
                "{\"schema\": \"paratick-timeline/1\", \"lines\": [",
                "ends in the middle",
            ),
            (
                "{\"schema\": \"paratick-timeline/2\"}",
                "paratick-timeline/2",
            ),
            ("{\"schema\": \"paratick-timeline/1\"}", "does not fit it"),
            ("{\"schema\": \"paratick-results/2\"}", "paratick-results/2"),
            ("{\"a\": 1}", "not a results file"),
            ("<html>", "not JSON"),
        ] {
            let error = Document::read(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("\nhint: "), "{error}");
        }
    }
}
