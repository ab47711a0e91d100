//! Exports of the fixtures, and of other people.

use std::fs;
use std::path::{Path, PathBuf};

use rooflens_schemas::text::quoted;
use rooflens_stages::selection::exactly;

use super::workloads::STAGES;
use super::{Bundle, Count, Counts, fixtures};

/// Stages that a description names in an export of the corpus, one after another.
const DESCRIBED: usize = 8;

/// An export, plain or packed, and the description of its workload.
pub(super) struct Packed {
    export: PathBuf,
    workload: Option<PathBuf>,
}

impl Packed {
    /// The export of a pass of a fixture.
    pub(super) fn of_fixture(pass: &str) -> Self {
        let pass = fixtures().join(pass);
        let workload = pass.parent().expect("a fixture").join("workload.toml");
        Self {
            export: pass.join("timeline.sqlite.zst"),
            workload: Some(workload).filter(|path| path.exists()),
        }
    }

    /// The export in a bundle.
    pub(super) fn bundle(&self) -> Bundle {
        let bundle = Bundle::new(&self.export.to_string_lossy());
        if self
            .export
            .extension()
            .is_some_and(|ending| ending == "zst")
        {
            let packed = fs::File::open(&self.export).expect("readable");
            let plain = fs::File::create(bundle.export()).expect("writable");
            zstd::stream::copy_decode(packed, plain).expect("it is packed");
        } else {
            fs::copy(&self.export, bundle.export()).expect("there is room");
        }
        if let Some(workload) = &self.workload {
            bundle.describe(fs::read(workload).expect("readable"));
        }
        bundle
    }
}

impl Bundle {
    /// Names of ranges, sorted.
    pub(super) fn ranges(&self) -> Vec<String> {
        let names = crate::redact::export::range_names(&self.export(), usize::MAX);
        let names = names.unwrap_or_default().into_iter();
        names.filter(|name| !name.is_empty()).collect()
    }
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

#[test]
fn both_read_all_fixtures_in_the_same_way() {
    let mut sum = Counts::default();
    let folder = fixtures();
    for file in files(&folder) {
        if file.ends_with("timeline.sqlite.zst") {
            let pass = file
                .parent()
                .and_then(|pass| pass.strip_prefix(&folder).ok());
            let pass = pass.expect("in a pass").to_string_lossy().into_owned();
            sum.merge(&Packed::of_fixture(&pass).bundle().compare(&STAGES));
        }
    }
    sum.expect(&[
        (Count::Read, 15),
        (Count::Listed, 14),
        (Count::Stages, 30),
        (Count::Instances, 400),
        (Count::Excluded, 30),
        (Count::Inferred, 1_000),
        (Count::Lists, 60),
        (Count::Gates, 40),
    ]);
}

/// Exports of other people, in the folder that `ROOFLENS_CORPUS` names.
#[test]
#[allow(clippy::print_stderr)]
fn both_read_a_corpus_in_the_same_way() {
    let Ok(corpus) = std::env::var("ROOFLENS_CORPUS") else {
        return;
    };
    let (mut plain, mut described) = (Counts::default(), Counts::default());
    for export in files(Path::new(&corpus)) {
        let name = export.to_string_lossy();
        if !name.ends_with(".sqlite") && !name.ends_with(".sqlite.zst") {
            continue;
        }
        let packed = Packed {
            export: export.clone(),
            workload: None,
        };
        let bundle = packed.bundle();
        plain.merge(&bundle.compare(&STAGES));
        for range in bundle.ranges().iter().take(DESCRIBED) {
            let (name, pattern) = (quoted(range), quoted(&exactly(range)));
            bundle.describe(format!(
                "warmup = 1\n[[stages]]\nname = {name}\nmatch = {pattern}\n"
            ));
            described.merge(&bundle.compare(&[]));
        }
    }
    eprintln!("{corpus}: {plain:#?}\nwith a description of a stage: {described:#?}");
    plain.expect(&[(Count::Listed, 1)]);
}
