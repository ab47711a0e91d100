//! `rooflens.toml`: options of a project, for both programs.
//!
//! The file becomes arguments of the command line, so that clap remains the only parser and its declarations the only
//! list of options. Keys are long flags. Types of the file's own would state each option twice. Defaults of clap would
//! not do: to clap a default is not present, and requirements and conflicts of options depend on presence.
//!
//! Each option has one source, the first of: flag, environment, `--profile`, tables of the file, the profile that the
//! file names, default. An option that conflicts with an option of a higher source is dropped.

#![forbid(unsafe_code)]

mod choice;
mod file;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command};

use choice::{Choice, Layer};
pub use file::FILE_NAME;
use file::File;

/// A table of the file and the commands that it is for.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The program that reads it.
    pub program: &'static str,
    /// Commands whose flags are its keys.
    pub commands: &'static [&'static str],
    /// Commands that read the keys which they share with `commands`: same flag, same heading of the help text.
    pub sharing: &'static [&'static str],
}

/// All tables. A command reads them in this order, so that the table of a single command comes first.
pub const TABLES: [Table; 6] = [
    table("serve", "rooflens-capture", &["serve"], &["tune"]),
    table(
        "capture",
        "rooflens-capture",
        &[
            "all", "snapshot", "baseline", "nsys", "ncu", "torch", "doctor",
        ],
        &[],
    ),
    table("serve-report", "rooflens", &["serve-report"], &[]),
    table("bench-report", "rooflens", &["bench-report"], &[]),
    table("predict", "rooflens", &["predict"], &[]),
    table(
        "report",
        "rooflens",
        &["report"],
        &[
            "inspect",
            "metrics",
            "kernels",
            "query",
            "compare",
            "serve-report",
            "bench-report",
            "predict",
        ],
    ),
];

const fn table(
    name: &'static str,
    program: &'static str,
    commands: &'static [&'static str],
    sharing: &'static [&'static str],
) -> Table {
    Table {
        name,
        program,
        commands,
        sharing,
    }
}

/// Flags about the project file itself; they are no keys of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Project file")]
pub struct ConfigFlags {
    /// Read options from FILE instead of rooflens.toml in this folder or the nearest folder above it
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ignore rooflens.toml
    #[arg(long, global = true, conflicts_with = "config")]
    pub no_config: bool,
    /// Print each option with its value and its source, and do nothing else
    #[arg(long, global = true)]
    pub show_config: bool,
}

const CONFIG_FLAGS: [&str; 3] = ["config", "no-config", "show-config"];

/// Why the project file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    /// Another user wrote it.
    #[error(
        "{} belongs to neither the owner of the working folder nor root: name it with --config, or ignore it with --no-config",
        .0.display()
    )]
    Owner(PathBuf),
    /// A line is wrong.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Options that are valid do not fit together.
    #[error("with {}: {}", .0.display(), .1)]
    Together(PathBuf, String),
    /// There is no profile of this name.
    #[error("no profile is named '{0}'; there are {1}")]
    Profile(String, String),
}

impl ConfigError {
    fn at(path: &Path, line: usize, message: String) -> Self {
        Self::Line {
            path: path.to_owned(),
            line,
            message,
        }
    }
}

/// A program that reads the file.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Name of the program, as in [`TABLES`].
    pub name: &'a str,
    /// Built-in profiles: TOML with tables `[profile.NAME]`, keys as in `[capture]`.
    pub profiles: &'a str,
    /// The working folder.
    pub folder: &'a Path,
}

/// What the command line means with the project file.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Arguments to parse, and the file with options among them.
    Run(Vec<OsString>, Option<PathBuf>),
    /// The answer to `--show-config`.
    Show(String),
}

