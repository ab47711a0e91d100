//! Which options of the file are in effect, and as which arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::builder::ValueHint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::file::{File, Options, Setting, Value};
use crate::{CONFIG_FLAGS, ConfigError, Table};

/// Options that come from one place.
pub(crate) struct Layer<'f> {
    pub(crate) table: &'static Table,
    pub(crate) file: &'f File,
    pub(crate) options: &'f Options,
    pub(crate) is_profile: bool,
}

/// Options of all layers that are in effect.
#[derive(Default)]
pub(crate) struct Choice {
    pub(crate) arguments: Vec<OsString>,
    /// Where the value of a key comes from.
    pub(crate) sources: BTreeMap<String, String>,
}

impl Choice {
    pub(crate) fn of(
        command: &Command,
        subcommand: &Command,
        given: &ArgMatches,
        layers: &[Layer<'_>],
    ) -> Self {
        let mut choice = Self::default();
        for layer in layers {
            let higher: Vec<String> = choice.sources.keys().cloned().collect();
            let is_set = |arg: &Arg| {
                let key = arg.get_long().unwrap_or_default();
                is_given(given, arg.get_id().as_str()) || higher.iter().any(|name| name == key)
            };
            for setting in &layer.options.settings {
                let Some(arg) = shared(command, subcommand, layer.table, &setting.key) else {
                    continue;
                };
                if !is_set(arg) && !conflicts(subcommand, arg).into_iter().any(is_set) {
                    choice.arguments.extend(arguments(layer.file, setting, arg));
                    choice
                        .sources
                        .insert(setting.key.clone(), layer.source(setting));
                }
            }
        }
        choice
    }
}

impl Layer<'_> {
    fn source(&self, setting: &Setting) -> String {
        let path = self.file.path.display();
        let name = &self.options.name;
        match (self.is_profile, self.file.is_builtin()) {
            (true, true) => format!("profile {name}"),
            (true, false) => format!("profile {name}, {path}:{}", setting.line),
            (false, _) => format!("{path}:{}", setting.line),
        }
    }
}

/// Whether an option is a flag of the command line or set by the environment.
pub(crate) fn is_given(given: &ArgMatches, id: &str) -> bool {
    let source = given
        .try_contains_id(id)
        .ok()
        .and_then(|_| given.value_source(id));
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

/// Whether an argument is an option that the file may have.
pub(crate) fn is_option(arg: &Arg) -> bool {
    let is_answer = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    let long = arg.get_long();
    !is_answer && long.is_some_and(|long| !CONFIG_FLAGS.contains(&long))
}

fn option<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    let mut options = command.get_arguments().filter(|arg| is_option(arg));
    options.find(|arg| arg.get_long() == Some(key))
}

/// The first command of a table that has the key, with its argument.
fn declared<'c>(command: &'c Command, table: &Table, key: &str) -> Option<(&'c Command, &'c Arg)> {
    table.commands.iter().find_map(|name| {
        let subcommand = command.find_subcommand(name)?;
        Some((subcommand, option(subcommand, key)?))
    })
}

/// The argument of a command for a key of a table, if the command shares the key.
fn shared<'c>(
    command: &Command,
    subcommand: &'c Command,
    table: &Table,
    key: &str,
) -> Option<&'c Arg> {
    let arg = option(subcommand, key)?;
    let (_, declared) = declared(command, table, key)?;
    (arg.get_help_heading() == declared.get_help_heading()).then_some(arg)
}

/// The options that conflict with one; either of two may declare it.
fn conflicts<'c>(command: &'c Command, arg: &'c Arg) -> Vec<&'c Arg> {
    if arg.is_global_set() {
        return Vec::new();
    }
    let mut conflicts = command.get_arg_conflicts_with(arg);
    for other in command
        .get_arguments()
        .filter(|other| !other.is_global_set())
    {
        let of_other = command.get_arg_conflicts_with(other);
        if of_other
            .iter()
            .any(|conflict| conflict.get_id() == arg.get_id())
        {
            conflicts.push(other);
        }
    }
    conflicts
}

/// A setting as arguments: `--key`, or `--key=VALUE` for each value.
fn arguments(file: &File, setting: &Setting, arg: &Arg) -> Vec<OsString> {
    let key = &setting.key;
    let values = match &setting.value {
        Value::Flag(true) => return vec![format!("--{key}").into()],
        Value::Flag(false) => return Vec::new(),
        Value::Text(text) => std::slice::from_ref(text),
        Value::List(list) => list,
    };
    let is_path = arg.get_value_hint() == ValueHint::AnyPath;
    let argument = |value: &String| {
        let mut argument = OsString::from(format!("--{key}="));
        match is_path {
            true => argument.push(file.resolve(value)),
            false => argument.push(value),
        }
        argument
    };
    values.iter().map(argument).collect()
}

/// Checks each option alone.
pub(crate) fn check(
    command: &Command,
    table: &Table,
    file: &File,
    options: &Options,
) -> Result<(), ConfigError> {
    for setting in &options.settings {
        let key = &setting.key;
        let fault = match declared(command, table, key) {
            None => Some(format!(
                "unknown key '{key}'{}",
                suggestion(command, table, key)
            )),
            Some((_, arg)) if !fits(arg, &setting.value) => {
                Some(format!("'{key}': expected {}", expected(arg)))
            }
            Some((subcommand, arg)) => refused(command, subcommand, arguments(file, setting, arg))
                .map(|message| format!("'{key}': {message}")),
        };
        if let Some(message) = fault {
            return Err(ConfigError::at(&file.path, setting.line, message));
        }
    }
    Ok(())
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

pub(crate) fn takes_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn fits(arg: &Arg, value: &Value) -> bool {
    match value {
        Value::Flag(_) => !takes_value(arg),
        Value::Text(_) => takes_value(arg),
        Value::List(_) => takes_list(arg),
    }
}

fn expected(arg: &Arg) -> &'static str {
    match (takes_value(arg), takes_list(arg)) {
        (false, _) => "true or false",
        (true, false) => "a string or a number",
        (true, true) => "a string, a number, or a list of these",
    }
}

/// Why clap refuses the arguments; an option alone may lack others.
fn refused(command: &Command, subcommand: &Command, arguments: Vec<OsString>) -> Option<String> {
    let error = attempt(command, subcommand.get_name(), arguments)?;
    (error.kind() != ErrorKind::MissingRequiredArgument).then(|| message(&error))
}

/// The nearest key, as clap finds it.
fn suggestion(command: &Command, table: &Table, key: &str) -> String {
    let argument = OsString::from(format!("--{key}"));
    let nearest = table.commands.iter().find_map(|name| {
        let error = attempt(command, name, vec![argument.clone()])?;
        match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(flag)) => Some(flag.trim_start_matches("--").to_owned()),
            Some(ContextValue::Strings(flags)) => {
                Some(flags.first()?.trim_start_matches("--").to_owned())
            }
            _ => None,
        }
    });
    nearest
        .map(|nearest| format!("; the nearest key is '{nearest}'"))
        .unwrap_or_default()
}

fn attempt(command: &Command, subcommand: &str, arguments: Vec<OsString>) -> Option<clap::Error> {
    let words = [command.get_name(), subcommand].map(OsString::from);
    let words = words.into_iter().chain(arguments);
    command.clone().try_get_matches_from(words).err()
}

/// The first paragraph of an error of clap in a line.
pub(crate) fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
