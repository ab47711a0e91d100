//! The description of a bundle's workload.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rooflens_schemas::{Workload, workload};
use rooflens_session::pattern::check_stages;

/// Reads the description; an empty one where the bundle has none.
///
/// # Errors
/// The reason for which it is refused, as the analyzer refuses it.
pub(super) fn of_bundle(bundle: &Path) -> Result<Workload, String> {
    let refused = |reason: String| format!("{} is not used: {reason}", workload::FILE_NAME);
    let text = match fs::read_to_string(bundle.join(workload::FILE_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Workload::default()),
        Err(error) => return Err(refused(error.to_string())),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let workload: Workload = toml::from_str(text).map_err(|mut error| {
        // Without the input the message is one line.
        error.set_input(None);
        refused(error.to_string())
    })?;
    check_stages(&workload.stages).map_err(|fault| {
        let (what, found, expected) = (fault.what, fault.found, fault.expected);
        refused(format!("{what} is {found}, expected {expected}"))
    })?;
    Ok(workload)
}
