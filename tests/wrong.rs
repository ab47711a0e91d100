//! What users get wrong, one invocation a row: it ends with the documented exit code and one message that says what is
//! wrong, prints nothing else, and leaves every file as it was.

mod inputs;
mod runs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use inputs::prepare;

/// Arguments, exit code, and a part of the message. `{…}` are paths outside of the working folder.
type Row = (&'static str, i32, &'static str);

/// Of `rooflens` itself and what all commands share.
const SHARED: &[Row] = &[
    ("--no-such-option", 2, "--no-such-option"),
    ("no-such-command", 2, "no-such-command"),
    ("reprot trace.json", 2, "report"),
    ("trace.json", 2, "trace.json"),
    ("report", 2, "PATH"),
    ("report --quiet", 2, "PATH"),
    ("--threads 0 gpus", 2, "--threads"),
    ("--threads many gpus", 2, "--threads"),
    ("--threads -1 gpus", 2, "-1"),
    ("gpus nothing", 2, "nothing"),
    ("gpus --csv", 2, "--csv"),
    ("templates", 2, "rooflens templates"),
    ("templates export", 2, "DIR"),
    ("templates import here", 2, "import"),
    ("templates export taken-templates", 2, "--force"),
    ("templates export trace.json", 4, "trace.json"),
    ("templates export trace.json/below", 4, "trace.json"),
];

/// Of `report`: its input.
const REPORT_INPUT: &[Row] = &[
    ("report nowhere", 3, "nowhere"),
    ("report trace.json nowhere.json", 3, "nowhere.json"),
    ("report empty-folder", 3, "holds no files"),
    ("report empty", 3, "empty"),
    ("report text.txt", 3, "known format"),
    ("report workload.toml", 3, "no measurement"),
    ("report brace.json", 3, "known format"),
    ("report cut.sqlite", 3, "cut off"),
    ("report text.sqlite", 3, "known format"),
    ("report cut.json", 3, "cut off"),
    ("report cut.json.gz", 3, "cannot be unpacked"),
    ("report cut.tar.zst", 3, "cut.tar.zst"),
    ("report evil.tar", 3, "../evil"),
    ("report /dev/null", 3, "device"),
    ("report trace.json trace.json", 3, "trace.json"),
    ("report runs", 2, "runs of their own: one, two"),
    ("report one.bundle two.bundle", 2, "one.bundle, two.bundle"),
    ("report unfinished", 2, "runs of their own: a, b"),
    (
        "report unfinished/a unfinished/b",
        2,
        "runs of their own: a, b",
    ),
    (
        "report h100.json a100.json",
        2,
        "a100.json and h100.json are of runs of their own: they ran on",
    ),
    (
        "report h100.json later.json",
        2,
        "other processes at another time",
    ),
    ("inspect later.json h100.json", 2, "--merge"),
    (
        "report packed.tar.zst trace.json",
        3,
        "packed.tar.zst is an archive",
    ),
    ("report packed.tar.zst packed.tar.zst --merge", 3, "archive"),
    ("report trace.json --strict --stage a=none", 3, "stage a"),
    ("report lossy.bundle -o new", 3, "no kernel"),
    ("report changed.bundle --strict -o new", 3, "--strict"),
    ("metrics nowhere", 3, "nowhere"),
    ("metrics", 2, "PATH"),
    ("metrics runs", 2, "runs of their own"),
    ("metrics text.txt", 3, "known format"),
    ("metrics trace.json -o x.json", 2, "-o"),
    ("metrics trace.json --gpu H9000", 2, "H9000"),
    ("metrics changed.bundle --strict", 3, "--strict"),
    ("inspect changed.bundle --strict", 3, "--strict"),
    ("kernels changed.bundle --strict", 3, "--strict"),
    ("kernels changed.bundle --strict --yaml", 3, "--strict"),
];

