// SPDX-License-Identifier: GPL-2.0-only
//! The results file on disk: whole at any time, continued where it was interrupted.

mod lock;

use anyhow::{Context, Result};
use lock::Lock;
use paratick_build::cache;
use paratick_core::{
    catalogue::programs,
    event::{Events, Warning},
    results::{self, differences, Cell, Difference, ReadError, Results},
};
use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

static WRITING: Mutex<()> = Mutex::new(());

/// An output that cannot be used as asked; nothing has been measured.
#[derive(Debug, thiserror::Error)]
pub enum BadOutput {
    #[error("cannot write results to {}: {why}\n\
        hint: name a file in a folder you can write to", path.display())]
    NotWritable { path: PathBuf, why: String },
    #[error("{} cannot be continued: {why}", path.display())]
    NotResults { path: PathBuf, why: String },
    #[error("{} was measured in another environment and cannot be continued here: {what}\n\
        hint: omit --resume (the file is kept under another name), or name another \
        --output", path.display())]
    OtherEnvironment { path: PathBuf, what: String },
    #[error("{} cannot be continued with this selection: it also holds {what}\n\
        hint: name that too, or omit --resume (the file is kept under another \
        name)", path.display())]
    OtherSelection { path: PathBuf, what: String },
    #[error("another paratick is measuring into {}\n\
        hint: wait for it, or name another --output", path.display())]
    Busy { path: PathBuf },
    #[error("there is nothing to resume: {what}\nhint: omit --resume to start over")]
    Nothing { what: String },
}

/// Waits for a file that is being written, lets no other be begun, and gives up what is occupied:
/// for a signal that ends the program.
pub fn finish_writing() {
    std::mem::forget(WRITING.lock().unwrap_or_else(PoisonError::into_inner));
    lock::clean_up();
}

/// Where results go that nobody gave a place: named by when they began.
pub fn default_path(bench: &str, folder: bool, started: &str) -> Result<PathBuf> {
    let time: String = started.chars().filter(|c| !":-".contains(*c)).collect();
    let end = if folder { "" } else { ".json" };
    Ok(cache::dir()?.join("results").join(format!("{bench}-{time}{end}")))
}

/// The newest results that nobody gave a place.
pub fn latest(bench: &str, is_folder: bool) -> Result<PathBuf> {
    let folder = cache::dir()?.join("results");
    let prefix = format!("{bench}-");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    files
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix)
                && path.is_dir() == is_folder
                // Not the time line beside it.
                && (is_folder || name.matches('.').count() == 1 && name.ends_with(".json"))
        })
        .max()
        .ok_or_else(|| {
            let what = format!("no results in {}", folder.display());
            BadOutput::Nothing { what }.into()
        })
}

/// Keeps other benches from measuring into `path` until it is dropped, also by a crash: of two that
/// write the whole file, the later one would drop what the other has found.
pub fn occupy(path: &Path) -> Result<Lock> {
    let locks = cache::dir()?.join("work");
    fs_err::create_dir_all(&locks)?;
    let key = cache::key([std::path::absolute(path)?.as_os_str().as_encoded_bytes()]);
    let lock = Lock::take(&locks.join(format!("results-{key}.lock")))?;
    lock.ok_or_else(|| BadOutput::Busy { path: path.into() }.into())
}

