// SPDX-License-Identifier: GPL-2.0-only
//! Runs that begin from a snapshot: like any other, and never with one that does not fit.

use crate::support::{kernel, sh, text, tools, Pair};
use assert_cmd::assert::OutputAssertExt;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// `paratick lab run -- sh -c LINE` with a cache of its own.
fn lab(cache: &Path, kernel: &Path, line: &str) -> Command {
    let mut lab = Command::new(assert_cmd::cargo::cargo_bin("paratick"));
    lab.args(["lab", "run", "--vcpus", "1", "--kernel"]).arg(kernel);
    lab.args(["--", "sh", "-c", line]).stdin(Stdio::null());
    lab.env("PARATICK_CACHE", cache).env("PARATICK_QEMU", tools().qemu);
    lab
}

fn run(cache: &Path, kernel: &Path) -> (String, String) {
    let Output { status, stdout, stderr } = lab(cache, kernel, "date +%s").output().unwrap();
    assert_eq!(status.code(), Some(0), "{}", text(&stderr));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let said = text(&stdout);
    // The time of day is the machine's, not that of the snapshot.
    assert!(said.trim().parse::<u64>().unwrap().abs_diff(now) < 30, "{said}");
    (said, text(&stderr))
}

/// The folders of whole snapshots.
fn snapshots(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("snapshot")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|dir| dir.join("about.json").exists()).collect()
}

fn unfinished(cache: &Path) -> usize {
    fs::read_dir(cache.join("snapshot/new")).map_or(0, Iterator::count)
}

/// Done to the folder of a snapshot.
type Damage<'a> = &'a dyn Fn(&Path);

#[test]
fn a_snapshot_that_does_not_fit_is_made_anew_and_that_is_said() {
    let cache = TempDir::new().unwrap();
    let cache = cache.path();
    // There is none yet: nothing is wrong, and nothing is said.
    assert_eq!(run(cache, &kernel()).1, "");
    let [snapshot] = &snapshots(cache)[..] else { panic!("one snapshot") };
    let made = fs::metadata(snapshot.join("memory")).unwrap().modified().unwrap();
    assert_eq!(run(cache, &kernel()).1, "");
    assert_eq!(fs::metadata(snapshot.join("memory")).unwrap().modified().unwrap(), made);

    let damages: [(&str, Damage); 4] = [
        ("its memory was written to", &|dir| {
            let memory = fs::File::options().write(true).open(dir.join("memory")).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&memory, b"damage", 1 << 20).unwrap();
        }),
        ("its state has changed", &|dir| {
            let state = fs::File::options().write(true).open(dir.join("state")).unwrap();
            state.set_len(1000).unwrap();
        }),
        ("about.json cannot be read", &|dir| fs::write(dir.join("about.json"), "{").unwrap()),
        ("it is not whole", &|dir| fs::remove_file(dir.join("about.json")).unwrap()),
    ];
    for (why, damage) in damages {
        damage(snapshot);
        let (_, error) = run(cache, &kernel());
        let begin = format!("warning: the snapshot of this host cannot be used ({why}");
        assert!(error.starts_with(&begin) && error.lines().count() == 1, "{error}");
        assert_eq!(run(cache, &kernel()).1, "", "after: {why}");
    }

    let other = cache.join("other");
    fs::copy(kernel(), &other).unwrap();
    let error = run(cache, &other).1;
    assert_eq!(
        error,
        "warning: the snapshot of this host has another kernel: booting it once more\n"
    );
    assert_eq!(snapshots(cache).len(), 2);
    assert_eq!(unfinished(cache), 0);
}

#[test]
fn without_room_for_a_snapshot_the_host_boots() {
    let cache = TempDir::new().unwrap();
    let lab = lab(cache.path(), &kernel(), "echo done");
    let words = [lab.get_program()].into_iter().chain(lab.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!(
        "mount -t tmpfs -o size=300m none {} && exec {}",
        cache.path().display(),
        words.join(" ")
    );
    let mut small = Command::new("unshare");
    small.args(["-m", "sh", "-c", &line]).stdin(Stdio::null());
    small.env("PARATICK_CACHE", cache.path()).env("PARATICK_QEMU", tools().qemu);
    let assert = small.assert().code(0).stdout("done\n");
    let error = text(&assert.get_output().stderr);
    assert!(error.starts_with("warning: no snapshot of this host is kept: "), "{error}");
    assert!(error.contains("MiB are free in ") && error.lines().count() == 1, "{error}");
}

#[test]
fn two_runs_at_once_make_one_snapshot_and_do_not_disturb_each_other() {
    let cache = TempDir::new().unwrap();
    for round in 0..2 {
        let runs = [0, 1].map(|_| {
            let mut lab = lab(cache.path(), &kernel(), "echo x >/run/x; cat /run/x");
            lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        for run in runs {
            let output = run.wait_with_output().unwrap();
            let said = (text(&output.stdout), text(&output.stderr));
            assert_eq!(said, ("x\n".into(), String::new()), "{round}");
        }
        assert_eq!(snapshots(cache.path()).len(), 1);
    }
}

#[test]
fn a_run_that_is_ended_while_it_makes_a_snapshot_leaves_no_half_of_one() {
    let cache = TempDir::new().unwrap();
    for signal in ["INT", "KILL"] {
        let mut child = lab(cache.path(), &kernel(), "true").spawn().unwrap();
        let begun = Instant::now();
        while unfinished(cache.path()) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is made");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(500));
        Command::new("kill").args(["-s", signal, &child.id().to_string()]).assert().success();
        child.wait().unwrap();
        assert_eq!(unfinished(cache.path()), usize::from(signal == "KILL"));
        assert!(snapshots(cache.path()).is_empty());
    }
    // What could not be removed is swept up by the next.
    assert_eq!(run(cache.path(), &kernel()).1, "");
    assert_eq!((snapshots(cache.path()).len(), unfinished(cache.path())), (1, 0));
}

#[test]
fn inside_is_the_same_from_a_snapshot_as_after_a_boot() {
    // What differs from boot to boot is not in it.
    let look = "uname -r; nproc; mount | grep -v tmpfs | cut -d' ' -f1,3,5 | sort; ls / /run; \
                ls /run/paratick | sed s/guest.*/guest/; cat /proc/cmdline; id; \
                readlink /proc/self/root";
    let [booted, woken] = [Pair::boot(1, "paratick"), Pair::resume(1, "paratick")].map(|pair| {
        let said = [pair.guest.exec(sh(look)).unwrap(), pair.host.exec(sh(look)).unwrap()];
        pair.guest.shutdown().unwrap();
        said.map(|said| text(&said.stdout))
    });
    assert_eq!(booted, woken);
}
