//! The folder below which a command unpacks. A signal removes it, and of one that was killed the next command does.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::bundle::aside;

/// What the names of these folders begin with.
const PREFIX: &str = "rooflens-";

/// File in such a folder that is locked for as long as its command runs, whatever ends it.
const LOCK: &str = "lock";

/// A signal ends the program: what is missing from now on is no error.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The folder, which is removed on drop.
pub(super) struct Scratch {
    _lock: File,
    _folder: TempDir,
}

impl Scratch {
    /// Makes the folder the place of all temporary files of the program. None if there is no room for one: most commands do
    /// without. `others` are places where the system's folder has no room.
    pub(super) fn new(others: Vec<PathBuf>) -> Option<Self> {
        aside::allow(others);
        let folder = aside::folder().ok()?;
        let lock = lock(folder.path()).ok()?;
        remove_stale(folder.path().parent()?, folder.path());
        tempfile::env::override_temp_dir(folder.path()).ok()?;
        aside::remember(folder.path());
        #[cfg(unix)]
        on_signal().ok()?;
        Some(Self {
            _lock: lock,
            _folder: folder,
        })
    }
}

/// Returns, unless a signal ends the program: then it is the one which ends it.
pub(super) fn wait_for_signal() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Where temporary files may lie if the system's folder has no room: where the output goes, and memory.
pub(super) fn places(output: Option<&Path>) -> Vec<PathBuf> {
    let folders = output.into_iter().flat_map(Path::ancestors);
    let folder = folders.skip(1).find(|folder| folder.is_dir());
    let folder = folder.unwrap_or(Path::new("."));
    vec![folder.to_owned(), PathBuf::from("/dev/shm")]
}

/// Locks the folder. The file bears its name once it is locked, so that nobody finds it before.
pub(super) fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join("new");
    let file = File::create_new(&path)?;
    file.try_lock()?;
    fs::rename(path, folder.join(LOCK))?;
    Ok(file)
}

/// Removes folders whose commands were killed: of the same user, with a file that nobody has locked.
pub(super) fn remove_stale(folder: &Path, scratch: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let is_scratch = |name: &std::ffi::OsStr| {
        let name = name.as_encoded_bytes();
        let name = name.strip_prefix(b".").unwrap_or(name);
        name.starts_with(PREFIX.as_bytes())
    };
    for entry in entries
        .flatten()
        .filter(|entry| is_scratch(&entry.file_name()))
    {
        let (path, lock) = (entry.path(), entry.path().join(LOCK));
        // Others may put here what they like: neither links nor pipes are opened.
        let is_file =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        let is_candidate = path != scratch && is_of_same_user(&path, scratch) && is_file(&lock);
        if is_candidate && File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok()) {
            remove_lock_last(&path);
        }
    }
}

/// Removes a folder whose command was killed. If this one is killed, too, the lock is still there, and the next one goes on.
fn remove_lock_last(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name() != LOCK && fs::remove_file(&path).is_err() {
            let _ = fs::remove_dir_all(path);
        }
    }
    let _ = fs::remove_dir_all(folder);
}

/// Whether a folder, not a link, is of the user of another one.
#[cfg(unix)]
fn is_of_same_user(path: &Path, scratch: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(path), Ok(scratch)) = (fs::symlink_metadata(path), fs::symlink_metadata(scratch))
    else {
        return false;
    };
    path.is_dir() && scratch.is_dir() && path.uid() == scratch.uid()
}

#[cfg(not(unix))]
fn is_of_same_user(path: &Path, _: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Removes what lies aside when a signal ends the program, which it then does.
#[cfg(unix)]
fn on_signal() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                ENDING.store(true, Ordering::SeqCst);
                aside::remembered().iter().for_each(|path| remove(path));
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}

/// Removes a file or a folder into which the program still writes.
#[cfg(unix)]
fn remove(path: &Path) {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let gone = fs::symlink_metadata(path).is_err();
        if gone || fs::remove_file(path).is_ok() || fs::remove_dir_all(path).is_ok() {
            return;
        }
    }
}