impl Program<'_> {
    /// Arguments with those of the project file. Where the arguments alone are wrong, they stay as they are: the
    /// program's parser refuses them.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, has an unknown key or a wrong value, or names an unknown profile.
    pub fn command_line(
        &self,
        command: &Command,
        mut arguments: Vec<OsString>,
    ) -> Result<CommandLine, ConfigError> {
        let Some(given) = parsed(command, &arguments) else {
            return Ok(CommandLine::Run(arguments, None));
        };
        let mut built = command.clone();
        built.build();
        let subcommand = given
            .subcommand()
            .and_then(|(name, given)| Some((built.find_subcommand(name)?, given)));
        let Some((subcommand, given)) = subcommand else {
            return Ok(CommandLine::Run(arguments, None));
        };
        if self.tables(subcommand.get_name()).next().is_none() {
            return Ok(CommandLine::Run(arguments, None));
        }
        let file = self.file(given)?.unwrap_or_default();
        let builtin = File::builtin(self.profiles)?;
        for file in [&file, &builtin] {
            self.check(&built, file)?;
        }
        let layers = self.layers(subcommand.get_name(), given, &file, &builtin)?;
        let choice = Choice::of(&built, subcommand, given, &layers);
        let end = arguments.iter().position(|argument| argument == "--");
        let end = end.unwrap_or(arguments.len());
        arguments.splice(end..end, choice.arguments.iter().cloned());
        if let Err(error) = command.clone().try_get_matches_from(&arguments)
            && !matches!(error.kind(), ErrorKind::MissingRequiredArgument)
        {
            return Err(ConfigError::Together(file.path, choice::message(&error)));
        }
        if given.get_flag("show_config") {
            let effective = parsed(command, &arguments);
            let effective = effective.as_ref().and_then(|matches| matches.subcommand());
            let effective = effective.map_or(given, |(_, matches)| matches);
            let text = show::settings(self.name, subcommand, effective, &file, &choice);
            return Ok(CommandLine::Show(text));
        }
        let used = (!choice.arguments.is_empty()).then_some(file.path);
        Ok(CommandLine::Run(
            arguments,
            used.filter(|path| !path.as_os_str().is_empty()),
        ))
    }

    /// The tables that a command reads, those that win first.
    fn tables<'t>(&'t self, command: &'t str) -> impl Iterator<Item = &'static Table> + 't {
        TABLES.iter().filter(move |table| {
            table.program == self.name
                && (table.commands.contains(&command) || table.sharing.contains(&command))
        })
    }

    fn file(&self, given: &ArgMatches) -> Result<Option<File>, ConfigError> {
        if given.get_flag("no_config") {
            return Ok(None);
        }
        match given.get_one::<PathBuf>("config") {
            Some(path) => File::read(path).map(Some),
            None => File::find(self.folder),
        }
    }

    /// Checks all options of a file that are for this program, also those of other commands.
    fn check(&self, command: &Command, file: &File) -> Result<(), ConfigError> {
        for table in TABLES.iter().filter(|table| table.program == self.name) {
            if let Some(options) = file.table(table.name) {
                choice::check(command, table, file, options)?;
            }
            if table.name == "capture" {
                for profile in file.profiles() {
                    choice::check(command, table, file, profile)?;
                }
            }
        }
        Ok(())
    }

    /// The options for a command, those that win first.
    fn layers<'f>(
        &self,
        command: &str,
        given: &ArgMatches,
        file: &'f File,
        builtin: &'f File,
    ) -> Result<Vec<Layer<'f>>, ConfigError> {
        let mut layers: Vec<Layer<'f>> = self
            .tables(command)
            .filter_map(|table| {
                Some(Layer {
                    table,
                    file,
                    options: file.table(table.name)?,
                    is_profile: false,
                })
            })
            .collect();
        let Some(table) = TABLES
            .iter()
            .find(|table| table.commands.first() == Some(&command))
        else {
            return Ok(layers);
        };
        let Ok(Some(flag)) = given.try_get_one::<String>("profile") else {
            return Ok(layers);
        };
        let is_flag = choice::is_given(given, "profile");
        let of_file = layers
            .iter()
            .find_map(|layer| layer.options.text("profile"));
        let name = of_file.filter(|_| !is_flag).unwrap_or(flag);
        let files = [file, builtin].into_iter();
        let profile = files
            .clone()
            .find_map(|file| Some((file, file.profile(name)?)));
        let Some((file, options)) = profile else {
            let names: BTreeSet<&str> = files
                .flat_map(File::profiles)
                .map(|profile| profile.name.as_str())
                .collect();
            let names: Vec<&str> = names.into_iter().collect();
            return Err(ConfigError::Profile(name.to_owned(), names.join(", ")));
        };
        let position = if is_flag { 0 } else { layers.len() };
        layers.insert(
            position,
            Layer {
                table,
                file,
                options,
                is_profile: true,
            },
        );
        Ok(layers)
    }
}

/// The arguments as far as they can be parsed without what the file may add; none if they are wrong, or ask for help.
fn parsed(command: &Command, arguments: &[OsString]) -> Option<ArgMatches> {
    match command.clone().try_get_matches_from(arguments) {
        Ok(matches) => Some(matches),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let lenient = command.clone().ignore_errors(true);
            lenient.try_get_matches_from(arguments).ok()
        }
        Err(_) => None,
    }
}
