//! A window of steps, as the processes of the workload say how far theirs are: files `PID.counts`, `PID.open`, `PID.done`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Processes that have counted steps, that are in their window, and that are through with it.
#[derive(Debug, Default, PartialEq)]
struct Processes {
    counts: usize,
    open: usize,
    done: usize,
}

fn processes(folder: &Path) -> Processes {
    let mut all = Processes::default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().extension().and_then(OsStr::to_str) {
            Some("counts") => all.counts += 1,
            Some("open") => all.open += 1,
            Some("done") => all.done += 1,
            _ => {}
        }
    }
    all
}

/// Whether a process is through with its window, and none is in it: what they recorded is written.
pub(super) fn is_over(folder: &Path) -> bool {
    let all = processes(folder);
    all.done > 0 && all.open == 0
}

/// What the manifest says if not all of its steps were recorded.
pub(super) fn trouble(folder: &Path) -> Option<String> {
    let told = match processes(folder) {
        Processes { open: 1.., .. } => "the workload ended in it: fewer steps were recorded",
        Processes { done: 1.., .. } => return None,
        Processes { counts: 1.., .. } => {
            "the workload ended before it: nothing was recorded; choose a smaller SKIP"
        }
        _ => "no step was seen: nothing was recorded; steps are those of Python with torch",
    };
    Some(format!("window: {told}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_over_when_no_process_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let says = |words| trouble(folder.path()).is_some_and(|trouble| trouble.contains(words));
        fs::write(path("ready"), "").unwrap();
        assert!(says("no step was seen") && !is_over(folder.path()));
        fs::write(path("7.counts"), "").unwrap();
        assert!(says("ended before it") && !is_over(folder.path()));
        fs::rename(path("7.counts"), path("7.open")).unwrap();
        fs::write(path("8.done"), "").unwrap();
        assert!(says("ended in it") && !is_over(folder.path()));
        fs::rename(path("7.open"), path("7.done")).unwrap();
        assert!(trouble(folder.path()).is_none() && is_over(folder.path()));
    }
}
