//! Repeats without a profiler (`timings.json`) and measured ceilings (`peaks.json`).
//!
//! `timings.json` has two forms. The first is a flat object: each key `<stage>_ms` with an array of numbers is a stage,
//! an element a repeat in milliseconds. In addition at least one of `batch`, `prompt`, `new`, `repeats` says what ran:
//!
//! ```json
//! {"batch": 8, "prompt": 1024, "new": 64, "prefill_ms": [223.4, 220.1], "decode_ms": [1130.7, 1139.3]}
//! ```
//!
//! `new` is the number of tokens decoded one by one: the steps of the stage `decode`. The second form is versioned:
//!
//! ```json
//! {"version": 1, "batch": 8, "prompt_tokens": 1024, "output_tokens": 64,
//!  "stages": {"prefill": {"ms": [223.4, 220.1]}, "decode": {"ms": [1130.7, 1139.3], "steps": 64}}}
//! ```
//!
//! In the second form, `steps`, `batch`, `tokens` and `keys` of a stage are a number that all repeats have, or an array with
//! one for each: workloads may change sizes from one iteration to the next. `tokens` are those of a sequence in a forward
//! pass, `keys` those that its attention reads; `null` is a size that is not known.
//!
//! Both may hold the model's `config` as Hugging Face writes it, and `profiled`: whether a profiler ran. What the capture
//! program measures itself says by what (`measured_by`: `cuda_events` or `host_clock`), whether the stages are
//! ranges of the workload or its own (`ranges`), and which instances `ms` excludes (`left_out_ms`).
//!
//! `bench.json` holds single operations: of its GEMMs the fastest of each dtype is a measured rate, and so is its
//! fastest copy within device memory.
//!
//! `peaks.json` holds medians over repeats of one operation; an entry that is a string says why there is none:
//!
//! ```json
//! {"gpu": "NVIDIA H200",
//!  "matmul": {"bf16": {"median_s": 0.0014, "min_s": 0.0013, "max_s": 0.0015, "n": 20, "tflops": 787.5}},
//!  "copy": {"median_s": 0.0020, "min_s": 0.0020, "max_s": 0.0021, "n": 20, "gb_per_s_read_plus_write": 4251.9}}
//! ```

use rooflens_schemas::{ArtifactKind, PassKind, workload::PassOverride};
use serde_json::{Map, Value};

use super::{Importer, IngestError, IngestErrorKind, Prefix, config};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{MeasuredPeak, Ns, Session, StrId, Timing};

/// Reads `timings.json`.
pub static TIMINGS: Importer = Importer {
    kind: ArtifactKind::Timings,
    sniff: sniff_timings,
    import: import_timings,
};

/// Reads `peaks.json`.
pub static PEAKS: Importer = Importer {
    kind: ArtifactKind::Peaks,
    sniff: sniff_peaks,
    import: import_peaks,
};

const MAX_BYTES: u64 = 64 << 20;

/// Keys of which the flat form has at least one; other tools' files with `…_ms` arrays have none.
const WORKLOAD_KEYS: &[&str] = &["batch", "prompt", "new", "repeats"];

/// Repeats of one stage.
struct Stage<'a> {
    name: &'a str,
    milliseconds: &'a [Value],
    /// Times of repeats that do not count.
    excluded: Option<&'a Value>,
    steps: Size<'a>,
    batch: Size<'a>,
    tokens: Size<'a>,
    keys: Size<'a>,
}

/// A size of repeats: nothing, a number that all have, or one for each.
type Size<'a> = Option<&'a Value>;

/// The size of a repeat.
fn size_at(size: Size<'_>, repeat: usize) -> Option<u64> {
    let value = size?;
    let value = match value.as_array() {
        Some(values) => values.get(repeat)?,
        None => value,
    };
    value.as_u64().filter(|value| *value > 0)
}

