//! What lies aside until it is whole, for whoever ends the program before it is.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

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
