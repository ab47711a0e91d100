//! `rooflens` and `rooflens-capture` choose the same kernels of the same stages. They share the crate that finds stages, but
//! each reads an export with its own reader.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

/// Stages that workloads name and that both programs name where nobody does.
const STAGES: [&str; 8] = [
    "prefill",
    "decode",
    "decode_step",
    "train_step",
    "forward",
    "backward",
    "optimizer",
    "step",
];

/// A folder with a plain export in a pass `nsys`, and what describes its workload.
struct Bundle {
    name: String,
    folder: TempDir,
}

impl Bundle {
    /// The export of a pass of a fixture, or nothing where that pass has none.
    fn of_fixture(fixture: &Path, pass: &Path) -> Option<Self> {
        let packed = fs::File::open(pass.join("timeline.sqlite.zst")).ok()?;
        let bundle = Self::new(&pass.to_string_lossy());
        let plain = fs::File::create(bundle.export()).expect("writable");
        zstd::stream::copy_decode(packed, plain).expect("is packed");
        let workload = fs::read(fixture.join("workload.toml"));
        workload.ok().iter().for_each(|text| bundle.describe(text));
        Some(bundle)
    }

    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        fs::create_dir(folder.path().join("nsys")).expect("writable");
        let name = name.to_owned();
        Self { name, folder }
    }

    fn export(&self) -> PathBuf {
        self.folder.path().join("nsys/timeline.sqlite")
    }

    fn describe(&self, workload: &[u8]) {
        fs::write(self.folder.path().join("workload.toml"), workload).expect("writable");
    }

    /// The list that both programs choose, or nothing where both refuse.
    fn kernels(&self, stage: Option<&str>) -> Option<String> {
        let [analyzer, capture] = ["rooflens", "rooflens-capture"].map(|program| {
            let mut command = command(program);
            command.arg("kernels").arg(self.folder.path());
            command.args(["--top", "20"]);
            command.args(stage.iter().flat_map(|stage| ["--stage", stage]));
            command.args((program == "rooflens").then_some("--yaml"));
            let output = command.output().expect("starts");
            let list = String::from_utf8(output.stdout).expect("is text");
            output.status.success().then_some(list)
        });
        assert_eq!(analyzer, capture, "{}, stage {stage:?}", self.name);
        analyzer
    }

    /// Names of ranges, at most 30.
    fn ranges(&self) -> Vec<String> {
        let mut command = command("rooflens");
        let sql = "SELECT DISTINCT name FROM ranges WHERE name <> '' ORDER BY name";
        command.arg("query").arg(self.export()).arg(sql);
        let output = command.args(["--csv", "--limit", "30"]).output();
        let output = output.expect("starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().skip(1).filter(|name| !name.contains('"'));
        names.map(str::to_owned).collect()
    }
}

/// A program of the workspace. `cargo test --workspace` builds both.
fn command(program: &str) -> Command {
    let path = Path::new(assert_cmd::cargo::cargo_bin!("rooflens")).with_file_name(program);
    assert!(
        path.exists(),
        "{} is missing: run the tests of the whole workspace",
        path.display()
    );
    Command::new(path)
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    folders.sort();
    folders
}

/// All exports of the fixtures.
fn fixtures() -> Vec<Bundle> {
    let mut bundles = Vec::new();
    for fixture in folders(Path::new("fixtures")) {
        for pass in folders(&fixture) {
            bundles.extend(Bundle::of_fixture(&fixture, &pass));
        }
    }
    bundles
}

#[test]
fn both_programs_list_the_same_kernels_of_all_fixtures() {
    let bundles = fixtures();
    let mut lists = BTreeSet::new();
    for bundle in &bundles {
        for stage in [None].into_iter().chain(STAGES.map(Some)) {
            lists.extend(bundle.kernels(stage));
        }
    }
    // Each export has a list of its own, and most have stages.
    assert!(bundles.len() >= 15 && lists.len() >= 30, "{}", lists.len());
}

/// Exports of other people, in the folder that `ROOFLENS_CORPUS` names.
#[test]
fn both_programs_list_the_same_kernels_of_a_corpus() {
    let Ok(corpus) = std::env::var("ROOFLENS_CORPUS") else {
        return;
    };
    let mut rest = vec![PathBuf::from(corpus)];
    let mut exports = 0;
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(folders(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "sqlite")
        {
            let bundle = Bundle::new(&path.to_string_lossy());
            fs::copy(&path, bundle.export()).expect("there is room");
            bundle.kernels(None);
            let names = bundle.ranges();
            names
                .iter()
                .take(8)
                .for_each(|name| drop(bundle.kernels(Some(name))));
            exports += 1;
        }
    }
    assert!(exports > 0, "no export in the corpus");
}

/// A rule of a stage: its name, its kind, and the pattern of its ranges.
fn rule(ranges: Vec<String>) -> impl Strategy<Value = String> {
    let kinds = [
        "prefill",
        "decode",
        "decode_step",
        "train_step",
        "forward",
        "backward",
        "optimizer",
        "other",
    ];
    let pattern = (select(ranges), 0..6_u8).prop_map(|(range, form)| {
        let start: String = range.chars().take(3).collect();
        match form {
            0 => range,
            1 => start,
            2 => format!("^{start}.*"),
            3 => format!("({range}|nothing)"),
            4 => range.to_lowercase(),
            _ => ".*".to_owned(),
        }
    });
    let pattern = proptest::option::weighted(0.85, pattern);
    let rule = (select(STAGES.to_vec()), select(kinds.to_vec()), pattern);
    rule.prop_map(|(name, kind, pattern)| {
        let pattern = pattern.map(|pattern| format!("match = {pattern:?}\n"));
        let pattern = pattern.unwrap_or_default();
        format!("[[stages]]\nname = \"{name}\"\nkind = \"{kind}\"\n{pattern}")
    })
}

/// A description of a workload, with the stage whose kernels are listed.
fn workload(ranges: Vec<String>) -> impl Strategy<Value = (String, Option<&'static str>)> {
    let warmup = proptest::option::of(0..5_u64);
    let tokens = proptest::option::of(select(vec![4_u64, 16, 64]));
    let rules = proptest::collection::vec(rule(ranges), 0..4);
    let stage = proptest::option::weighted(0.8, select(STAGES.to_vec()));
    (warmup, tokens, rules, stage).prop_map(|(warmup, tokens, rules, stage)| {
        let line = |key: &str, value: Option<u64>| {
            value.map_or_else(String::new, |value| format!("{key} = {value}\n"))
        };
        let text = line("warmup", warmup) + &line("output_tokens", tokens) + &rules.concat();
        (text, stage)
    })
}

#[test]
fn both_programs_read_a_workload_in_the_same_way() {
    let small = ["h200-llama-1b/nsys-gated-decode", "h100-vit-train/nsys"];
    // Where both programs refuse, nothing is compared.
    let lists = Cell::new(0);
    for name in small {
        let pass = Path::new("fixtures").join(name);
        let fixture = pass.parent().expect("in a fixture");
        let bundle = Bundle::of_fixture(fixture, &pass).expect("has an export");
        let config = Config {
            cases: 100,
            failure_persistence: None,
            ..Config::default()
        };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let outcome = runner.run(&workload(bundle.ranges()), |(text, stage)| {
            bundle.describe(text.as_bytes());
            lists.set(lists.get() + usize::from(bundle.kernels(stage).is_some()));
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(lists.get() >= 60, "{}", lists.get());
}
