//! Python modules that are put before the workload's own: they profile it, time it, and note what it is.

use std::fs;
use std::path::{Path, PathBuf};

use super::pass::Folders;
use crate::args::Common;
use crate::error::CaptureError;
use crate::files;
use crate::infer;
use crate::plan::{Harvest, PassPlan, ranges_folder};

/// Where the modules are, below the folder that `PYTHONPATH` begins with.
const FILES: [(&str, &str); 16] = [
    ("sitecustomize.py", include_str!("inject/sitecustomize.py")),
    (
        "rooflens_inject/__init__.py",
        include_str!("inject/rooflens_inject/__init__.py"),
    ),
    (
        "rooflens_inject/clock.py",
        include_str!("inject/rooflens_inject/clock.py"),
    ),
    (
        "rooflens_inject/deadline.py",
        include_str!("inject/rooflens_inject/deadline.py"),
    ),
    (
        "rooflens_inject/engines.py",
        include_str!("inject/rooflens_inject/engines.py"),
    ),
    (
        "rooflens_inject/loading.py",
        include_str!("inject/rooflens_inject/loading.py"),
    ),
    (
        "rooflens_inject/marks.py",
        include_str!("inject/rooflens_inject/marks.py"),
    ),
    (
        "rooflens_inject/models.py",
        include_str!("inject/rooflens_inject/models.py"),
    ),
    (
        "rooflens_inject/notes.py",
        include_str!("inject/rooflens_inject/notes.py"),
    ),
    (
        "rooflens_inject/ranges.py",
        include_str!("inject/rooflens_inject/ranges.py"),
    ),
    (
        "rooflens_inject/stages.py",
        include_str!("inject/rooflens_inject/stages.py"),
    ),
    (
        "rooflens_inject/steps.py",
        include_str!("inject/rooflens_inject/steps.py"),
    ),
    (
        "rooflens_inject/steps_window.py",
        include_str!("inject/rooflens_inject/steps_window.py"),
    ),
    (
        "rooflens_inject/tracer.py",
        include_str!("inject/rooflens_inject/tracer.py"),
    ),
    (
        "rooflens_inject/training.py",
        include_str!("inject/rooflens_inject/training.py"),
    ),
    (
        "rooflens_inject/window.py",
        include_str!("inject/rooflens_inject/window.py"),
    ),
];

/// Whether steps become ranges, next to those of the workload or instead of them.
const STEPS: &str = "ROOFLENS_STEPS";

/// Who records marks of what the host does.
const MARKS: &str = "ROOFLENS_MARKS";

/// Writes the modules if the pass needs them. Gives the variables by which Python finds them and knows what to do.
pub(super) fn prepare(
    plan: &PassPlan,
    folders: &Folders,
    bundle: &Path,
    common: &Common,
) -> Result<Vec<(String, String)>, CaptureError> {
    let notes = !common.no_inject;
    let opens_ranges = match plan.harvest {
        Harvest::Nsys(_) | Harvest::Ncu(_) | Harvest::Torch(_) => {
            notes && (common.steps || infer::lacks_ranges(bundle))
        }
        Harvest::Timings | Harvest::GemmLog => false,
    };
    // ncu slows the host down so much that its times mean nothing, and a baseline has no profiler to record marks.
    let marks = match plan.harvest {
        Harvest::Nsys(_) => Some("nvtx"),
        Harvest::Torch(_) => Some("torch"),
        Harvest::Ncu(_) | Harvest::Timings | Harvest::GemmLog => None,
    };
    let marks = marks.filter(|_| notes);
    let is_noted = notes && plan.harvest == Harvest::Timings;
    // Without notes only what the user asked for is injected: the profiler, and what counts steps.
    let is_asked = matches!(plan.harvest, Harvest::Torch(_)) || plan.window.is_some();
    let is_hooked = plan.is_injected && (notes || is_asked);
    if !(is_hooked || opens_ranges || is_noted || marks.is_some()) {
        return Ok(Vec::new());
    }
    if is_hooked {
        files::make(&ranges_folder(bundle))?;
    }
    let folder = folders.work.join("inject");
    files::make(&folder.join("rooflens_inject"))?;
    for (name, text) in FILES {
        let path = folder.join(name);
        files::write(&path, text).map_err(CaptureError::io(&path))?;
    }
    let mut variables = vec![python_path(&folder)];
    if common.steps {
        variables.push((STEPS.to_owned(), "only".to_owned()));
    } else if opens_ranges {
        variables.push((STEPS.to_owned(), "too".to_owned()));
    }
    variables.extend(marks.map(|recorder| (MARKS.to_owned(), recorder.to_owned())));
    Ok(variables)
}

