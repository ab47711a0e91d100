//! Inputs that are no files: standard input, pipes, what a shell substitutes for a process. Formats are detected by content
//! and read more than once, so they are kept in a file as long as the command runs.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::CliError;
use crate::bundle::aside;

/// Bytes of a pipe beyond which it is refused: it may have no end.
const MAX_PIPE: u64 = 64 << 30;

/// Whether reading may never end.
#[cfg(unix)]
fn is_device(kind: &FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &FileType) -> bool {
    false
}

/// Paths of inputs, all of which are files and folders.
#[derive(Default)]
pub(super) struct Spooled {
    pub(super) paths: Vec<PathBuf>,
    /// Where inputs that came through pipes are kept.
    pub(super) folder: Option<TempDir>,
}

impl Spooled {
    /// The inputs; `-` is standard input.
    ///
    /// # Errors
    /// A pipe cannot be read, or there is no room to keep what comes from it.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self, CliError> {
        let mut spooled = Self::default();
        for path in paths {
            let path = if path == Path::new("-") {
                Path::new("/dev/stdin")
            } else {
                path
            };
            let kind = fs::metadata(path).map(|metadata| metadata.file_type());
            if kind.as_ref().is_ok_and(is_device) {
                let message = format!("{} is a device and no file", path.display());
                return Err(CliError::unusable(message));
            }
            let is_kept = kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir());
            let kept = if is_kept {
                spooled.keep(path)?
            } else {
                path.to_owned()
            };
            spooled.paths.push(kept);
        }
        Ok(spooled)
    }

    fn keep(&mut self, path: &Path) -> Result<PathBuf, CliError> {
        let failed = |error: io::Error| CliError::Unusable {
            message: format!("cannot read {}: {error}", path.display()),
            hint: None,
        };
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => aside::folder().map_err(failed)?,
        };
        let name = path
            .file_name()
            .map_or_else(|| "pipe".into(), |name| name.to_string_lossy());
        // `/dev/fd/63` is the 63rd open file.
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let copy = folder.path().join(if is_number {
            format!("pipe-{name}")
        } else {
            name.into_owned()
        });
        self.folder = Some(folder);
        let copied = File::open(path).and_then(|from| {
            let mut to = File::create(&copy)?;
            io::copy(&mut from.take(MAX_PIPE), &mut to)
        });
        if copied.map_err(failed)? == MAX_PIPE {
            let message = format!("{} gives more than 64 GiB", path.display());
            return Err(CliError::unusable(message));
        }
        Ok(copy)
    }
}
