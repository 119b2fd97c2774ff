// SPDX-License-Identifier: GPL-2.0-only
//! Files of older versions, in today's shape.
//!
//! None where a field that has to be there is not; what is merely unknown is `null` or left out.

use super::SCHEMA;
use serde_json::{json, Map, Value};

type Object = Map<String, Value>;

/// `paratick-results/1`: cells by mode, one halt polling setting for all, exits in single fields.
pub fn results(mut value: Value) -> Option<Value> {
    let file = value.as_object_mut()?;
    let host = host(file)?;
    let plan = file.get_mut("plan")?.as_object_mut()?;
    let modes = plan.remove("modes")?;
    let subjects = modes.as_array()?.iter().map(|mode| json!({ "mode": mode, "host": host }));
    plan.insert("subjects".into(), subjects.collect());
    for cell in file.get_mut("cells")?.as_array_mut()? {
        upgrade_cell(cell.as_object_mut()?, &host)?;
    }
    problems(file);
    schema_2(value)
}

/// `paratick-timeline/1`: a document of its own, with one line for each mode.
pub fn timeline(mut value: Value) -> Option<Value> {
    let file = value.as_object_mut()?;
    let host = host(file)?;
    let [workload, work, unit, vcpus] =
        ["workload", "work", "unit", "vcpus"].map(|name| file.remove(name).unwrap_or_default());
    let planned = json!({ "workload": workload, "work": work, "unit": unit });
    let cell = |line: &Value| {
        let subject = json!({ "mode": line.get("mode")?, "host": host });
        let mut cell = planned.clone();
        let fields = cell.as_object_mut()?;
        fields.insert("vcpus".into(), vcpus.clone());
        fields.insert("subject".into(), subject);
        fields.insert("readings".into(), json!({ "cycle": line }));
        Some(cell)
    };
    let lines = file.remove("lines")?;
    let cells: Vec<Value> = lines.as_array()?.iter().map(cell).collect::<Option<_>>()?;
    let subjects: Vec<_> = cells.iter().map(|cell| cell["subject"].clone()).collect();
    let plan = json!({
        "vcpus": vcpus, "subjects": subjects, "workloads": [planned], "rounds": 1, "repeats": 1,
    });
    file.insert("bench".into(), "timeline".into());
    file.insert("plan".into(), plan);
    file.insert("cells".into(), cells.into());
    problems(file);
    schema_2(value)
}

/// `paratick-results/2` and before: their `paratick` is virtual ticks alone.
pub fn schema_2(value: Value) -> Option<Value> {
    with_modes(value, |subject| match subject.strip_prefix("paratick") {
        Some(rest) => format!("paratick-ticks{rest}"),
        None => subject.into(),
    })
}

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

/// Whether a file says that a setting of its host is not known: its cells cannot be keyed by it.
pub fn lacks_host(value: &Value) -> bool {
    let configuration = value.pointer("/environment/configuration");
    configuration.is_some_and(|known| known.get("halt_poll_ns").is_none_or(Value::is_null))
}

/// The host's settings, which were a part of the environment.
fn host(file: &mut Object) -> Option<Value> {
    let configuration = file.get_mut("environment")?.get_mut("configuration")?;
    let halt_poll = configuration.as_object_mut()?.remove("halt_poll_ns")?;
    Some(json!({ "halt-poll": halt_poll }))
}

fn problems(file: &mut Object) {
    let texts = file.get("problems").and_then(Value::as_array);
    let said = |text: &Value| json!({ "boot": null, "fault": fault(text) });
    let problems = texts.map(|texts| texts.iter().map(said).collect());
    file.insert("problems".into(), problems.unwrap_or(json!([])));
}

fn fault(text: &Value) -> Value {
    json!({ "kind": "said", "text": text })
}

fn upgrade_cell(cell: &mut Object, host: &Value) -> Option<()> {
    let mode = cell.remove("mode")?;
    cell.insert("subject".into(), json!({ "mode": mode, "host": host }));
    let mut exits = Object::new();
    for name in ["samples", "summary", "versus"] {
        let part = cell.remove(name).unwrap_or_else(|| json!({}));
        exits.insert(name.into(), part);
    }
    // Files from before `cpu_ns` knew no cost of a world switch: their instructions are it.
    let summary = exits.get("summary")?.as_object()?;
    let knows_cpu = summary.is_empty() || summary.contains_key("cpu_ns");
    for sample in exits.get_mut("samples")?.as_array_mut()? {
        upgrade_sample(sample.as_object_mut()?, knows_cpu);
    }
    let idle = cell.remove("idle_entries").unwrap_or_default();
    cell.insert("readings".into(), json!({ "exits": exits, "idle": idle }));
    Some(())
}

fn upgrade_sample(sample: &mut Object, knows_cpu: bool) {
    let exits = counts(sample);
    sample.insert("exits".into(), exits);
    for vcpu in sample.get_mut("per_vcpu").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = vcpu.as_object_mut() {
            *vcpu = counts(fields);
        }
    }
    if let Some(problems) = sample.get_mut("problems").and_then(Value::as_array_mut) {
        problems.iter_mut().for_each(|text| *text = fault(text));
    }
    let count = |name: &str| sample.get(name).and_then(Value::as_u64);
    let instructions = count("host_instructions").zip(count("guest_instructions"));
    if let Some((host, guest)) = instructions.filter(|_| !knows_cpu) {
        sample.insert("cpu_ns".into(), (host + guest).into());
    }
}

/// What stood in single fields; `null` where exits or their causes were not counted.  Files may
/// leave reasons out, from which no figure is made.
fn counts(fields: &mut Object) -> Value {
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let (by_reason, ticks) = (take("exits_by_reason"), take("ticks_delivered"));
    let msr_writes = take("msr_writes");
    let [Some(total), Some(by_cause)] = ["exits", "exits_by_cause"].map(&mut take) else {
        return Value::Null;
    };
    json!({
        "total": total, "by_reason": by_reason.unwrap_or_else(|| json!({})), "by_cause": by_cause,
        "msr_writes": msr_writes, "ticks_delivered": ticks,
    })
}
