// SPDX-License-Identifier: GPL-2.0-only
//! `paratick generate`: man pages and completions, for packages.

use anyhow::{Context, Result};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Write man pages and completions into a folder
#[derive(clap::Args)]
pub struct Args {
    /// Gets the folders man, bash, zsh and fish
    folder: PathBuf,
}

pub fn run<C: CommandFactory>(args: &Args) -> Result<ExitCode> {
    let command = shown(C::command());
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = args.folder.join(name);
        fs_err::create_dir_all(&folder)?;
        Ok(folder)
    };
    clap_mangen::generate_to(command.clone(), folder("man")?).context("writing man pages")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let name = shell.to_possible_value().expect("a shell with a name");
        complete(shell, command.clone(), &folder(name.get_name())?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Without the verbs that help does not show: completions would have them.
fn shown(command: clap::Command) -> clap::Command {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    clap::Command::new("paratick")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .propagate_version(true)
        .subcommand_required(true)
        .subcommands(verbs.collect::<Vec<_>>())
}

fn complete(shell: Shell, mut command: clap::Command, folder: &Path) -> Result<()> {
    clap_complete::generate_to(shell, &mut command, "paratick", folder)
        .with_context(|| format!("writing {shell}'s completions"))?;
    Ok(())
}