/// Whether each of the repeats has a size, or `null`.
fn is_sound(size: Size<'_>, repeats: usize) -> bool {
    let is_size = |value: &Value| value.as_u64().is_some_and(|value| value > 0);
    let is_known = |value: &Value| value.is_null() || is_size(value);
    match size {
        None => true,
        Some(Value::Array(values)) => values.len() == repeats && values.iter().all(is_known),
        Some(value) => is_size(value),
    }
}

fn sniff_timings(prefix: &Prefix<'_>) -> bool {
    top_level(prefix).is_some_and(|object| !stages(&object).is_empty())
}

fn sniff_peaks(prefix: &Prefix<'_>) -> bool {
    top_level(prefix).is_some_and(|object| is_peaks(&object)) || begins_as_bench(prefix)
}

/// True if a file too long to be looked at as a whole begins as `bench.json`, whose keys are in order.
fn begins_as_bench(prefix: &Prefix<'_>) -> bool {
    let has = |key: &str| {
        prefix
            .bytes
            .windows(key.len())
            .any(|part| part == key.as_bytes())
    };
    let keys = ["\"cases\"", "\"bytes_formula\"", "\"flops_formula\""];
    !prefix.complete
        && prefix.bytes.trim_ascii_start().starts_with(b"{")
        && keys.into_iter().all(has)
}

/// The document, if it is a JSON object and short enough to be one of ours.
fn top_level(prefix: &Prefix<'_>) -> Option<Map<String, Value>> {
    let plausible = prefix.complete && prefix.bytes.trim_ascii_start().starts_with(b"{");
    plausible
        .then(|| serde_json::from_slice(prefix.bytes).ok())
        .flatten()
}

fn read(file: &ArtifactFile) -> Result<Map<String, Value>, IngestError> {
    let bytes = file.content()?.document(MAX_BYTES)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn import_timings(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let object = read(file)?;
    if let Some(version) = object
        .get("version")
        .filter(|version| version.as_u64() != Some(1))
    {
        let (what, found) = ("version".to_owned(), version.to_string());
        return Err(IngestErrorKind::Value {
            what,
            found,
            expected: "1",
        }
        .into());
    }
    let stages = stages(&object);
    if stages.is_empty() {
        let message = "it has no array of times: <stage>_ms, or stages.<stage>.ms".to_owned();
        return Err(IngestErrorKind::Empty(message).into());
    }
    let stated = object.get("profiled").and_then(Value::as_bool);
    if let Some(clock) = object.get("measured_by").and_then(Value::as_str) {
        let message = format!("times of ranges measured by the capture program ({clock})");
        diagnostics.push(
            Diagnostic::new(Severity::Notice, "timings/measured", message).artifact(&file.path),
        );
    }
    for stage in &stages {
        add_stage(
            stage,
            file,
            stated.or_else(|| of_pass(file)),
            session,
            diagnostics,
        );
    }
    describe_workload(&object, file, session);
    for (key, name) in [("torch", "PyTorch"), ("cuda", "CUDA runtime")] {
        if let Some(version) = object.get(key).and_then(Value::as_str) {
            session.add_fact(&file.path, "software", name, version);
        }
    }
    if let Some(gpu) = object.get("gpu").and_then(Value::as_str) {
        session.add_fact(&file.path, "gpu 0", "name", gpu);
    }
    if session.model.is_none()
        && let Some(model) = object.get("config").filter(|model| model.is_object())
    {
        config::add_model(model, &file.path, session, diagnostics);
    }
    Ok(())
}

/// The stages of either form, sorted by name.
fn stages(object: &Map<String, Value>) -> Vec<Stage<'_>> {
    match object.get("stages").and_then(Value::as_object) {
        Some(stages) if object.contains_key("version") => stages
            .iter()
            .filter_map(|(name, stage)| versioned_stage(name, stage))
            .collect(),
        Some(_) => Vec::new(),
        None if WORKLOAD_KEYS
            .iter()
            .any(|key| object.get(*key).is_some_and(Value::is_u64)) =>
        {
            let new = object.get("new");
            object
                .iter()
                .filter_map(|(key, value)| flat_stage(key, value, new))
                .collect()
        }
        None => Vec::new(),
    }
}

