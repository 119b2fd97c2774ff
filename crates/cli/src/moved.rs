// SPDX-License-Identifier: GPL-2.0-only
//! Spellings of before: the verbs that now look at this machine once booted the lab, too.

use clap::CommandFactory;
use paratick_core::shell::quote;

/// What a command line that was right before is today, if that can be parsed.
pub fn today<C: CommandFactory>(words: &[String]) -> Option<String> {
    let (verb, options) = match words {
        [tune] if tune == "tune" => return Some("paratick halts".into()),
        [tune, halt_poll, options @ ..] if tune == "tune" && halt_poll == "halt-poll" => {
            ("halts", options)
        }
        [verb, options @ ..] if ["noise", "idle", "timerlat"].contains(&verb.as_str()) => {
            (verb.as_str(), options)
        }
        _ => return None,
    };
    let (options, lab) = renamed(verb, options);
    let place: &[&str] = if lab { &["paratick", "lab", verb] } else { &["paratick", verb] };
    let line: Vec<String> = place.iter().map(|word| word.to_string()).chain(options).collect();
    C::command().try_get_matches_from(&line).ok()?;
    Some(line.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}

/// And whether the lab is what was meant.
fn renamed(verb: &str, options: &[String]) -> (Vec<String>, bool) {
    let mut lab = true;
    let mut now = Vec::new();
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            now.push(word.clone());
            now.extend(rest.by_ref().cloned());
            break;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (word.as_str(), None),
        };
        let mut value = || value.clone().or_else(|| rest.next().cloned()).unwrap_or_default();
        match name {
            "--host" => match value().as_str() {
                "here" => lab = false,
                other => now.extend(["--host".into(), other.into()]),
            },
            "--time" => now.extend(["--for".into(), value()]),
            "--rtla" => now.extend(["--format".into(), format!("rtla-{}", value())]),
            "--gaps" | "--windows" => drop(value()),
            "--side" if verb == "timerlat" => drop(value()),
            _ => {
                lab &= name != "--recording" && name != "--top";
                now.push(word.clone());
            }
        }
    }
    (now, lab)
}