/// Of `report`: options of the input.
const REPORT_OPTIONS: &[Row] = &[
    ("report trace.json --gpu H9000", 2, "no GPU named H9000"),
    ("report trace.json --gpu", 2, "--gpu"),
    ("report trace.json --gpu H200 --gpu B200", 2, "--gpu"),
    ("report trace.json --model nowhere.json", 2, "nowhere.json"),
    ("report trace.json --model empty-folder", 2, "empty-folder"),
    ("report trace.json --model brace.json", 3, "brace.json"),
    ("report trace.json --model empty", 3, "empty"),
    ("report trace.json --model object.json", 3, "object.json"),
    ("report trace.json --model trace.json", 3, "trace.json"),
    ("report trace.json --model text.txt", 3, "text.txt"),
    (
        "report trace.json --workload nowhere.toml",
        2,
        "nowhere.toml",
    ),
    (
        "report trace.json --workload text.txt",
        3,
        "text.txt, line 1",
    ),
    (
        "report trace.json --workload unknown-key.toml",
        3,
        "batchsize",
    ),
    ("report trace.json --workload wrong-type.toml", 3, "line 1"),
    (
        "report trace.json --workload bad-pattern.toml",
        3,
        "pattern of stage a",
    ),
    (
        "report trace.json --workload other-stages.toml",
        3,
        "no range of the input",
    ),
    ("report trace.json --workload config.json", 3, "config.json"),
    ("report trace.json --notes nowhere.md", 2, "nowhere.md"),
    ("report trace.json --notes one.bundle", 2, "one.bundle"),
    ("report trace.json --notes binary", 3, "binary"),
    ("report trace.json --stage decode", 2, "NAME=REGEX"),
    ("report trace.json --stage a=(", 2, "--stage a"),
    ("report trace.json --stage =x", 2, "no name"),
    ("report trace.json --stage a=", 3, "stage a"),
    ("report trace.json --stage a=no_such_range", 3, "stage a"),
    (
        "report trace.json --stage a=train_step --stage b=none",
        3,
        "stage b",
    ),
    ("report trace.json --stage a=train", 3, "stage a"),
    ("report trace.json --classifier best", 2, "best"),
];

/// Of `report`: its output.
const REPORT_OUTPUT: &[Row] = &[
    ("report trace.json -o", 2, "--output"),
    (
        "report trace.json -o trace.json",
        2,
        "trace.json is an input",
    ),
    ("report trace.json -o ./trace.json", 2, "is an input"),
    (
        "report trace.json -o empty-folder/../trace.json",
        2,
        "is an input",
    ),
    ("report trace.json -o link.json", 2, "is an input"),
    (
        "report trace.json -o new.md -o trace.json",
        2,
        "is an input",
    ),
    ("report trace.json -o new.md -o new.md", 2, "twice"),
    ("report trace.json -o - -o -", 2, "twice"),
    ("report one.bundle -o one.bundle", 2, "is a bundle"),
    ("report one.bundle -o one.bundle --force", 2, "is a bundle"),
    ("report one.bundle -o two.bundle", 2, "is a bundle"),
    (
        "report one.bundle -o one.bundle/manifest.json",
        2,
        "is an input",
    ),
    (
        "report one.bundle -o one.bundle/torch/rank0.json",
        2,
        "is an input",
    ),
    ("report one.bundle -o one.bundle/torch", 2, "--force"),
    (
        "report trace.json --model config.json -o config.json",
        2,
        "is an input",
    ),
    (
        "report trace.json --workload workload.toml -o workload.toml --format md",
        2,
        "is an input",
    ),
    (
        "report trace.json --notes notes.md -o notes.md",
        2,
        "is an input",
    ),
    ("report trace.json -o foreign", 2, "--force"),
    ("report trace.json -o foreign --format csv", 2, "--force"),
    ("report trace.json -o foreign --format md", 2, "--force"),
    (
        "report trace.json -o taken.md",
        2,
        "taken_files holds files",
    ),
    ("report trace.json -o report.docx", 2, "report.docx"),
    ("report trace.json -o report.txt", 2, "report.txt"),
    ("report trace.json -o report.PDFX", 2, "report.PDFX"),
    ("report trace.json -o text", 2, "is a file"),
    ("report trace.json -o text --format csv", 2, "is a file"),
    ("report trace.json -o text.txt/below.md", 4, "text.txt"),
    ("report trace.json -o text/below", 4, "text"),
    ("report trace.json -o - --format csv", 2, "a folder"),
    ("report trace.json -o - --format parquet", 2, "a folder"),
    ("report trace.json -o new.csv", 2, "a folder"),
    ("report trace.json -o new.parquet", 2, "a folder"),
    ("report trace.json -o new.html --format csv", 2, "a folder"),
    ("report trace.json -o new.md --format docx", 2, "docx"),
    (
        "report trace.json -o new.md --kind everything",
        2,
        "everything",
    ),
    ("report trace.json -o new.md --lang fr", 2, "fr"),
    (
        "report trace.json -o new.md --templates nowhere",
        2,
        "nowhere",
    ),
    (
        "report trace.json -o new.md --templates text.txt",
        2,
        "text.txt",
    ),
    (
        "report trace.json -o new.md --brand nowhere.toml",
        2,
        "nowhere.toml",
    ),
    (
        "report trace.json -o new.md --brand text.txt",
        2,
        "text.txt",
    ),
    (
        "report trace.json -o new.md --brand no-logo.toml",
        2,
        "logo",
    ),
    ("report trace.json -o /proc/new.md", 4, "/proc"),
    ("report trace.json -o /proc/new", 4, "/proc"),
    (
        "report one.bundle --format pdf --format md -o -",
        2,
        "--format",
    ),
    (
        "report one.bundle --format pdf --format md -o new.pdf",
        2,
        "--format",
    ),
];

