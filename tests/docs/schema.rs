// SPDX-License-Identifier: GPL-2.0-only
//! docs/results.md and a part of docs/timeline.md, made of the schema of results files
//! (crates/core/src/results/schema.rs).

use crate::{files, generated::wrapped};
use serde_json::Value;
use std::collections::BTreeMap;

/// Where each type has its list.
pub const TOPICS: [(&str, &[&str]); 9] = [
    ("results-file", &["Results", "Problem", "Boot", "Fault", "Doing"]),
    (
        "results-plan",
        &[
            "Plan",
            "PlannedWorkload",
            "Program",
            "Sampler",
            "Isolation",
            "LatencyProgram",
            "DiskDevice",
            "Network",
        ],
    ),
    ("results-environment", &["Environment", "Configuration", "QemuCommandLines", "Machine"]),
    ("results-cell", &["Cell", "Subject", "Readings", "Exits"]),
    ("results-sample", &["Sample", "Counts", "HostCpuSample", "Pcpu"]),
    (
        "results-recorded",
        &["NoiseSample", "Parts", "Audited", "Moment", "Woken", "Offender", "Sampled", "Lateness"],
    ),
    ("results-readings", &["IdleEntries", "RunHalts", "Tally"]),
    ("results-cycle", &["IdleCycle", "Event", "Until", "Why", "EndOfHalt"]),
    ("results-statistics", &["Summary", "Method", "Comparison", "Verdict"]),
];
/// docs/measuring.md has what there is.
const ELSEWHERE: [&str; 1] = ["Cause"];

fn types() -> BTreeMap<String, Value> {
    let mut root: Value =
        serde_json::from_str(&files::read("docs/results.schema.json")).expect("a schema");
    let defs = root["$defs"].take();
    let name = root["title"].as_str().expect("the file's type has a name").to_string();
    let mut all: BTreeMap<String, Value> = serde_json::from_value(defs).expect("types by name");
    all.insert(name, root);
    all
}

/// What the types consist of, each as a list.
pub fn lists(names: &[&str]) -> String {
    let all = types();
    let parts = names.iter().map(|name| {
        let schema = all.get(*name).unwrap_or_else(|| panic!("no type {name} is written"));
        format!("**{name}**: {}\n\n{}", told(name, schema), items(name, schema).join("\n"))
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// The fields, then the variants, each with its own fields.
fn items(name: &str, schema: &Value) -> Vec<String> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let variants = variants.flat_map(|one| variant(name, one));
    fields(name, schema).into_iter().chain(variants).collect()
}

fn item(what: &str, about: &str) -> String {
    wrapped(&format!("* {what}: {about}"))
}

fn word(schema: &Value) -> String {
    format!("`{}`", schema["const"].as_str().expect("a word"))
}

/// A word, the only field of an object, or an object that one of its fields tells apart.
fn variant(name: &str, schema: &Value) -> Vec<String> {
    let about = told(name, schema);
    let Some(all) = schema["properties"].as_object() else {
        return vec![item(&word(schema), &about)];
    };
    let tag = all.iter().find(|(_, of)| of.get("const").is_some());
    match (tag, all.iter().next()) {
        (Some((tag, of)), _) => {
            let own = fields(name, schema).into_iter().map(|field| format!("  {field}"));
            [item(&format!("`{tag}` = {}", word(of)), &about)].into_iter().chain(own).collect()
        }
        (None, Some((field, of))) => vec![item(&format!("`{field}` ({})", kind(of)), &about)],
        (None, None) => panic!("a variant of {name} has nothing"),
    }
}

/// Those that are always there come first, in the order of the type.
fn fields(name: &str, schema: &Value) -> Vec<String> {
    let Some(all) = schema["properties"].as_object() else { return Vec::new() };
    let required = schema["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let others = all.keys().map(String::as_str).filter(|key| !required.contains(key));
    let row = |key: &str, is_required: bool| {
        let of = &all[key];
        let sign = match is_required {
            true if is_nullable(of) => "?",
            true => "",
            false => "*",
        };
        let about = told(&format!("{name}.{key}"), of);
        match kind(of).as_str() {
            "number" => item(&format!("`{key}`{sign}"), &about),
            kind => item(&format!("`{key}` ({kind}{sign})"), &about),
        }
    };
    let is_tag = |key: &&&str| all[**key].get("const").is_some();
    let first = required.iter().filter(|key| !is_tag(key)).map(|key| row(key, true));
    first.chain(others.map(|key| row(key, false))).collect()
}

/// What comes before the first empty line of its comment.
fn told(name: &str, schema: &Value) -> String {
    let text = schema["description"].as_str();
    let text = text.unwrap_or_else(|| panic!("{name} has no comment that says what it is"));
    text.split("\n\n").next().unwrap_or_default().replace('\n', " ")
}

fn is_nullable(schema: &Value) -> bool {
    let is_null = |one: &Value| *one == "null" || one["type"] == "null";
    let any = schema["type"].as_array().or(schema["anyOf"].as_array());
    any.is_some_and(|any| any.iter().any(is_null))
}

fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return name.to_string();
    }
    if let Some(one) = schema["anyOf"].as_array().and_then(|any| any.first()) {
        return kind(one);
    }
    let first = schema["type"].as_array().and_then(|all| all.first());
    match first.unwrap_or(&schema["type"]).as_str() {
        Some("integer" | "number") => "number".into(),
        Some("array") => format!("{}[]", kind(&schema["items"])),
        Some("object") => {
            let keys = ["additionalProperties", "patternProperties", "properties"];
            let of = keys.iter().map(|keys| &schema[keys]).find(|of| of.is_object());
            let of = of.unwrap_or_else(|| panic!("no map: {schema}"));
            let is_type = ["type", "$ref", "anyOf"].iter().any(|word| of.get(word).is_some());
            // Else there is one for each key.
            let each = || of.as_object().and_then(|all| all.values().next());
            let value = if is_type { of } else { each().expect("a map has values") };
            format!("{{{}}}", kind(value))
        }
        Some(plain) => plain.into(),
        None => panic!("a type that has no name here: {schema}"),
    }
}

#[test]
fn every_type_of_a_results_file_has_its_list() {
    let mut left = types();
    for name in TOPICS.iter().flat_map(|(_, names)| *names).chain(&ELSEWHERE) {
        assert!(left.remove(*name).is_some(), "no type {name} is written, or it has two lists");
    }
    let left: Vec<_> = left.keys().collect();
    assert!(left.is_empty(), "in no list: {left:?}");
}
