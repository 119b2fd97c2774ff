// SPDX-License-Identifier: GPL-2.0-only
//! Recordings with a surprise, files that must not be lost, and options that would do nothing.

use crate::support::paratick;
use serde_json::{json, Value};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};
use tempfile::TempDir;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/");

fn recorded(name: &str) -> Value {
    serde_json::from_slice(&fs::read(format!("{HERE}recorded-{name}.json")).unwrap()).unwrap()
}

/// A file with this in it, which stays until the folder is dropped.
fn file(folder: &TempDir, name: &str, value: &Value) -> String {
    let path = folder.path().join(name);
    fs::write(&path, value.to_string()).unwrap();
    path.display().to_string()
}

/// Its exit code, and what it says on both.
fn said(args: &[&str]) -> (i32, String, String) {
    let output = paratick(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Calls it with each object in a value.
fn each_object(value: &mut Value, change: &mut dyn FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| each_object(one, change)),
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|one| each_object(one, change));
        }
        _ => (),
    }
}

/// As where CPU 1 is offline.
#[test]
fn a_cpu_whose_number_is_beyond_how_many_there_are_has_its_exits() {
    let folder = TempDir::new().unwrap();
    let mut offline = recorded("idle");
    each_object(&mut offline, &mut |fields| {
        for name in ["cpu", "to", "on", "vcpu"] {
            if fields.get(name) == Some(&json!(1)) {
                fields.insert(name.into(), json!(2));
            }
        }
    });
    let offline = file(&folder, "offline.json", &offline);
    let summary = |path: &str| -> Value {
        let (code, out, error) = said(&["idle", "--recording", path, "--format", "json"]);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<Value>(&out).unwrap()["summary"].take()
    };
    assert_eq!(summary(&offline), summary(&format!("{HERE}recorded-idle.json")));
}

#[test]
fn a_timer_set_on_a_cpu_that_is_not_known_is_no_panic() {
    let folder = TempDir::new().unwrap();
    let mut set = recorded("idle");
    let at = set["guest"]["events"][3]["at_ns"].clone();
    let event = json!({"cpu": 0, "at_ns": at, "what": "set", "on": 7, "due_ns": 5_000_000_000_u64});
    set["guest"]["events"].as_array_mut().unwrap().insert(3, event);
    set["guest"]["jiffies"] = json!({"hz": 250, "second_ns": 0});
    let set = file(&folder, "set.json", &set);
    for how in ["defer", "round"] {
        let setting = format!("{how}:hrtimer_wakeup");
        let (code, out, error) = said(&["idle", "--recording", &set, "--try", &setting]);
        assert!(code == 0 && out.contains("Predicted"), "{code} {error}");
    }
    // And a function that no timer has is not predicted to save nothing.
    let (code, out, _) = said(&["idle", "--recording", &set, "--try", "defer:nosuch"]);
    assert!(code == 0 && out.contains("Not predicted: no timer of this function"), "{out}");
}

/// Each number of a recording is one after the other what it cannot be: no panic, no endless run.
#[test]
fn no_number_of_a_recording_ends_it_with_a_panic() {
    let folder = TempDir::new().unwrap();
    for (verb, name) in [("idle", "idle"), ("noise", "noise"), ("timerlat", "timerlat")] {
        let whole = recorded(name).to_string();
        let numbers: Vec<_> = number_places(&whole);
        // Fifty of them; all are too many for a test.
        for (at, length) in numbers.iter().step_by(numbers.len().div_ceil(50)) {
            for number in ["0", "4294967295", "9223372036854775807", "18446744073709551615"] {
                let mut text = whole.clone();
                text.replace_range(*at..at + length, number);
                let path = folder.path().join("changed.json");
                fs::write(&path, &text).unwrap();
                let path = path.display().to_string();
                let (code, _, error) = said(&[verb, "--recording", &path]);
                assert!([0, 2].contains(&code), "{verb} {at} {number}: {code} {error}");
            }
        }
    }
}

/// Where each number of a JSON text begins, and its length.
fn number_places(text: &str) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length > 0 && matches!(bytes[at - 1], b':' | b',' | b'[') {
            places.push((at, length));
        }
        at += length.max(1);
    }
    places
}

#[test]
fn a_file_of_another_kind_is_no_recording() {
    let folder = TempDir::new().unwrap();
    let nothing = file(&folder, "nothing.json", &json!({}));
    let halts = format!("{HERE}recorded-halts.json");
    for path in [&nothing, &halts, &format!("{HERE}recorded.json")] {
        for verb in ["idle", "noise", "timerlat"] {
            let (code, out, error) = said(&[verb, "--recording", path]);
            assert!(code == 2 && out.is_empty(), "{verb} {path}: {code} {out}");
            assert!(error.contains("it is no recording of") && error.contains("hint: give a file"));
        }
    }
}

#[test]
fn numbers_that_cannot_be_are_damage_and_no_result() {
    let folder = TempDir::new().unwrap();
    let damaged = |verb: &str, name: &str, change: &dyn Fn(&mut Value)| {
        let mut value = recorded(name);
        change(&mut value);
        let path = file(&folder, "damaged.json", &value);
        let (code, out, error) = said(&[verb, "--recording", &path]);
        assert!(code == 2 && out.is_empty(), "{verb}: {code} {out}");
        assert!(error.contains("it is damaged"), "{error}");
    };
    damaged("idle", "idle", &|all| all["guest"]["cpus"] = json!(u32::MAX));
    damaged("noise", "noise", &|all| all["host"]["absences"][0]["kvm_ns"] = json!(1e12 as u64));
    damaged("noise", "noise", &|all| all["guest"]["gaps"][0]["ns"] = json!(1e15 as u64));
    damaged("noise", "noise", &|all| {
        all["guest"]["end_ns"] = all["guest"]["begin_ns"].clone();
    });
    damaged("timerlat", "timerlat", &|all| {
        all["guest"]["activations"][0]["irq_ns"] = json!(u64::MAX);
    });
    damaged("timerlat", "timerlat", &|all| {
        all["guest"]["activations"][0]["thread_ns"] = json!(1_u64 << 63);
    });
}