/// Of `inspect`, `kernels`, `query`.
const LOOKING: &[Row] = &[
    ("inspect", 2, "PATH"),
    ("inspect nowhere", 3, "nowhere"),
    ("inspect empty-folder", 3, "holds no files"),
    ("inspect cut.tar.zst", 3, "cut.tar.zst"),
    ("inspect evil.tar", 3, "../evil"),
    ("inspect runs", 2, "runs of their own"),
    ("inspect trace.json --gpu H9000", 2, "H9000"),
    ("inspect trace.json --stage x", 2, "NAME=REGEX"),
    ("inspect trace.json --model object.json", 3, "object.json"),
    ("inspect trace.json --workload text.txt", 3, "text.txt"),
    ("inspect trace.json -o x", 2, "-o"),
    ("kernels", 2, "PATH"),
    ("kernels nowhere", 3, "nowhere"),
    ("kernels text.txt", 3, "known format"),
    ("kernels config.json", 3, "no measurement"),
    ("kernels lossy.bundle", 3, "no kernel"),
    ("kernels trace.json --top 0", 2, "--top"),
    ("kernels trace.json --top few", 2, "--top"),
    ("kernels trace.json --csv --yaml", 2, "--yaml"),
    ("kernels trace.json --gpu H9000", 2, "H9000"),
    ("kernels trace.json --stage decode", 3, "no stage decode"),
    ("kernels trace.json --sort speed", 2, "--sort"),
    ("kernels trace.json --yaml --stage decode", 3, "decode"),
    (
        "kernels trace.json --yaml --stage a --stage b",
        2,
        "one --stage",
    ),
    ("kernels trace.json --stage a=none", 3, "stage a"),
    ("kernels runs", 2, "runs of their own"),
    ("query", 2, "PATH"),
    ("query trace.json", 2, "SQL"),
    ("query nowhere select", 3, "nowhere"),
    ("query empty select", 3, "empty"),
    ("query cut.sqlite select", 3, "cut off"),
    ("query text.txt select", 3, "known format"),
    ("query config.json select", 3, "no measurement"),
    ("query runs select", 2, "runs of their own"),
    ("query load.json select", 3, "serve-report"),
    ("query trace.json one two", 2, "two"),
    ("query trace.json one --file two", 2, "--file"),
    ("query trace.json --file nowhere.sql", 2, "nowhere.sql"),
    (
        "query trace.json select*from(nowhere)",
        2,
        "no table `nowhere`",
    ),
    (
        "query trace.json select(nowhere)from(launches)",
        2,
        "no column `nowhere` in launches",
    ),
    ("query trace.json drop\ttable\tlaunches", 2, "only reads"),
    (
        "query trace.json select(1);select(2) --csv",
        2,
        "2 statements",
    ),
    ("query trace.json .schema\tlaunch", 2, "launches"),
];