fn versioned_stage<'a>(name: &'a str, stage: &'a Value) -> Option<Stage<'a>> {
    Some(Stage {
        name,
        milliseconds: stage.get("ms")?.as_array()?,
        excluded: stage.get("left_out_ms"),
        steps: stage.get("steps"),
        batch: stage.get("batch"),
        tokens: stage.get("tokens"),
        keys: stage.get("keys"),
    })
}

fn flat_stage<'a>(key: &'a str, value: &'a Value, new: Size<'a>) -> Option<Stage<'a>> {
    let name = key.strip_suffix("_ms").filter(|name| !name.is_empty())?;
    let milliseconds = value
        .as_array()
        .filter(|list| list.iter().any(Value::is_number))?;
    Some(Stage {
        name,
        milliseconds,
        excluded: None,
        steps: new.filter(|_| name == "decode"),
        batch: None,
        tokens: None,
        keys: None,
    })
}

fn add_stage(
    stage: &Stage<'_>,
    file: &ArtifactFile,
    profiled: Option<bool>,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) {
    let (name, artifact) = (session.intern(stage.name), session.intern(&file.path));
    let pass = session.intern(&file.pass);
    let room = session.room() / size_of::<Timing>() as u64;
    let repeats = stage.milliseconds.len();
    for (what, size) in [
        ("steps", stage.steps),
        ("batch", stage.batch),
        ("tokens", stage.tokens),
        ("keys", stage.keys),
    ] {
        if !is_sound(size, repeats) {
            let message = format!(
                "{what} of {} is neither a number above 0 nor one for each repeat; other values are ignored",
                stage.name
            );
            let diagnostic = Diagnostic::new(Severity::DataLoss, "timings/size", message);
            diagnostics.push(diagnostic.artifact(&file.path));
        }
    }
    let excluded = stage
        .excluded
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let excluded: Vec<Ns> = excluded.take(room as usize).filter_map(duration).collect();
    if !excluded.is_empty() {
        session.excluded_repeats.push((artifact, name, excluded));
    }
    for (repeat, value) in stage.milliseconds.iter().enumerate() {
        if repeat as u64 >= room {
            diagnostics
                .push(IngestError::from(IngestErrorKind::Budget).into_diagnostic(&file.path));
            break;
        }
        let (Some(duration), Ok(number)) = (duration(value), u32::try_from(repeat)) else {
            let message = format!("a repeat of {} is not a time and is skipped", stage.name);
            let diagnostic = Diagnostic::new(Severity::DataLoss, "timings/value", message);
            diagnostics.push(diagnostic.artifact(&file.path));
            continue;
        };
        session.timings.push(Timing {
            stage: name,
            repeat: number,
            duration,
            steps: size_at(stage.steps, repeat),
            batch: size_at(stage.batch, repeat),
            tokens: size_at(stage.tokens, repeat),
            keys: size_at(stage.keys, repeat),
            artifact,
            pass,
            profiled,
        });
    }
}

fn duration(milliseconds: &Value) -> Option<Ns> {
    let nanoseconds = milliseconds.as_f64()? * 1e6;
    let is_time = (0.0..1e18).contains(&nanoseconds);
    is_time.then(|| Ns(nanoseconds.round() as i64))
}

/// True if a profiler ran in the pass of a file, where the manifest or the layout of captures tells.
fn of_pass(file: &ArtifactFile) -> Option<bool> {
    match file.pass_kind {
        Some(PassKind::Baseline) => Some(false),
        Some(PassKind::Timeline | PassKind::Counters | PassKind::Operators) => Some(true),
        Some(PassKind::Serving | PassKind::Snapshot) | None => {
            let folder = file.path.rsplit('/').nth(1);
            (folder == Some(PassKind::Baseline.label())).then_some(false)
        }
    }
}

