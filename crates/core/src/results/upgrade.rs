// SPDX-License-Identifier: GPL-2.0-only
//! Files of the version before, in today's shape; none where a field that has to be there is not.

use super::SCHEMA;
use serde_json::Value;

/// `paratick-results/3`: its `paratick` never polls.
pub fn schema_3(value: Value) -> Option<Value> {
    with_modes(value, |subject| {
        let (mode, settings) = subject.split_at(subject.find(' ').unwrap_or(subject.len()));
        let mode = match mode {
            "paratick" | "paratick+coalesce" => format!("{mode}+nopoll"),
            "paratick+learn" | "paratick+coalesce+learn" => mode.replace("+learn", ""),
            other => other.into(),
        };
        mode + settings
    })
}

/// With other names of modes, each of which settings of the host may follow.
fn with_modes(mut value: Value, renamed: fn(&str) -> String) -> Option<Value> {
    let file = value.as_object_mut()?;
    for part in ["plan", "cells", "problems"] {
        file.get_mut(part).into_iter().for_each(|part| rename_modes(part, renamed));
    }
    let command_lines = file.get_mut("environment")?.get_mut("qemu_command_lines");
    command_lines.into_iter().for_each(|lines| rename_modes(lines, renamed));
    file.insert("schema".into(), SCHEMA.into());
    Some(value)
}

/// In the field `mode`, and in the keys of maps by subject.
fn rename_modes(value: &mut Value, renamed: fn(&str) -> String) {
    let parts: Vec<&mut Value> = match value {
        Value::Object(fields) => {
            if let Some(Value::String(mode)) = fields.get_mut("mode") {
                *mode = renamed(mode);
            }
            for name in ["versus", "guests"] {
                if let Some(Value::Object(subjects)) = fields.get_mut(name) {
                    let old = std::mem::take(subjects).into_iter();
                    *subjects = old.map(|(subject, value)| (renamed(&subject), value)).collect();
                }
            }
            fields.values_mut().collect()
        }
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    parts.into_iter().for_each(|part| rename_modes(part, renamed));
}