/// The folder for notes of one run, made, and the variable that names it.
pub(super) fn notes_of(
    folders: &Folders,
    run: Option<u32>,
) -> Result<(String, String), CaptureError> {
    let name = run.map_or_else(|| "warmup".to_owned(), |run| run.to_string());
    let folder = notes_folder(&folders.work).join(name);
    files::make(&folder)?;
    Ok((
        "ROOFLENS_NOTES_DIR".to_owned(),
        folder.to_string_lossy().into_owned(),
    ))
}

/// What the injected modules saw of Python in the processes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Python {
    /// No process loaded the modules.
    Absent,
    /// Python ran without torch.
    WithoutTorch,
    /// A process imported torch.
    WithTorch,
}

impl Python {
    /// What the notes of all runs say.
    pub(super) fn of(notes: &Path) -> Self {
        let mut python = Self::Absent;
        for run in fs::read_dir(notes).into_iter().flatten().flatten() {
            let has = |mark: &str| run.path().join(mark).exists();
            if has("torch") {
                python = Self::WithTorch;
            } else if has("python") {
                python = python.max(Self::WithoutTorch);
            }
        }
        python
    }

    /// Why the injected profiler of PyTorch would find nothing.
    pub(super) fn lacks_torch(self) -> Option<&'static str> {
        match self {
            Self::Absent => Some(
                "the baseline ran no Python that loads injected modules, which python -I, -E and -S do not",
            ),
            Self::WithoutTorch => Some("no process of the baseline imported torch"),
            Self::WithTorch => None,
        }
    }
}

/// Notes of all runs, a folder each.
pub(super) fn notes_folder(work: &Path) -> PathBuf {
    work.join("notes")
}

/// PYTHONPATH with the injected modules before what was there.
fn python_path(inject: &Path) -> (String, String) {
    let old = std::env::var("PYTHONPATH").unwrap_or_default();
    let separator = if old.is_empty() { "" } else { ":" };
    (
        "PYTHONPATH".to_owned(),
        format!("{}{separator}{old}", inject.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_all_runs_say_whether_torch_was_imported() {
        let notes = tempfile::tempdir().expect("there is room");
        let of = || Python::of(notes.path());
        assert_eq!(of(), Python::Absent);
        let mark = |path: &str| {
            let path = notes.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, "").expect("writable");
        };
        mark("0/python");
        assert_eq!(of(), Python::WithoutTorch);
        mark("1/torch");
        mark("2/python");
        assert_eq!(of(), Python::WithTorch);
        assert!(of().lacks_torch().is_none() && Python::Absent.lacks_torch().is_some());
    }

    #[test]
    fn every_module_of_the_package_is_written() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/inject");
        let mut there: Vec<String> = Vec::new();
        for folder in ["", "rooflens_inject"] {
            for entry in fs::read_dir(package.join(folder))
                .expect("is there")
                .flatten()
            {
                let path = Path::new(folder).join(entry.file_name());
                there.extend(
                    path.to_str()
                        .filter(|name| name.ends_with(".py"))
                        .map(str::to_owned),
                );
            }
        }
        there.sort();
        let mut written: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        written.sort_unstable();
        assert_eq!(there, written);
    }
}
