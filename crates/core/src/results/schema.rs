// SPDX-License-Identifier: GPL-2.0-only
//! What a results file consists of, as JSON Schema.  The types say it; docs/results.schema.json
//! keeps it, and docs/results.md is made of that (tests/docs/schema.rs).

use super::{
    tests::{cycle, measured, mode},
    *,
};
use crate::{
    balancing::Balancing,
    clock_device::ClockDevice,
    disk_device::DiskDevice,
    isolation::Isolation,
    latency_program::LatencyProgram,
    network::Network,
    noise::{Moment, NoiseSample},
    pcpu::Pcpu,
    wakeups::{Class, Lateness, Woken},
};
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::{collections::BTreeSet, env, fs, path::PathBuf};

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const ROOT: &str = "Results";

/// What is written, not what is read.
fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Results>().to_value()
}

#[test]
fn the_documents_have_the_schema_of_the_types() {
    let file = format!("{TOP}/docs/results.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if env::var_os("PARATICK_BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let hint = "hint: PARATICK_BLESS=1 cargo test -p paratick-core schema, then of the documents";
    assert!(fs::read_to_string(&file).unwrap() == text, "{file} is not what is written\n{hint}");
}

/// Of real files, and of one that has everything that there is.
#[test]
fn every_key_that_is_written_is_in_the_schema_and_each_of_the_schema_s_is_written() {
    let schema = Schema(schema());
    let mut seen = schema.check("everything", &serde_json::to_value(everything()).unwrap());
    let mut real = 0;
    for file in recorded() {
        let text = fs::read_to_string(&file).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let Some(version) = value.get("schema").and_then(Value::as_str) else { continue };
        if !version.starts_with("paratick-results/") && !version.starts_with("paratick-timeline/") {
            continue;
        }
        let name = file.display().to_string();
        if version == SCHEMA {
            seen.append(&mut schema.check(&name, &value));
            real += 1;
        }
        let read = serde_json::to_value(read(&text).unwrap()).unwrap();
        seen.append(&mut schema.check(&name, &read));
    }
    assert!(real >= 3, "{real} files of {SCHEMA}");
    let never: Vec<_> = schema.fields().difference(&seen).cloned().collect();
    assert!(never.is_empty(), "in the schema, but never written: {never:?}");
}

#[test]
fn a_key_that_the_schema_does_not_have_is_noticed() {
    let schema = Schema(schema());
    let whole = serde_json::to_value(everything()).unwrap();
    for place in ["/plan", "/cells/0/readings/cycle/events/0", "/problems/0/fault"] {
        let mut more = whole.clone();
        more.pointer_mut(place).unwrap()["later"] = 1.into();
        let why = schema.fits(&more, &schema.0, ROOT, &[]).unwrap_err();
        assert!(why.contains("later"), "{why}");
        let mut less = whole.clone();
        let fields = less.pointer_mut(place).unwrap().as_object_mut().unwrap();
        let gone = ["vcpus", "t_ns", "kind"].map(|name| fields.remove(name));
        assert!(gone.into_iter().any(|one| one.is_some()));
        assert!(schema.fits(&less, &schema.0, ROOT, &[]).is_err(), "{place}");
    }
    let mut other = whole;
    other["plan"]["rounds"] = "1".into();
    let why = schema.fits(&other, &schema.0, ROOT, &[]).unwrap_err();
    assert!(why.contains("rounds"), "{why}");
}

fn recorded() -> Vec<PathBuf> {
    let entries = |folder| fs::read_dir(format!("{TOP}/tests/{folder}")).unwrap().flatten();
    let all = entries("results").chain(entries("cli")).map(|entry| entry.path());
    all.filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
}

struct Schema(Value);

/// `Type.field`; and where the field tells variants apart, `Type.field=variant`.
type Fields = BTreeSet<String>;

impl Schema {
    fn check(&self, what: &str, value: &Value) -> Fields {
        self.fits(value, &self.0, ROOT, &[]).unwrap_or_else(|why| panic!("{what}: {why}"))
    }

    /// The fields of a value of the type `name`, or why it is none.  `outer` are its keys that
    /// another part of the type has.
    fn fits(
        &self,
        value: &Value,
        schema: &Value,
        name: &str,
        outer: &[&String],
    ) -> Result<Fields, String> {
        if let Some(name) = referred(schema) {
            return self.fits(value, &self.0["$defs"][name], name, outer);
        }
        let words = schema["enum"].as_array();
        let is_word = schema.get("const").is_none_or(|word| word == value)
            && words.is_none_or(|words| words.contains(value));
        if !is_word || !is_of_type(value, &schema["type"]) {
            return Err(format!("{name} is {value}"));
        }
        if let Some(items) = value.as_array() {
            let each = items.iter().map(|item| self.fits(item, &schema["items"], name, &[]));
            return Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        }
        if alternatives(schema).is_some() && schema.get("properties").is_none() {
            return self.one_of(value, schema, name, outer);
        }
        let fields = value.as_object();
        let keys: Vec<&String> = fields.map_or(Vec::new(), |fields| fields.keys().collect());
        let own = |key: &&&String| part(schema, key).is_some();
        let outside: Vec<&String> = outer.iter().chain(keys.iter().filter(own)).copied().collect();
        let mut seen = self.one_of(value, schema, name, &outside)?;
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter_map(Value::as_str).find(|key| value.get(key).is_none());
        if let Some(key) = missing {
            return Err(format!("{name} has no {key}"));
        }
        for key in keys {
            let full = format!("{name}.{key}");
            match part(schema, key) {
                Some(of) => {
                    seen.append(&mut self.fits(&value[key], of, &full, &[])?);
                    seen.insert(labelled(full, of));
                }
                None if outer.contains(&key) || has(&seen, &full) => {}
                None => return Err(format!("{full} is not in the schema")),
            }
        }
        Ok(seen)
    }

    /// Of the alternatives, if there are any, the one that fits.
    fn one_of(
        &self,
        value: &Value,
        schema: &Value,
        name: &str,
        outer: &[&String],
    ) -> Result<Fields, String> {
        let Some(all) = alternatives(schema) else { return Ok(Fields::new()) };
        let tried = all.iter().map(|one| self.fits(value, one, name, outer));
        let (fit, not): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
        let whys = || not.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("; ");
        fit.into_iter().next().unwrap_or_else(|| Err(whys()))
    }

    /// All that there are.
    fn fields(&self) -> Fields {
        let types = self.0["$defs"].as_object().unwrap();
        let types = types.iter().map(|(name, schema)| (name.as_str(), schema));
        let mut all = Fields::new();
        for (name, schema) in types.chain([(ROOT, &self.0)]) {
            let parts = alternatives(schema).into_iter().flatten().chain([schema]);
            for (key, of) in parts.filter_map(|part| part["properties"].as_object()).flatten() {
                all.insert(labelled(format!("{name}.{key}"), of));
            }
        }
        all
    }
}

fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    schema["oneOf"].as_array().or(schema["anyOf"].as_array())
}

