//! The answer to `--show-config`: a table of the file with each option of a command, and its source as a comment.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::choice::{self, Choice};
use crate::file::File;

pub(crate) fn settings(
    program: &str,
    command: &Command,
    effective: &ArgMatches,
    file: &File,
    choice: &Choice,
) -> String {
    let lines: Vec<(String, String)> = command
        .get_arguments()
        .filter(|arg| choice::is_option(arg) && !arg.is_hide_set())
        .map(|arg| (line(arg, effective), source(arg, effective, choice)))
        .collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max();
    let width = width.unwrap_or_default();
    let path = match file.path.as_os_str().is_empty() {
        true => "no project file".to_owned(),
        false => format!("project file {}", file.path.display()),
    };
    let mut text = format!("# {program} {}: {path}\n", command.get_name());
    for (line, source) in lines {
        text.push_str(&format!("{line:width$}  # {source}\n"));
    }
    text
}

/// The option as a line of the file; a comment if it has no value.
fn line(arg: &Arg, effective: &ArgMatches) -> String {
    let key = arg.get_long().unwrap_or_default();
    let raw = effective.get_raw(arg.get_id().as_str());
    let raw = raw.into_iter().flatten();
    let values: Vec<String> = raw
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return format!("{key} = {}", effective.get_flag(arg.get_id().as_str()));
    }
    let values: Vec<String> = values.into_iter().map(quoted).collect();
    match (values.as_slice(), choice::takes_list(arg)) {
        ([], _) => format!("# {key}"),
        ([value], false) => format!("{key} = {value}"),
        (values, _) => format!("{key} = [{}]", values.join(", ")),
    }
}

fn quoted(value: String) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value,
        _ => toml::Value::String(value).to_string(),
    }
}

fn source(arg: &Arg, effective: &ArgMatches, choice: &Choice) -> String {
    if let Some(source) = choice.sources.get(arg.get_long().unwrap_or_default()) {
        return source.clone();
    }
    match effective.value_source(arg.get_id().as_str()) {
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => {
            let variable = arg.get_env().unwrap_or_default();
            format!("environment, {}", variable.to_string_lossy())
        }
        _ => "default".to_owned(),
    }
}