/// Marks times without a statement as not profiled if the bundle holds no artifact of a profiler. With such an
/// artifact the times may be those of the profiled run.
pub(super) fn settle(files: &[ArtifactFile], session: &mut Session) {
    let by_profiler = |file: &ArtifactFile| {
        use ArtifactKind::{
            NcuCsv, NcuReport, NsysCallSum, NsysGpuTrace, NsysKernelSum, NsysReport, NsysSqlite,
        };
        use ArtifactKind::{RocpdSqlite, TorchTrace, XlaTrace};
        let nsys = [
            NsysSqlite,
            NsysReport,
            NsysKernelSum,
            NsysCallSum,
            NsysGpuTrace,
        ];
        let kinds = [
            &nsys[..],
            &[RocpdSqlite, TorchTrace, XlaTrace, NcuReport, NcuCsv],
        ]
        .concat();
        file.kind.is_some_and(|kind| kinds.contains(&kind))
    };
    if !files.iter().any(by_profiler) {
        session
            .timings
            .profiled
            .iter_mut()
            .for_each(|profiled| *profiled = profiled.or(Some(false)));
    }
}

/// Fills the sizes that the workload description leaves open; where it says otherwise, only this pass differs.
/// The number of decoded tokens holds for this pass alone: profiled passes decode fewer.
fn describe_workload(object: &Map<String, Value>, file: &ArtifactFile, session: &mut Session) {
    let number = |keys: [&str; 2]| {
        let mut numbers = keys.iter().filter_map(|key| object.get(*key)?.as_u64());
        numbers.find(|number| *number > 0)
    };
    let workload = &mut session.workload;
    let differs = |whole: &mut Option<u64>, value: Option<u64>| {
        value.filter(|value| *whole.get_or_insert(*value) != *value)
    };
    let output_tokens = number(["output_tokens", "new"]);
    let change = PassOverride {
        batch: differs(&mut workload.batch, number(["batch", "batch_size"])),
        prompt_tokens: differs(
            &mut workload.prompt_tokens,
            number(["prompt_tokens", "prompt"]),
        ),
        output_tokens: output_tokens.filter(|value| workload.output_tokens != Some(*value)),
        warmup: None,
    };
    if change != PassOverride::default() {
        workload.passes.entry(file.pass.clone()).or_insert(change);
    }
}

/// The cases of `bench.json`.
fn bench_cases(object: &Map<String, Value>) -> Option<&Vec<Value>> {
    let is_case =
        |case: &Value| case.get("operation").is_some() && case.get("bytes_formula").is_some();
    let cases = object.get("cases").and_then(Value::as_array)?;
    (object.contains_key("plan") && cases.iter().all(is_case)).then_some(cases)
}

fn is_peaks(object: &Map<String, Value>) -> bool {
    if bench_cases(object).is_some() {
        return true;
    }
    let rates = |kind: &Value| {
        kind.as_object()
            .is_some_and(|kinds| kinds.values().all(is_entry))
    };
    let copy = object.get("copy");
    object.get("matmul").is_some_and(rates)
        || copy.is_some_and(|copy| copy.get("gb_per_s_read_plus_write").is_some())
}

fn is_entry(entry: &Value) -> bool {
    entry.is_string() || entry.get("tflops").is_some()
}

fn import_peaks(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let object = read(file)?;
    if !is_peaks(&object) {
        let message = "it has neither matmul rates nor a copy rate".to_owned();
        return Err(IngestErrorKind::Empty(message).into());
    }
    let gpu = session.intern(
        object
            .get("gpu")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    );
    let artifact = session.intern(&file.path);
    for case in bench_cases(&object).into_iter().flatten() {
        add_case(case, [gpu, artifact], session);
    }
    let matmul = object.get("matmul").and_then(Value::as_object);
    let matmul = matmul.into_iter().flatten().map(|(key, entry)| {
        (
            if key == "fp8_e4m3" {
                "fp8"
            } else {
                key.as_str()
            },
            entry,
            "tflops",
            1e12,
        )
    });
    let copy = object
        .get("copy")
        .map(|entry| ("copy", entry, "gb_per_s_read_plus_write", 1e9));
    for (what, entry, rate, scale) in matmul.chain(copy) {
        let what_id = session.intern(what);
        match peak(entry, rate, scale, [gpu, what_id, artifact]) {
            Some(peak) => {
                session.measured_peaks.push(peak);
            }
            None => {
                let reason = entry.as_str().unwrap_or("its rate is not a number");
                let message = format!("the {what} peak was not measured: {reason}");
                let diagnostic = Diagnostic::new(Severity::Notice, "peaks/failed", message);
                diagnostics.push(diagnostic.artifact(&file.path));
            }
        }
    }
    Ok(())
}

