//! `rooflens.toml` as it is written: tables of options with their lines.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{ConfigError, TABLES};

/// Name of the project file.
pub const FILE_NAME: &str = "rooflens.toml";

/// Largest project file: a device has no end.
const MAX_BYTES: u64 = 1 << 20;

/// Table whose tables are profiles.
const PROFILES: &str = "profile";

/// A project file or the built-in profiles.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    tables: Vec<Options>,
    profiles: Vec<Options>,
}

/// A table of options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) settings: Vec<Setting>,
}

/// An option with its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

impl Options {
    /// The value of a key that is a text.
    pub(crate) fn text(&self, key: &str) -> Option<&String> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        match &setting.value {
            Value::Text(text) => Some(text),
            Value::Flag(_) | Value::List(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Flag(bool),
    Text(String),
    List(Vec<String>),
}

impl File {
    /// The project file of a folder: its own, or that of the nearest folder above it.
    pub(crate) fn find(folder: &Path) -> Result<Option<Self>, ConfigError> {
        let mut candidates = folder.ancestors().map(|parent| parent.join(FILE_NAME));
        let Some(path) = candidates.find(|path| path.is_file()) else {
            return Ok(None);
        };
        if !is_trusted(&path, folder) {
            return Err(ConfigError::Owner(path));
        }
        let path = match path.parent() == Some(folder) {
            true => PathBuf::from(FILE_NAME),
            false => path,
        };
        Self::read(&path).map(Some)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let refuse = |error| ConfigError::Read(path.to_owned(), error);
        let mut text = String::new();
        let file = fs::File::open(path).map_err(refuse)?;
        let mut limited = file.take(MAX_BYTES + 1);
        limited.read_to_string(&mut text).map_err(refuse)?;
        if text.len() as u64 > MAX_BYTES {
            let message = format!("it has more than {} MiB", MAX_BYTES >> 20);
            return Err(refuse(io::Error::new(io::ErrorKind::FileTooLarge, message)));
        }
        Self::parse(path, &text)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let refuse =
            |offset: usize, message: String| ConfigError::at(path, line(text, offset), message);
        let document = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            refuse(offset, error.message().to_owned())
        })?;
        let mut file = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        for (key, value) in document.get_ref() {
            let name: &str = key.get_ref();
            let is_known = name == PROFILES || TABLES.iter().any(|table| table.name == name);
            let refuse = |message| refuse(key.span().start, message);
            if !is_known {
                return Err(refuse(unknown_table(name)));
            }
            let Some(table) = value.get_ref().as_table() else {
                return Err(refuse(format!("'{name}' is a table: write [{name}]")));
            };
            match name == PROFILES {
                true => file.profiles = profiles(path, text, table)?,
                false => file.tables.push(options(path, text, name, table)?),
            }
        }
        Ok(file)
    }

    /// Profiles of the program itself.
    pub(crate) fn builtin(text: &str) -> Result<Self, ConfigError> {
        Self::parse(Path::new(""), text)
    }

    pub(crate) fn is_builtin(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    pub(crate) fn table(&self, name: &str) -> Option<&Options> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub(crate) fn profile(&self, name: &str) -> Option<&Options> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    pub(crate) fn profiles(&self) -> &[Options] {
        &self.profiles
    }

    /// A value that is a path: relative to the folder of the file.
    pub(crate) fn resolve(&self, value: &str) -> PathBuf {
        match self.path.parent() {
            Some(folder) if value != "-" => folder.join(value),
            _ => PathBuf::from(value),
        }
    }
}

fn profiles(path: &Path, text: &str, table: &DeTable<'_>) -> Result<Vec<Options>, ConfigError> {
    let mut profiles = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        let Some(table) = value.get_ref().as_table() else {
            let message = format!("'{name}' is a profile: write [{PROFILES}.{name}]");
            return Err(ConfigError::at(path, line(text, key.span().start), message));
        };
        profiles.push(options(path, text, name, table)?);
    }
    Ok(profiles)
}

fn options(
    path: &Path,
    text: &str,
    name: &str,
    table: &DeTable<'_>,
) -> Result<Options, ConfigError> {
    let mut settings = Vec::new();
    for (key, value) in table {
        let line = line(text, key.span().start);
        let key = key.get_ref().to_string();
        let Some(value) = parsed(value.get_ref()) else {
            let expected =
                "expected a string, a number, true, false, or a list of strings and numbers";
            return Err(ConfigError::at(path, line, format!("'{key}': {expected}")));
        };
        settings.push(Setting { key, value, line });
    }
    // The order of the file: messages are about the first fault.
    settings.sort_by_key(|setting| setting.line);
    Ok(Options {
        name: name.to_owned(),
        settings,
    })
}

/// The value; none for tables, dates, and lists of these.
fn parsed(value: &DeValue<'_>) -> Option<Value> {
    if let DeValue::Boolean(flag) = value {
        return Some(Value::Flag(*flag));
    }
    let Some(list) = value.as_array() else {
        return scalar(value).map(Value::Text);
    };
    let values = list
        .iter()
        .map(|value: &Spanned<DeValue<'_>>| scalar(value.get_ref()));
    values.collect::<Option<Vec<String>>>().map(Value::List)
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn unknown_table(name: &str) -> String {
    let known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    format!(
        "unknown key '{name}'; tables are {} and {PROFILES}.NAME",
        known.join(", ")
    )
}

fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Whether a file that was found belongs to the owner of the folder, or to root. A file names programs that are started:
/// another user could leave such a file in a folder that all users share.
#[cfg(unix)]
fn is_trusted(path: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (fs::metadata(path), fs::metadata(folder)) {
        (Ok(file), Ok(folder)) => [0, folder.uid()].contains(&file.uid()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_trusted(_: &Path, _: &Path) -> bool {
    true
}
