//! What a user may change of the PDF: its templates and the brand on it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::args::Templates;
use super::error::CliError;
use super::files::Staged;
use super::term::Term;
use crate::bundle;
use crate::render::TEMPLATES;
use crate::render::brand::{Brand, MAX_LOGO};

/// Bytes that all templates may have together.
const MAX_TEMPLATES: usize = 64 << 20;

/// `rooflens templates export`.
pub(super) fn run(
    Templates::Export { folder, force }: &Templates,
    term: &mut Term,
) -> Result<(), CliError> {
    let taken = TEMPLATES
        .iter()
        .map(|(path, _)| folder.join(path))
        .find(|path| path.exists());
    if let Some(path) = taken.filter(|_| !force) {
        return Err(CliError::Usage(format!(
            "{} exists; --force overwrites it",
            path.display()
        )));
    }
    let mut files = Staged::new(folder, None, *force)?;
    TEMPLATES
        .iter()
        .try_for_each(|(path, text)| files.add(path, text))?;
    files.commit()?;
    term.note(&format!(
        "wrote {}: {} files",
        folder.display(),
        TEMPLATES.len()
    ));
    Ok(())
}

/// The brand of a TOML file, with its logo.
pub(super) fn brand(file: &Path) -> Result<Brand, CliError> {
    let refused = |reason: String| {
        CliError::Usage(format!(
            "cannot use brand {}: {}",
            file.display(),
            reason.trim_end()
        ))
    };
    let text = bundle::argument_text(file).map_err(|error| refused(error.to_string()))?;
    let resolve = |path: &str| {
        let mut bytes = Vec::new();
        let logo = fs::File::open(file.parent().unwrap_or(Path::new("")).join(path))?;
        logo.take(MAX_LOGO + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Brand::from_toml(&text, resolve).map_err(|error| refused(error.to_string()))
}

/// The files of a template folder, by path relative to it.
pub(super) fn load(folder: Option<&Path>) -> Result<BTreeMap<String, Vec<u8>>, CliError> {
    let mut files = BTreeMap::new();
    let Some(root) = folder else { return Ok(files) };
    let unreadable = |path: &Path, error: std::io::Error| {
        CliError::Usage(format!("cannot read templates {}: {error}", path.display()))
    };
    let refused =
        |path: &Path, reason| unreadable(path, std::io::Error::new(ErrorKind::Unsupported, reason));
    let (mut folders, mut total_bytes) = (vec![root.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))? {
            let entry = entry.map_err(|error| unreadable(&folder, error))?;
            let path = entry.path();
            let kind = entry.file_type();
            let kind = kind.map_err(|error| unreadable(&path, error))?;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            // A link may lead to what is no template, and into a circle.
            if !kind.is_file() {
                return Err(refused(&path, "it is a link or a device and no file"));
            }
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .replace('\\', "/");
            let bytes = bundle::argument(&path).map_err(|error| unreadable(&path, error))?;
            total_bytes += bytes.len();
            if total_bytes > MAX_TEMPLATES {
                return Err(refused(&path, "the templates have more than 64 MiB"));
            }
            files.insert(name, bytes);
        }
    }
    Ok(files)
}
