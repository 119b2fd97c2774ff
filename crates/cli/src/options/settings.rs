// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the host: an option for each row of core's table.

use crate::errors::usage;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use paratick_core::subject::{Choice, HostSetting, HostSettings, HOST_SETTINGS};
use paratick_machine::spec::Backend;

/// The values that were given for each setting, in the table's order.
#[derive(Clone, Debug)]
pub struct SettingOptions([Vec<Choice>; HOST_SETTINGS.len()]);

fn option(setting: &'static HostSetting) -> Arg {
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.unit)
        .action(ArgAction::Append)
        .value_delimiter(',')
        .value_parser(move |text: &str| setting.choose(text))
        .help(format!(
            "Host setting ({}): {}; a bench takes several values [default: {}]{}",
            setting.unit,
            setting.about,
            setting.default,
            presets(setting)
        ))
}

fn presets(setting: &HostSetting) -> String {
    let names: Vec<_> = setting.presets.iter().map(|preset| preset.name).collect();
    match names[..] {
        [] => String::new(),
        _ => format!(" [names: {}]", names.join(", ")),
    }
}

impl Args for SettingOptions {
    fn augment_args(command: Command) -> Command {
        command.args(HOST_SETTINGS.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: HostSetting| matches.get_many(setting.name);
        Ok(SettingOptions(
            HOST_SETTINGS.map(|setting| {
                given(setting).map_or(Vec::new(), |values| values.cloned().collect())
            }),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingOptions {
    pub fn given(&self) -> bool {
        self.0.iter().any(|values| !values.is_empty())
    }

    /// Every combination of what was given; the machine's own where it is the host.
    pub fn all(&self, backend: &dyn Backend) -> Result<Vec<HostSettings>> {
        let mut all = vec![backend.settings()?];
        for (setting, values) in HOST_SETTINGS.iter().zip(&self.0) {
            if values.is_empty() {
                continue;
            }
            if !backend.boots() {
                return Err(usage(format!(
                    "--{} is for a host in the lab\n\
                     hint: omit it with --host {}, and write to {}",
                    setting.name,
                    backend.name(),
                    setting.file
                )));
            }
            super::once(values, setting.name, &format!("--{}", setting.name))?;
            let pairs = all.iter().flat_map(|one| values.iter().map(|value| one.with(value)));
            all = pairs.collect();
        }
        self.check_used(&all)?;
        Ok(all)
    }

    /// Fails where something was given that none of these hosts looks at.
    fn check_used(&self, all: &[HostSettings]) -> Result<()> {
        let given = HOST_SETTINGS.iter().zip(&self.0).filter(|(_, values)| !values.is_empty());
        for (HostSetting { name, .. }, _) in given {
            let unused: Option<Vec<_>> = all.iter().map(|one| one.unused(name)).collect();
            if let Some(why) = unused.and_then(|all| all.first().copied()) {
                let other = match *name {
                    "halt-poll-cost" => "--halt-poll learned",
                    _ if why.contains("grow") => "--halt-poll-grow 2",
                    _ => "--halt-poll default",
                };
                return Err(usage(format!(
                    "--{name} has no effect where {why}\n\
                     hint: omit --{name}, or give {other}"
                )));
            }
        }
        Ok(())
    }

    pub fn single(&self, backend: &dyn Backend) -> Result<HostSettings> {
        match self.all(backend)?[..] {
            [one] => Ok(one),
            _ => Err(usage(
                "one host has one value of each setting\n\
                 hint: give one value; `paratick bench` measures under several",
            )),
        }
    }
}
