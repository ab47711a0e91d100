//! Files of a bundle as they are made: nobody but the user reads them, from the first byte on, and no link is followed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::CaptureError;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Makes a folder and those above it. A link in its place is an error.
pub(crate) fn make(folder: &Path) -> Result<(), CaptureError> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER)
        .create(folder)
        .map_err(CaptureError::io(folder))?;
    refuse_link(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(FOLDER)).map_err(CaptureError::io(folder))
}

/// Refuses what is there and no folder.
pub(crate) fn refuse_link(folder: &Path) -> Result<(), CaptureError> {
    match fs::symlink_metadata(folder) {
        Ok(there) if !there.is_dir() => Err(CaptureError::Special(folder.to_owned())),
        _ => Ok(()),
    }
}

/// Makes a file, or empties the one that is there. A link in its place is an error.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE);
    options.custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Makes a file that is not there.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE)
        .open(path)
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

/// Copies a file.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    io::copy(&mut File::open(from)?, &mut create(to)?).map(drop)
}

/// Takes a hidden file into the bundle, where it takes the place of a link.
pub(crate) fn publish(hidden: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(hidden, Permissions::from_mode(FILE))?;
    fs::rename(hidden, to)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_made_is_private_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        make(&path("a/b")).unwrap();
        write(&path("a/c"), "x").unwrap();
        fs::write(path("open"), "x").unwrap();
        fs::set_permissions(path("open"), Permissions::from_mode(0o644)).unwrap();
        copy(&path("open"), &path("a/d")).unwrap();
        assert_eq!(
            ["a", "a/b", "a/c", "a/d"].map(mode),
            [0o700, 0o700, 0o600, 0o600]
        );

        symlink(path("a/b"), path("folder")).unwrap();
        symlink(path("elsewhere"), path("file")).unwrap();
        assert!(matches!(
            make(&path("folder")),
            Err(CaptureError::Special(_))
        ));
        assert!(create(&path("file")).is_err() && create_new(&path("file")).is_err());
        publish(&path("open"), &path("file")).unwrap();
        assert!(!path("elsewhere").exists() && mode("file") == 0o600);
    }
}