/// A case as a rate of its dtype, or of a copy: the largest of them counts wherever rates are looked up.
fn add_case(case: &Value, [gpu, artifact]: [StrId; 2], session: &mut Session) {
    let operation = match (case["operation"].as_str(), case["dtype"].as_str()) {
        (Some("copy_d2d"), _) => Some(("copy", "bytes_per_s")),
        (Some("linear" | "batched_gemm"), Some(dtype)) => Some((dtype, "flop_per_s")),
        _ => None,
    };
    let Some((name, rate)) = operation else {
        return;
    };
    let name = session.intern(name);
    if let Some(peak) = peak(case, rate, 1.0, [gpu, name, artifact]) {
        session.measured_peaks.push(peak);
    }
}

/// The rate belongs to the median time; the extremes follow from the extreme times.
fn peak(entry: &Value, rate: &str, scale: f64, ids: [StrId; 3]) -> Option<MeasuredPeak> {
    let number = |key: &str| entry.get(key)?.as_f64().filter(|value| *value > 0.0);
    let [gpu, what, artifact] = ids;
    let median = number(rate)? * scale;
    let rate_of = |seconds: Option<f64>| Some(median * number("median_s")? / seconds?);
    let (min, max) = (rate_of(number("max_s")), rate_of(number("min_s")));
    Some(MeasuredPeak {
        gpu,
        what,
        median,
        min,
        max,
        artifact,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{self, import_into};

    const FLAT: &str = r#"{"config": {"model_type": "llama", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 100}, "batch": 8, "prompt": 1024, "new": 64,
        "prefill_ms": [223.5, 220.25], "decode_ms": [3054.5, "lost", 1130.0],
        "prefill_ms_mean": 221.875, "torch": "2.11.0"}"#;

    fn import(importer: &Importer, pass: &str, text: &str, session: &mut Session) -> Diagnostics {
        let path = format!("{pass}/timings.json");
        let (result, mut diagnostics) = import_into(importer, &path, text, session);
        if let Err(error) = result {
            diagnostics.push(error.into_diagnostic(&path));
        }
        diagnostics
    }

    fn sniffs(importer: &Importer, text: &str) -> bool {
        testing::sniffs(importer, "a.json", text)
    }

    #[test]
    fn the_flat_form_gives_repeats_steps_sizes_and_the_model() {
        let mut session = Session::default();
        let diagnostics = import(&TIMINGS, "baseline", FLAT, &mut session);
        let timings = &session.timings;
        // 3054.5 ms = 3 054 500 000 ns; the repeat that is no number keeps its place in the count.
        assert_eq!(
            timings.duration,
            [
                Ns(3_054_500_000),
                Ns(1_130_000_000),
                Ns(223_500_000),
                Ns(220_250_000)
            ]
        );
        assert_eq!(timings.repeat, [0, 2, 0, 1]);
        assert_eq!(timings.steps, [Some(64), Some(64), None, None]);
        assert_eq!(session.workload.batch, Some(8));
        assert_eq!(session.workload.prompt_tokens, Some(1024));
        assert_eq!(session.model.unwrap().hidden, 64);
        assert_eq!(
            diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(),
            ["timings/value"]
        );
    }

    #[test]
    fn the_versioned_form_states_the_steps() {
        let text = r#"{"version": 1, "output_tokens": 4,
            "stages": {"decode": {"ms": [1.5], "steps": 4}, "prefill": {"ms": [2]}}}"#;
        let mut session = Session::default();
        import(&TIMINGS, "baseline", text, &mut session);
        assert_eq!(session.timings.duration, [Ns(1_500_000), Ns(2_000_000)]);
        assert_eq!(session.timings.steps, [Some(4), None]);
        let newer = import(
            &TIMINGS,
            "x",
            r#"{"version": 2, "stages": {}}"#,
            &mut session,
        );
        assert_eq!(newer.worst(), Some(Severity::Error));
    }

    #[test]
    fn repeats_have_sizes_of_their_own_where_these_change() {
        let text = r#"{"version": 1, "stages": {"decode": {"ms": [1.5, 2.5, 3.5], "batch": 8,
            "steps": [4, 6, 8], "tokens": [1, null, 2], "keys": ["x", -1, 9]}}}"#;
        let mut session = Session::default();
        let diagnostics = import(&TIMINGS, "baseline", text, &mut session);
        let timings = &session.timings;
        assert_eq!(timings.steps, [Some(4), Some(6), Some(8)]);
        assert_eq!(timings.batch, [Some(8); 3]);
        assert_eq!(timings.tokens, [Some(1), None, Some(2)]);
        // What is no size costs no time.
        assert_eq!(timings.keys, [None, None, Some(9)]);
        let said = diagnostics.iter().map(|diagnostic| &*diagnostic.message);
        let expected = "keys of decode is neither a number above 0 nor one for each repeat; other values are ignored";
        assert_eq!(said.collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn times_by_the_capture_program_are_said_to_be_and_those_left_out_are_no_repeats() {
        let text = r#"{"version": 1, "measured_by": "cuda_events", "ranges": "injected",
            "stages": {"train_step": {"ms": [3.5], "left_out_ms": [90.0]}}}"#;
        let mut session = Session::default();
        let diagnostics = import(&TIMINGS, "baseline", text, &mut session);
        assert_eq!(session.timings.duration, [Ns(3_500_000)]);
        let excluded = session.excluded_repeats.iter();
        let excluded: Vec<&[Ns]> = excluded.map(|(.., times)| times.as_slice()).collect();
        assert_eq!(excluded, [[Ns(90_000_000)]]);
        assert_eq!(
            diagnostics
                .iter()
                .map(|diagnostic| diagnostic.code)
                .collect::<Vec<_>>(),
            ["timings/measured"]
        );
    }

    #[test]
    fn another_pass_with_other_sizes_is_an_override_of_that_pass() {
        let mut session = Session::default();
        import(
            &TIMINGS,
            "baseline",
            r#"{"batch": 8, "new": 64, "a_ms": [1]}"#,
            &mut session,
        );
        import(
            &TIMINGS,
            "torch",
            r#"{"batch": 8, "new": 8, "a_ms": [1]}"#,
            &mut session,
        );
        // Unless the description says so, no other pass is held to either number of tokens.
        assert_eq!(session.workload.output_tokens, None);
        assert_eq!(
            session.workload.for_pass("baseline").output_tokens,
            Some(64)
        );
        assert_eq!(session.workload.for_pass("torch").output_tokens, Some(8));
        assert_eq!(session.workload.for_pass("torch").batch, Some(8));
    }

    #[test]
    fn whether_a_profiler_ran_is_told_by_manifest_folder_and_file_and_else_unknown_next_to_a_trace()
    {
        let file = |path: &str, pass_kind| ArtifactFile {
            path: path.to_owned(),
            pass_kind,
            ..ArtifactFile::default()
        };
        assert_eq!(
            of_pass(&file("x/timings.json", Some(PassKind::Baseline))),
            Some(false)
        );
        assert_eq!(
            of_pass(&file("x/timings.json", Some(PassKind::Operators))),
            Some(true)
        );
        assert_eq!(of_pass(&file("a/baseline/timings.json", None)), Some(false));
        assert_eq!(of_pass(&file("torch/timings.json", None)), None);
        assert_eq!(of_pass(&file("timings.json", None)), None);
        let read = |text: &str, kinds: &[ArtifactKind]| {
            let mut session = Session::default();
            import(&TIMINGS, "timings", text, &mut session);
            let file = |kind: &ArtifactKind| ArtifactFile {
                kind: Some(*kind),
                ..file("a", None)
            };
            let files: Vec<_> = kinds.iter().map(file).collect();
            settle(&files, &mut session);
            session.timings.profiled
        };
        let (plain, stated) = (
            r#"{"batch": 8, "a_ms": [1]}"#,
            r#"{"batch": 8, "a_ms": [1], "profiled": true}"#,
        );
        assert_eq!(read(plain, &[ArtifactKind::Timings]), [Some(false)]);
        assert_eq!(
            read(plain, &[ArtifactKind::Timings, ArtifactKind::TorchTrace]),
            [None]
        );
        assert_eq!(read(stated, &[ArtifactKind::Timings]), [Some(true)]);
    }

    #[test]
    fn peaks_give_rates_and_failures_are_said() {
        let text = r#"{"gpu": "NVIDIA H200", "matmul": {
            "bf16": {"median_s": 2.0, "min_s": 1.0, "max_s": 4.0, "tflops": 800.0},
            "fp8_e4m3": "not supported"},
            "copy": {"median_s": 1.0, "gb_per_s_read_plus_write": 4000.0}}"#;
        let mut session = Session::default();
        let diagnostics = import(&PEAKS, "peaks", text, &mut session);
        let peaks = &session.measured_peaks;
        assert_eq!(peaks.median, [8e14, 4e12]);
        // 800 × 2 / 4 and 800 × 2 / 1 TFLOP/s.
        assert_eq!((peaks.min[0], peaks.max[0]), (Some(4e14), Some(1.6e15)));
        assert_eq!((peaks.min[1], session.text(peaks.what[1])), (None, "copy"));
        let message = &diagnostics.iter().next().unwrap().message;
        assert_eq!(message, "the fp8 peak was not measured: not supported");
    }

    #[test]
    fn gemms_and_copies_of_single_operations_are_measured_rates() {
        let text = r#"{"cases": [
            {"bytes_formula": "", "flops_formula": "", "operation": "linear", "dtype": "bf16",
             "flop_per_s": 6e14, "median_s": 2.0, "min_s": 1.0, "max_s": 3.0},
            {"bytes_formula": "", "flops_formula": "", "operation": "gelu", "dtype": "bf16",
             "flop_per_s": 9e14, "median_s": 2.0},
            {"bytes_formula": "", "flops_formula": "", "operation": "copy_d2d", "dtype": null,
             "bytes_per_s": 3e12, "median_s": 1.0}], "gpu": "NVIDIA H100 80GB HBM3", "plan": {}}"#;
        let mut session = Session::default();
        import(&PEAKS, "bench", text, &mut session);
        let peaks = &session.measured_peaks;
        let names: Vec<&str> = peaks
            .what
            .iter()
            .map(|names| session.text(*names))
            .collect();
        assert_eq!(
            (names, &peaks.median),
            (vec!["bf16", "copy"], &vec![6e14, 3e12])
        );
        assert_eq!(peaks.max[0], Some(1.2e15));
        // A long one is known by its beginning.
        let cut = Prefix {
            name: "a.json",
            bytes: &text.as_bytes()[..200],
            complete: false,
        };
        assert!((PEAKS.sniff)(&cut) && !(TIMINGS.sniff)(&cut));
    }

    #[test]
    fn each_kind_is_recognized_alone() {
        let config = r#"{"model_type": "llama", "hidden_size": 64}"#;
        let peaks = r#"{"matmul": {"bf16": {"tflops": 1.0}}}"#;
        assert!(sniffs(&TIMINGS, FLAT) && !sniffs(&PEAKS, FLAT));
        assert!(sniffs(&PEAKS, peaks) && !sniffs(&TIMINGS, peaks));
        assert!(!sniffs(&TIMINGS, config) && !sniffs(&PEAKS, config));
        // Another tool's latencies: without sizes of this program.
        assert!(!sniffs(
            &TIMINGS,
            r#"{"ttft_ms": [1.0, 2.0], "completed": 2}"#
        ));
    }
}