/// Of `validate`, `pack`, `unpack`.
const BUNDLES: &[Row] = &[
    ("validate", 2, "BUNDLE"),
    ("validate nowhere", 1, "nowhere is not valid"),
    ("validate empty-folder", 1, "is not valid"),
    ("validate trace.json", 1, "is not valid"),
    ("validate runs", 1, "is not valid"),
    ("validate broken.bundle", 1, "is not valid"),
    ("validate changed.bundle", 1, "is not valid"),
    ("validate evil.tar", 1, "is not valid"),
    ("validate one.bundle two.bundle", 2, "two.bundle"),
    ("pack", 2, "DIR"),
    ("pack nowhere", 3, "nowhere"),
    ("pack empty-folder", 3, "holds no files"),
    ("pack broken.bundle", 3, "not packed"),
    ("pack text.txt", 3, "no bundle"),
    ("pack trace.json", 3, "pack the folder"),
    ("pack trace.json --keep-environment", 3, "no bundle"),
    ("pack foreign", 3, "known format"),
    ("pack foreign --keep-environment", 3, "rooflens inspect"),
    ("pack reports-only", 3, "without --keep-environment"),
    ("pack one.bundle -o new.zip", 2, ".tar.zst"),
    ("pack one.bundle -o new.tar.gz", 2, ".tar.zst"),
    ("pack one.bundle -o new", 2, ".tar.zst"),
    (
        "pack one.bundle -o one.bundle/torch/rank0.json",
        2,
        ".tar.zst",
    ),
    ("pack packed.tar.zst -o packed.tar.zst", 2, "is an input"),
    ("pack archived -o archived/inner.tar.zst", 2, "is an input"),
    ("pack one.bundle -o nowhere/new.tar.zst", 4, "nowhere"),
    ("pack one.bundle -o text.txt/new.tar.zst", 4, "text.txt"),
    ("pack one.bundle two.bundle", 2, "two.bundle"),
    ("unpack", 2, "FILE"),
    ("unpack nowhere.tar", 3, "nowhere.tar"),
    ("unpack one.bundle", 2, "does not end like an archive"),
    ("unpack trace.json", 2, "does not end like an archive"),
    ("unpack trace.json -o new", 3, "no archive"),
    ("unpack cut.tar.zst -o new", 3, "cut.tar.zst"),
    ("unpack evil.tar -o new", 3, "../evil"),
    ("unpack evil.tar -o empty-folder", 3, "../evil"),
    (
        "unpack packed.tar.zst -o foreign",
        3,
        "foreign is not empty",
    ),
    (
        "unpack packed.tar.zst -o one.bundle",
        3,
        "one.bundle is not empty",
    ),
    ("unpack packed.tar.zst -o text.txt", 4, "text.txt"),
    ("unpack packed.tar.zst", 3, "packed is not empty"),
];