#[test]
fn a_figure_replaces_no_recording_and_has_no_control_characters() {
    let folder = TempDir::new().unwrap();
    let mut odd = recorded("idle");
    each_object(&mut odd, &mut |fields| {
        if fields.get("name") == Some(&json!("ticker")) {
            fields.insert("name".into(), json!("tick\u{1}er"));
        }
    });
    let text = odd.to_string();
    let path = file(&folder, "odd.json", &odd);
    let (code, _, error) = said(&["idle", "--recording", &path, "--figure", &path]);
    assert!(code == 2 && error.contains("is no figure\nhint: name another file"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let figure = folder.path().join("figure.svg").display().to_string();
    for _ in 0..2 {
        let (code, _, error) = said(&["idle", "--recording", &path, "--figure", &figure]);
        assert_eq!(code, 0, "{error}");
    }
    let drawn = fs::read_to_string(&figure).unwrap();
    assert!(drawn.contains("tick\u{fffd}er") && !drawn.contains('\u{1}'));
}

#[test]
fn a_side_that_cannot_tell_is_not_asked() {
    let folder = TempDir::new().unwrap();
    let mut guest = recorded("idle");
    guest["host"] = Value::Null;
    let guest = file(&folder, "guest.json", &guest);
    let mut host = recorded("idle");
    host["guest"] = Value::Null;
    let host = file(&folder, "host.json", &host);
    let figure = folder.path().join("no.svg").display().to_string();
    for (path, options) in [
        (&guest, ["--try", "mode:paratick"]),
        (&host, ["--try", "mode:paratick"]),
        (&host, ["--slack", "1ms"]),
        (&host, ["--figure", &figure]),
    ] {
        let (code, out, error) = said(&["idle", "--recording", path, options[0], options[1]]);
        assert!(code == 2 && out.is_empty() && error.contains("\nhint: "), "{error}");
        assert!(!Path::new(&figure).exists());
    }
    assert_eq!(said(&["idle", "--recording", &guest, "--slack", "1ms"]).0, 0);
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let of = |name: &str| format!("{HERE}recorded-{name}.json");
    let (noise, timerlat, halts) = (of("noise"), of("timerlat"), of("halts"));
    let idle = of("idle");
    let perf = format!("{HERE}recorded-exits-perf.data");
    for words in [
        &["noise", "--recording", &noise, "--top"][..],
        &["noise", "--recording", &noise, "--format", "rtla-top", "--above", "1s"],
        &["noise", "--recording", &noise, "--vm", "1"],
        &["noise", "--recording", &noise, "--format", "json", "--above", "1s"],
        &["noise", "--recording", &noise, "--for", "1s"],
        &["idle", "--recording", &idle, "--vcpu", "0"],
        &["timerlat", "--recording", &timerlat, "--format", "json", "--worst", "1"],
        &["halts", "--recording", &halts, "--side", "guest"],
        &["halts", "--recording", &halts, "my-program", "--arg"],
        &["noise", "--recording", &noise, "--halt-poll", "5"],
        &["exits", "--recording", &perf, "--vcpu", "99"],
    ] {
        let (code, out, error) = said(words);
        assert!(code == 2 && out.is_empty() && error.contains("\nhint: "), "{words:?}: {error}");
    }
}

#[test]
fn a_word_that_is_no_text_is_answered() {
    let output = paratick(&[]).arg(OsStr::from_bytes(b"\xff")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("hint: "), "{error}");
}

#[test]
fn two_vms_that_can_be_named_are_named_once() {
    let folder = TempDir::new().unwrap();
    let mut halts = recorded("halts");
    let vcpus = halts["vcpus"].as_array_mut().unwrap();
    let more = vcpus.iter().cloned().map(|mut vcpu| {
        vcpu["process"] = json!(77);
        vcpu
    });
    let mixed: Vec<Value> = vcpus.iter().cloned().zip(more).flat_map(|(a, b)| [a, b]).collect();
    halts["vcpus"] = json!(mixed);
    let path = file(&folder, "halts.json", &halts);
    let (code, _, error) = said(&["halts", "--recording", &path, "--vm", "5"]);
    assert_eq!(code, 2);
    assert_eq!(error.matches("--vm 77").count(), 1, "{error}");
}

/// Where the time went is not known of a recording of perf's.
#[test]
fn what_is_not_known_is_no_zero() {
    let perf = format!("{HERE}recorded-exits-perf.data");
    let (_, out, _) = said(&["exits", "--recording", &perf, "--format", "jsonl"]);
    for line in out.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        for name in ["kvm_ns", "vmm_ns", "interrupts_ns", "blocked_ns", "steal_ns", "cpu"] {
            assert_eq!(row[name], Value::Null, "{name}: {line}");
        }
    }
    let (_, out, _) = said(&["exits", "--recording", &perf, "--format", "csv"]);
    assert!(out.lines().skip(1).all(|line| line.contains(",,,,,")), "{out}");
}
