//! What lies aside until it is whole, for whoever ends the program before it is, and where there is room for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::{Builder, NamedTempFile, TempDir};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Folders for temporary files where the one of the system has no room.
static PLACES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What the names of files begin with that lie in such a place.
const PREFIX: &str = ".rooflens-";

/// Notes a file or folder that is to be removed if the program ends now.
pub fn remember(path: &Path) {
    PATHS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(path.to_owned());
}

/// All that were noted; most are gone, and their names are not used again.
pub fn remembered() -> Vec<PathBuf> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// States where else temporary files may lie, in the order of preference.
pub fn allow(places: Vec<PathBuf>) {
    *PLACES.lock().unwrap_or_else(PoisonError::into_inner) = places;
}

fn places() -> Vec<PathBuf> {
    PLACES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// A temporary folder.
///
/// # Errors
/// No place takes one: the error of the system's folder.
pub fn folder() -> io::Result<TempDir> {
    let made = Builder::new().prefix("rooflens-").tempdir();
    made.or_else(|error| {
        let other = |place: PathBuf| Builder::new().prefix(PREFIX).tempdir_in(place).ok();
        let folder = places().into_iter().find_map(other).ok_or(error)?;
        remember(folder.path());
        Ok(folder)
    })
}

/// A temporary file that `write` fills; begun again in the next place where there is no room for it.
pub(crate) fn file(
    write: impl Fn(&mut NamedTempFile) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let fill = |file: io::Result<NamedTempFile>| {
        let mut file = file?;
        write(&mut file)?;
        Ok(file)
    };
    let mut result = fill(NamedTempFile::new());
    for place in places() {
        if !result.as_ref().is_err_and(is_no_room) {
            break;
        }
        let made = Builder::new().prefix(PREFIX).tempfile_in(place);
        if let Ok(file) = &made {
            remember(file.path());
        }
        result = fill(made).or(result);
    }
    result
}

/// Whether a file could be written elsewhere.
pub fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{
        NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let kinds = [
        StorageFull,
        QuotaExceeded,
        ReadOnlyFilesystem,
        PermissionDenied,
        NotFound,
    ];
    kinds.contains(&error.kind())
}