/// Of `predict`.
const PREDICT: &[Row] = &[
    ("predict", 2, "--model"),
    ("predict --model config.json", 2, "--gpu"),
    ("predict --gpu H200", 2, "--model"),
    ("predict --model nowhere.json --gpu H200", 3, "nowhere.json"),
    ("predict --model empty --gpu H200", 3, "empty"),
    ("predict --model brace.json --gpu H200", 3, "brace.json"),
    ("predict --model object.json --gpu H200", 3, "object.json"),
    ("predict --model empty-folder --gpu H200", 3, "empty-folder"),
    (
        "predict --model config.json --gpu H9000",
        2,
        "no GPU named H9000",
    ),
    (
        "predict --model config.json --gpu H200 --dtype fp7",
        2,
        "fp7",
    ),
    (
        "predict --model config.json --gpu H200 --kv-dtype fp7",
        2,
        "fp7",
    ),
    (
        "predict --model config.json --gpu H200 --batch 0",
        2,
        "--batch",
    ),
    (
        "predict --model config.json --gpu H200 --batch many",
        2,
        "--batch",
    ),
    (
        "predict --model config.json --gpu H200 --prompt 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --tp 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --pp 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --ep 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --dp 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --output-tokens 0",
        2,
        "0 is not a size",
    ),
    (
        "predict --model config.json --gpu H200 --chunk 0",
        2,
        "--chunk",
    ),
    (
        "predict --model config.json --gpu H200 --link 0",
        2,
        "--link",
    ),
    (
        "predict --model config.json --gpu H200 --link nan",
        2,
        "--link",
    ),
    (
        "predict --model config.json --gpu H200 --cached-prefix 2",
        2,
        "--cached-prefix",
    ),
    (
        "predict --model config.json --gpu H200 --memory-utilization 90",
        2,
        "--memory-utilization",
    ),
    (
        "predict --model config.json --gpu H200 --ttft-limit 0",
        2,
        "--ttft-limit",
    ),
    (
        "predict --model config.json --gpu H200 --ttft-limit soon",
        2,
        "--ttft-limit",
    ),
    (
        "predict --model config.json --gpu H200 --tpot-limit nan",
        2,
        "--tpot-limit",
    ),
    (
        "predict --model config.json --gpu H200 --speculate 4",
        2,
        "--speculate",
    ),
    (
        "predict --model config.json --gpu H200 --speculate 4:2",
        2,
        "--speculate",
    ),
    (
        "predict --model config.json --gpu H200 --peaks nowhere.json",
        3,
        "nowhere.json",
    ),
    (
        "predict --model config.json --gpu H200 --peaks trace.json",
        3,
        "no measured rate",
    ),
    (
        "predict --model config.json --gpu H200 --graphs",
        2,
        "--from",
    ),
    (
        "predict --model config.json --gpu H200 --workload workload.toml",
        2,
        "--from",
    ),
    (
        "predict --model config.json --gpu H200 -o config.json",
        2,
        "is an input",
    ),
    (
        "predict --model config.json --gpu H200 -o foreign",
        2,
        "--force",
    ),
    (
        "predict --model config.json --gpu H200 -o - --format csv",
        2,
        "a folder",
    ),
    ("predict --from trace.json", 2, "nothing changes"),
    ("predict --from nowhere --graphs", 3, "nowhere"),
    ("predict --from trace.json --gpu H9000", 2, "H9000"),
    (
        "predict --from trace.json --gpu H200 --gpu B200",
        2,
        "one --gpu",
    ),
    ("predict --from trace.json --batch 1,2", 2, "one --batch"),
    ("predict --from trace.json --dtype fp7", 2, "fp7"),
    ("predict --from runs --graphs", 2, "runs of their own"),
    (
        "predict --from trace.json --graphs -o trace.json",
        2,
        "is an input",
    ),
];

/// Of `serve-report`.
const SERVING: &[Row] = &[
    ("serve-report", 2, "RESULT"),
    ("serve-report nowhere.json", 3, "nowhere.json"),
    ("serve-report trace.json", 3, "no load test"),
    ("serve-report one.bundle", 3, "no load test"),
    ("serve-report text.txt", 3, "no load test"),
    ("serve-report empty", 3, "no load test"),
    ("serve-report brace.json", 3, "no load test"),
    ("serve-report load.json --slo speed=3", 2, "--slo"),
    ("serve-report load.json --slo ttft=fast", 2, "--slo"),
    ("serve-report load.json --slo ,", 2, "--slo"),
    ("serve-report load.json --slo ttft=-5ms", 2, "--slo"),
    (
        "serve-report load.json --thresholds nowhere.toml",
        2,
        "nowhere.toml",
    ),
    (
        "serve-report load.json --thresholds text.txt",
        2,
        "text.txt",
    ),
    (
        "serve-report load.json --predicted nowhere.json",
        2,
        "nowhere.json",
    ),
    (
        "serve-report load.json --predicted load.json",
        2,
        "load.json",
    ),
    (
        "serve-report load.json --gpu-metrics nowhere.csv",
        3,
        "nowhere.csv",
    ),
    (
        "serve-report load.json --gpu-metrics text.txt",
        3,
        "text.txt",
    ),
    ("serve-report load.json --notes nowhere.md", 2, "nowhere.md"),
    ("serve-report load.json --notes binary", 2, "binary"),
    ("serve-report load.json --label a --label b", 2, "--label"),
    ("serve-report load.json -o load.json", 2, "is an input"),
    ("serve-report load.json -o foreign", 2, "--force"),
    ("serve-report load.json -o - --format csv", 2, "a folder"),
    ("serve-report load.json -o new.docx", 2, "new.docx"),
];

