// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use paratick_core::{
    mode::Mode,
    results::{Plan, PlannedWorkload, Sample},
};

fn fresh(agent: &str) -> Results {
    let workload = PlannedWorkload::new("cpu", 1, "loops");
    let mut results = Results::new("quick", Plan::new(2, [tickless()], [workload], 1, 2));
    results.environment.hashes.insert("agent".into(), agent.into());
    results
}

fn tickless() -> Mode {
    "tickless".parse().unwrap()
}

fn measured(samples: u32) -> Results {
    let mut results = fresh("here");
    let (workload, subject) = (results.plan.workloads[0].clone(), results.plan.subjects[0]);
    for _ in 0..samples {
        let sample = Sample { round: 1, ..Sample::default() };
        results.add(&workload, subject, sample);
    }
    results
}

fn open_in(folder: &Path, name: &str, resume: bool) -> (Result<Results>, usize) {
    let mut warnings = 0;
    let opened = open(&folder.join(name), fresh("here"), resume, &mut |_| warnings += 1);
    (opened, warnings)
}

#[test]
fn an_interrupted_bench_is_continued_and_leaves_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    write(&path, &measured(1)).unwrap();
    write(&path, &measured(1)).unwrap();
    let (opened, warnings) = open_in(folder.path(), "r.json", false);
    assert_eq!((opened.unwrap().cells.len(), warnings), (1, 0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_finished_bench_is_kept_aside_unless_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("r.json"), &measured(2)).unwrap();
    let (resumed, _) = open_in(folder.path(), "r.json", true);
    assert!(resumed.unwrap().is_complete());
    let (anew, warnings) = open_in(folder.path(), "r.json", false);
    assert_eq!((anew.unwrap().cells.len(), warnings), (0, 1));
    assert!(folder.path().join("r.json.old").exists());
    // The first one's is not overwritten.
    write(&folder.path().join("r.json"), &measured(2)).unwrap();
    open_in(folder.path(), "r.json", false).0.unwrap();
    assert!(folder.path().join("r.json.old2").exists());
    assert!(folder.path().join("r.json.old").exists());
}

#[test]
fn what_is_not_planned_any_more_is_not_mixed_with_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let mut more = measured(2);
    let sleep = PlannedWorkload { workload: "sleep".into(), ..more.plan.workloads[0].clone() };
    more.plan.workloads.push(sleep.clone());
    let subject = more.plan.subjects[0];
    more.add(&sleep, subject, Sample::default());
    write(&path, &more).unwrap();
    let (refused, _) = open_in(folder.path(), "r.json", true);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("it also holds sleep"), "{error}");
    let (anew, warnings) = open_in(folder.path(), "r.json", false);
    assert_eq!((anew.unwrap().cells.len(), warnings), (0, 1));
}

#[test]
fn two_benches_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let first = occupy(&path).unwrap();
    let error = occupy(&path).unwrap_err().to_string();
    assert!(error.contains("another paratick") && error.contains("hint:"), "{error}");
    assert!(occupy(&folder.path().join("other.json")).is_ok());
    drop(first);
    assert!(occupy(&path).is_ok());
    let locks = std::fs::read_dir(cache::dir().unwrap().join("work")).unwrap().flatten();
    let mut names = locks.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let key = cache::key([path.as_os_str().as_encoded_bytes()]);
    assert!(!names.any(|name| name.contains(&key)), "a lock stays behind");
}

#[test]
fn another_environment_is_not_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let mut elsewhere = measured(1);
    elsewhere.environment.hashes.insert("agent".into(), "there".into());
    elsewhere.environment.configuration.kernel_sha256 = "other".into();
    write(&path, &elsewhere).unwrap();
    let error = open_in(folder.path(), "r.json", true).0.unwrap_err().to_string();
    for what in ["guests' kernel image (other there,", "agent (there there, here here)"] {
        assert!(error.contains(what), "{error}");
    }
    assert!(error.contains("hint:"), "{error}");
    assert!(open_in(folder.path(), "r.json", false).0.unwrap().cells.is_empty());
}

/// It does not say what it was measured with: of nothing may be made something.
#[test]
fn a_file_of_schema_1_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let mut old = measured(1);
    old.environment.hashes.clear();
    write(&path, &old).unwrap();
    let error = open_in(folder.path(), "r.json", true).0.unwrap_err();
    assert!(error.to_string().contains("agent (none or unknown there"), "{error}");
}

#[test]
fn samples_of_another_version_of_a_program_are_not_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let planned = |name: &str| {
        let listed = programs::programs().iter().find(|one| one.name == name);
        listed.unwrap().planned(None)
    };
    let with = |mut results: Results, names: &[&str], versions: &[(&str, &str)]| {
        results.plan.workloads = names.iter().map(|name| planned(name)).collect();
        for cell in &mut results.cells {
            cell.workload = names[0].into();
        }
        let owned = |(name, version): &(&str, &str)| (name.to_string(), version.to_string());
        results.environment.packages = versions.iter().map(owned).collect();
        results
    };
    let packages_of = |found: Results, new: Results| {
        write(&path, &found).unwrap();
        open(&path, new, true, &mut |_| ()).map(|all| all.environment.packages)
    };
    let (one, both) = (["x264"], ["x264", "mcl"]);
    let error = packages_of(
        with(measured(1), &one, &[("x264", "1")]),
        with(fresh("here"), &one, &[("x264", "2")]),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("package x264 (1 there, 2 here)"), "{error}");
    let new = || with(fresh("here"), &both, &[("mcl", "3"), ("x264", "2")]);
    let more = packages_of(with(measured(1), &one, &[("x264", "2")]), new()).unwrap();
    assert_eq!(more.len(), 2);
    // Nothing was measured with the old one yet.
    let none = packages_of(with(measured(0), &one, &[("x264", "1")]), new()).unwrap();
    assert_eq!(none["x264"], "2");
    // An older program's: what x264 was is not known and must not be made up.
    let unknown = packages_of(with(measured(1), &one, &[]), new()).unwrap();
    assert_eq!(unknown.keys().collect::<Vec<_>>(), ["mcl"]);
}

#[test]
fn a_file_of_somebody_elses_is_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.json");
    std::fs::write(&path, "{\"my\": \"notes\"}").unwrap();
    let error = open_in(folder.path(), "notes.json", false).0.unwrap_err().to_string();
    assert!(error.contains("not a results file"), "{error}");
    assert!(path.exists());
}

#[test]
fn nothing_to_resume_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = open_in(folder.path(), "none.json", true).0.unwrap_err().to_string();
    assert!(error.contains("nothing to resume"), "{error}");
}

#[test]
fn an_output_that_cannot_be_written_is_known_before_anything_runs() {
    for path in ["/proc/none/r.json", "/dev/null", "/", "/no/such/folder/r.json"] {
        let error = check_writable(Path::new(path)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains("hint:"), "{error}");
    }
    // As /dev/stdout is one; renaming would replace it.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("real.json"), "").unwrap();
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    assert!(check_writable(&link).is_err());
}

#[test]
fn results_without_a_place_are_named_by_when_they_began() {
    let path = default_path("quick", false, "2026-01-02T03:04:05Z").unwrap();
    assert!(path.ends_with("results/quick-20260102T030405Z.json"));
}
