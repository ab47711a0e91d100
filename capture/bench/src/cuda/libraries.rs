//! Finds the CUDA libraries before cudarc needs them: it panics where one is missing.

use std::fs;
use std::path::{Path, PathBuf};

use cudarc::{cublas, cublaslt, cudnn, driver, nvrtc};

use super::CudaError;

/// A library, how to ask for it, and how the names of its files start. cuBLAS needs cuBLASLt, which is therefore first.
type Library = (&'static str, unsafe fn() -> bool, &'static [&'static str]);
const LIBRARIES: [Library; 3] = [
    (
        "NVRTC (libnvrtc)",
        nvrtc::sys::is_culib_present,
        &["libnvrtc-builtins.so.", "libnvrtc.so."],
    ),
    (
        "cuBLASLt (libcublasLt)",
        cublaslt::sys::is_culib_present,
        &["libcublasLt.so."],
    ),
    (
        "cuBLAS (libcublas)",
        cublas::sys::is_culib_present,
        &["libcublas.so."],
    ),
];

/// Needed by convolutions and attention alone, and not part of the toolkit.
const CUDNN: Library = (
    "cuDNN (libcudnn)",
    cudnn::sys::is_culib_present,
    &["libcudnn.so."],
);

/// Makes sure that cuDNN can be loaded: from where the loader or the toolkit has it, or by [`load_cudnn`].
///
/// # Errors
/// It is not there.
pub(crate) fn require_cudnn() -> Result<(), CudaError> {
    find(&CUDNN, &toolkit_folders())
}

/// Loads the cuDNN that a person named: its file, or the folder of it.
///
/// # Errors
/// It cannot be loaded, or the loader finds another one before it.
pub(crate) fn load_cudnn(path: &Path) -> Result<(), CudaError> {
    let named = fs::canonicalize(path).map_err(|_| CudaError::NoCudnn(path.to_owned()))?;
    if named.is_dir() {
        load_from(&named, CUDNN.2[0]);
    } else {
        load(&named);
    }
    // The version is that of the library that is used; another one than ours is then loaded next to it.
    let version = cudnn_version();
    let files = loaded()
        .into_iter()
        .filter(|file| file.contains("/libcudnn.so"));
    let (ours, others): (Vec<_>, Vec<_>) =
        files.partition(|file| Path::new(file).starts_with(&named));
    if version.is_some() && !ours.is_empty() && others.is_empty() {
        Ok(())
    } else {
        Err(CudaError::NoCudnn(path.to_owned()))
    }
}

/// cuDNN's version as it numbers itself (90 100 is 9.1.0), if it can be loaded.
pub(crate) fn cudnn_version() -> Option<usize> {
    // SAFETY: the library is there; the call answers with a number.
    require_cudnn()
        .ok()
        .map(|()| unsafe { cudnn::sys::cudnnGetVersion() })
}

/// Makes sure that the driver and the toolkit's libraries can be loaded.
///
/// What the loader does not find by name is looked for in the usual folders of the toolkit and, if asked for, of Python packages:
/// a `python3` on the path may lead into a folder that others write to.
///
/// # Errors
/// The first library that is missing.
pub(crate) fn require(of_python: bool) -> Result<(), CudaError> {
    // SAFETY: loading a library runs its initializers; these are NVIDIA's own.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(CudaError::NoDriver(
            "libcuda.so.1 cannot be loaded".to_owned(),
        ));
    }
    let mut folders = toolkit_folders();
    if of_python {
        folders.extend(python_folders());
    }
    LIBRARIES
        .iter()
        .try_for_each(|library| find(library, &folders))
}

/// Loads one library, if need be from a folder where the loader does not look.
fn find((name, is_present, prefixes): &Library, folders: &[PathBuf]) -> Result<(), CudaError> {
    // SAFETY: as above.
    let is_present = || unsafe { is_present() };
    let load = |folder: &PathBuf| {
        prefixes.iter().for_each(|prefix| load_from(folder, prefix));
        is_present()
    };
    if is_present() || folders.iter().any(load) {
        Ok(())
    } else {
        Err(CudaError::NoLibrary(name))
    }
}

/// Loads the files of `folder` whose names start with `prefix`, for good: the loader then finds them by name.
fn load_from(folder: &Path, prefix: &str) {
    let files = list(folder).into_iter().filter(|file| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    });
    files.for_each(|file| load(&file));
}

fn load(file: &Path) {
    // SAFETY: loading a library runs its initializers; these are NVIDIA's own.
    if let Ok(library) = unsafe { libloading::Library::new(file) } {
        std::mem::forget(library);
    }
}

/// Folders of the toolkit.
fn toolkit_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let roots = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from);
    let installed = list(Path::new("/usr/local")).into_iter().filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("cuda"))
    });
    for root in roots.chain(installed) {
        folders.extend([root.join("lib64"), root.join("targets/x86_64-linux/lib")]);
    }
    folders
}

/// Folders of the Python packages that PyTorch brings.
fn python_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for prefix in python_prefixes() {
        let versions = ["lib", "local/lib"]
            .iter()
            .flat_map(|lib| list(&prefix.join(lib)));
        for version in versions {
            let packages = ["site-packages/nvidia", "dist-packages/nvidia"];
            let packages = packages
                .iter()
                .flat_map(|packages| list(&version.join(packages)));
            folders.extend(packages.map(|package| package.join("lib")));
        }
    }
    folders
}

/// The folders over `bin/python3`, for each of them on the path.
fn python_prefixes() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let with_python = std::env::split_paths(&path).filter(|folder| folder.join("python3").exists());
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for folder in with_python {
        let python = folder.join("python3");
        // A link may lead into the environment that holds the packages, or out of it: both are tried.
        for file in [fs::read_link(&python).unwrap_or_default(), python] {
            prefixes.extend(file.parent().and_then(Path::parent).map(Path::to_owned));
        }
    }
    prefixes
}

/// Sorted entries of a folder; none if it cannot be read.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Where the loaded CUDA libraries come from: distinct paths from the process's memory map.
pub(crate) fn loaded() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let known = [
        "/libcuda.so",
        "/libnvrtc.so",
        "/libcublas.so",
        "/libcublasLt.so",
        "/libcudnn.so",
    ];
    let mut paths: Vec<String> = paths
        .filter(|path| known.iter().any(|name| path.contains(name)))
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Whether NVRTC is there, which needs no GPU.
#[cfg(test)]
pub(super) fn has_nvrtc() -> bool {
    find(
        &LIBRARIES[0],
        &[toolkit_folders(), python_folders()].concat(),
    )
    .is_ok()
}