/// Replaces the file at once, or leaves it as it was.
pub fn write(path: &Path, results: &Results) -> Result<()> {
    let mut text = serde_json::to_string_pretty(results).context("results are plain data")?;
    text.push('\n');
    replace(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// The same of any file.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = tempfile::Builder::new()
        .prefix(".paratick-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Fails early where `path` could not be written, or continued, hours later.
pub fn check(path: &Path, resume: bool) -> Result<()> {
    check_writable(path)?;
    match read_if_there(path)? {
        Some(text) => parse(path, &text).map(drop),
        None if resume => Err(nothing_at(path).into()),
        None => Ok(()),
    }
}

fn parse(path: &Path, text: &str) -> Result<Results> {
    let bad = |why: ReadError| BadOutput::NotResults { path: path.into(), why: why.to_string() };
    Ok(results::read(text).map_err(bad)?)
}

fn nothing_at(path: &Path) -> BadOutput {
    let what = format!("{} does not exist", path.display());
    BadOutput::Nothing { what }
}

/// Makes the folder, if it is in our own cache.
pub fn check_writable(path: &Path) -> Result<(), BadOutput> {
    let bad = |why: String| BadOutput::NotWritable { path: path.to_path_buf(), why };
    // A rename would put a plain file in the place of a device, or of a link such as /dev/stdout.
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(bad("it exists and is not a plain file".into()));
    }
    if path.file_name().is_none() {
        return Err(bad("it has no file name".into()));
    }
    let in_cache = cache::dir().is_ok_and(|cache| path.starts_with(cache));
    if in_cache {
        std::fs::create_dir_all(folder(path)).map_err(|error| bad(error.to_string()))?;
    }
    tempfile::tempfile_in(folder(path)).map(drop).map_err(|error| bad(error.to_string()))
}

/// Results at `path` that `fresh` continues: those that agree in the facts that matter.  Without
/// `resume`, a finished or foreign-made measurement is kept aside as `.old` and measured anew.
pub fn open(path: &Path, fresh: Results, resume: bool, events: Events) -> Result<Results> {
    let Some(text) = read_if_there(path)? else {
        return if resume { Err(nothing_at(path).into()) } else { Ok(fresh) };
    };
    let mut found = parse(path, &text)?;
    // The version of a program without samples keeps nothing from going on.
    let measured = packages_of_cells(&found);
    found.environment.packages.retain(|name, _| measured.contains(name.as_str()));
    if let Some(what) = difference(&found, &fresh) {
        if resume {
            return Err(BadOutput::OtherEnvironment { path: path.into(), what }.into());
        }
        return set_aside(path, &what, fresh, events);
    }
    if let Some(what) = left_out(&found, &fresh) {
        if resume {
            return Err(BadOutput::OtherSelection { path: path.into(), what }.into());
        }
        return set_aside(path, &format!("it also holds {what}"), fresh, events);
    }
    let mut plan = fresh.plan.clone();
    // Rounds that were added because intervals were too wide.
    let most = plan.rounds_at_most.unwrap_or(0);
    plan.rounds = plan.rounds.max(found.plan.rounds.min(most));
    let mut environment = found.environment.clone();
    // A file of an older program does not say what its samples were measured with.
    let mut versions = fresh.environment.packages.clone();
    versions.retain(|name, _| !measured.contains(name.as_str()));
    environment.packages.extend(versions);
    let continued = Results {
        plan,
        environment,
        // The first measurement's own: its guests' command lines are in it.
        ..found
    };
    if continued.is_complete() && !continued.wants_another_round() && !resume {
        return set_aside(path, "it is complete", fresh, events);
    }
    Ok(continued)
}

fn set_aside(path: &Path, why: &str, fresh: Results, events: Events) -> Result<Results> {
    let named = |ending: String| {
        let mut old = path.as_os_str().to_owned();
        old.push(ending);
        PathBuf::from(old)
    };
    let numbered = (2..).map(|number: u32| named(format!(".old{number}")));
    let mut free = [named(".old".into())].into_iter().chain(numbered).filter(|old| !old.exists());
    let old = free.next().context("there is always a further number")?;
    fs_err::rename(path, &old)?;
    events(Warning::MeasuredAnew { output: path, kept_as: &old, why }.into());
    Ok(fresh)
}

fn difference(found: &Results, fresh: &Results) -> Option<String> {
    if let Some(workload) = changed_workload(found, fresh) {
        return Some(format!("workload {workload} differs"));
    }
    let say = |found: Difference| {
        let Difference { what, before, after } = found;
        format!("{what} ({before} there, {after} here)")
    };
    let differ = differences(found, fresh, |meets| meets.resume);
    let differ: Vec<_> = differ.into_iter().map(say).collect();
    (!differ.is_empty()).then(|| format!("they differ in {}", differ.join(", ")))
}

/// Measured, and not planned any more: with another plan the rest of the file would have none.
fn left_out(found: &Results, fresh: &Results) -> Option<String> {
    let (subjects, workloads) = (&fresh.plan.subjects, &fresh.plan.workloads);
    let planned = |cell: &Cell| workloads.iter().any(|one| one.workload == cell.workload);
    let mut left: Vec<String> = Vec::new();
    for cell in &found.cells {
        let what = match (planned(cell), subjects.contains(&cell.subject)) {
            (true, true) => continue,
            (false, _) => cell.workload.clone(),
            (true, false) => cell.subject.to_string(),
        };
        if !left.contains(&what) {
            left.push(what);
        }
    }
    (!left.is_empty()).then(|| left.join(", "))
}

/// A workload that both plan, and whose work or program differs.  A selection may differ.
fn changed_workload<'a>(found: &Results, fresh: &'a Results) -> Option<&'a str> {
    let old = &found.plan.workloads;
    let changed = fresh
        .plan
        .workloads
        .iter()
        .find(|new| old.iter().any(|old| old.workload == new.workload && old != *new));
    changed.map(|workload| workload.workload.as_str())
}

/// Of the programs that have samples.
fn packages_of_cells(results: &Results) -> BTreeSet<&'static str> {
    let has_cell = |name: &str| results.cells.iter().any(|cell| cell.workload == name);
    let planned = results.plan.workloads.iter();
    let measured = planned.filter(|planned| has_cell(&planned.workload));
    measured.flat_map(programs::packages).collect()
}

fn read_if_there(path: &Path) -> Result<Option<String>> {
    match fs_err::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(BadOutput::NotWritable { path: path.into(), why: error.to_string() }.into())
        }
    }
}

/// Where a file is, or would be.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