/// What a key's value is: of a field, or of any key of a map.
fn part<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let field = schema["properties"].get(key);
    let numbered = || schema["patternProperties"].as_object()?.values().next();
    let any = || schema.get("additionalProperties").filter(|of| of.is_object());
    field.or_else(numbered).or_else(any)
}

fn labelled(full: String, of: &Value) -> String {
    match of["const"].as_str() {
        Some(variant) => format!("{full}={variant}"),
        None => full,
    }
}

fn has(seen: &Fields, full: &str) -> bool {
    seen.iter().any(|one| one.split('=').next() == Some(full))
}

fn is_of_type(value: &Value, wanted: &Value) -> bool {
    let is = |wanted: &str| match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    };
    match wanted {
        Value::Array(any) => any.iter().filter_map(Value::as_str).any(is),
        Value::String(one) => is(one),
        _ => true,
    }
}

/// With each field that there may be.
fn everything() -> Results {
    let mut results = measured();
    let environment = &mut results.environment;
    environment.qemu_command_lines.guests.insert("paratick".into(), Vec::new());
    environment.packages.insert("x264".into(), "2:0.164".into());
    environment.hashes.insert("agent".into(), "0123".into());
    results.set_idle_entries("pingpong", mode("tickless"), IdleEntries::default());
    results.set_halts("pingpong", mode("tickless"), RunHalts::default());
    results.set_native("pingpong", mode("tickless"), 1);
    results.cells[0].readings.cycle = Some(cycle());
    let boot = Boot { round: 1, subject: mode("tickless") };
    let failed = |doing| {
        let (workload, why) = ("x264".to_string(), "it ended with code 1".to_string());
        boot.problem(Fault::Workload { workload, doing, why })
    };
    results.problems = vec![
        failed(Doing::Preparing),
        failed(Doing::Running(2)),
        boot.problem(Fault::Guest { why: "it did not boot".into() }),
        boot.problem(Fault::CountsDiffer { exits: 2, world_switches: 1 }),
        boot.problem(Fault::Unbalanced { what: "a gap of 2 ns has parts of 1 ns".into() }),
        Problem { boot: None, fault: Fault::GivenUp },
        Problem { boot: None, fault: Fault::Said { text: "x".into() } },
    ];
    let plan = &mut results.plan;
    plan.workloads[0].program =
        Some(Program { in_place: true, server: Some("redis-server".into()), ..Program::default() });
    plan.one_window = true;
    plan.isolation = Some(Isolation::Both);
    plan.host_cpus = Some(4);
    plan.sockets = Some(2);
    plan.disk_latency_ns = Some(100_000);
    plan.disk_device = DiskDevice::Nvme;
    plan.network = Some(Network::Vhost);
    plan.latency_programs = vec![LatencyProgram::Oslat];
    plan.clock_device = ClockDevice::Pit;
    plan.sampler = Some(Sampler::default());
    plan.balances = true;
    plan.balancing = Some(Balancing::Owner);
    plan.records_wakeups = true;
    plan.records_lateness = true;
    let sample = &mut results.cells[0].readings.exits.samples[0];
    sample.pcpus = vec![Pcpu::default()];
    let moments = vec![Moment::default()];
    sample.noise = Some(NoiseSample { moments, ..NoiseSample::default() });
    sample.guest_interrupts = [("LOC".to_string(), 1)].into();
    sample.woken = Some(woken());
    (sample.host_cycles, sample.guest_cycles) = (Some(1), Some(1));
    sample.late = [(Class::Hard, Lateness::default())].into();
    results
}

fn woken() -> Woken {
    serde_json::from_str(
        r#"{"window_ns": 1, "timer_events": 1, "idle_entries": 1, "idle_ns": 1,
            "recorded_exits": 1, "unexplained": 0,
            "offenders": [{"source": "tick", "process": "x", "start": "y", "class": "hard",
                "expiries": 1, "wakeups": 1, "exits": 1}],
            "sampled": {"expiries": 1, "wakeups": 1, "exits": 1, "late_ns": [1]}}"#,
    )
    .unwrap()
}