/// What a build without Parquet does without.
const NOT_BUILT: &[Row] = if cfg!(feature = "tables") {
    &[]
} else {
    &[
        (
            "query trace.json select(1) --parquet new",
            4,
            "compiled without",
        ),
        (
            "report trace.json -o new --format parquet",
            4,
            "compiled without",
        ),
    ]
};

#[test]
fn a_wrong_invocation_says_what_is_wrong_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    prepare(folder.path());
    let tables = [
        SHARED,
        REPORT_INPUT,
        REPORT_OPTIONS,
        REPORT_OUTPUT,
        LOOKING,
        BUNDLES,
        PREDICT,
        SERVING,
    ];
    let rows: Vec<&Row> = tables.into_iter().chain([NOT_BUILT]).flatten().collect();
    assert!(rows.len() >= 150, "{} rows", rows.len());
    let before = files(folder.path());
    let faults: Vec<String> = rows
        .iter()
        .filter_map(|row| fault(folder.path(), row, &before))
        .collect();
    assert!(
        faults.is_empty(),
        "{} of {}:\n{}",
        faults.len(),
        rows.len(),
        faults.join("\n")
    );
}

/// What is wrong with how an invocation is answered.
fn fault(folder: &Path, row: &Row, before: &BTreeMap<PathBuf, Vec<u8>>) -> Option<String> {
    let (line, code, words) = row;
    let output = Command::new(env!("CARGO_BIN_EXE_rooflens"))
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .expect("rooflens runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let errors = said
        .lines()
        .filter(|line| line.starts_with("error: "))
        .count();
    let last = said
        .lines()
        .rev()
        .find(|line| line.starts_with("error: "))
        .unwrap_or_default();
    let after = files(folder);
    let changed: Vec<_> = after
        .keys()
        .chain(before.keys())
        .filter(|path| after.get(*path) != before.get(*path))
        .collect();
    let wrong = [
        (output.status.code() != Some(*code)).then(|| format!("exit {:?}", output.status.code())),
        // `validate` lists all faults, and says then what they come to.
        (errors != 1 && !line.starts_with("validate")).then(|| format!("{errors} messages")),
        (!last.contains(words) && !said.contains(words)).then(|| format!("no {words:?}")),
        (!output.stdout.is_empty() && !line.starts_with("inspect"))
            .then(|| "something on standard output".to_owned()),
        (!changed.is_empty()).then(|| format!("changed {changed:?}")),
    ];
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    // What is wrong with one row must not count for the next.
    for path in changed {
        let _ =
            fs::remove_file(folder.join(path)).or_else(|_| fs::remove_dir_all(folder.join(path)));
    }
    (!wrong.is_empty()).then(|| format!("{line}: {}\n    {said}", wrong.join(", ")))
}

/// Every file, folder and link below a folder with what it holds.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            let name = path.strip_prefix(root).expect("below it").to_owned();
            if path.is_dir() && !path.is_symlink() {
                found.insert(name, b"folder".to_vec());
                folders.push(path);
            } else {
                found.insert(name, fs::read(&path).expect("readable"));
            }
        }
    }
    found
}
