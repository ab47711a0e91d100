//! Operators, modules and memory of the fixtures against figures that were not made by this program: what
//! torch itself added up when it traced, and SQL and Python over the raw artifacts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rooflens::analysis::operators::call_tree::{Spans, Tree, trees};
use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Cell, Dataset, Findings};
use rooflens::hardware::Hardware;
use rooflens::model::Session;
use rooflens::{bundle, ingest};

fn path(fixture: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture)
}

/// Gives a fixture to `look`, with the artifacts of one kind alone: the others would cost time.
fn with<T>(fixture: &str, ending: &str, look: impl Fn(&Context<'_>) -> T) -> T {
    with_all(fixture, &[ending], look)
}

/// The same with the artifacts of several kinds.
fn with_all<T>(fixture: &str, endings: &[&str], look: impl Fn(&Context<'_>) -> T) -> T {
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path(fixture)], &mut diagnostics).expect("the fixture opens");
    let is_kept = |path: &str| endings.iter().any(|ending| path.ends_with(ending));
    bundle.files.retain(|file| is_kept(&file.path) || file.path.ends_with(".toml"));
    ingest::identify(&mut bundle, &mut diagnostics);
    let session: Session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let (facts, hardware) = (Facts::new(&session), Hardware::builtin());
    let options = Options::default();
    look(&Context::new(&session, &facts, &hardware, &options))
}

fn findings(context: &Context<'_>, id: &str) -> Findings {
    let analysis = analysis::ANALYSES.iter().find(|one| one.id == id).expect("an analysis");
    (analysis.run)(context)
}

fn dataset<'a>(findings: &'a Findings, id: &str) -> &'a Dataset {
    findings.datasets.iter().find(|dataset| dataset.id == id).expect("a data set")
}

/// Calls, own host time and own device time in nanoseconds by operator.
type Times = BTreeMap<String, (i64, i64, i64)>;

fn operators(context: &Context<'_>) -> Times {
    let findings = findings(context, "operators");
    let data = dataset(&findings, "operators");
    let column =
        |id: &str| data.columns.iter().position(|column| column.id == id).expect("a column");
    let (calls, host, device) = (column("calls"), column("host_self_ns"), column("device_self_ns"));
    let int = |cell: &Cell| cell.plain().parse::<i64>().expect("a number");
    let row =
        |row: &Vec<Cell>| (row[0].plain(), (int(&row[calls]), int(&row[host]), int(&row[device])));
    data.rows.iter().map(row).collect()
}

/// The same of `torch.profiler`'s own `key_averages()`, which hold kernels and ranges beside operators.
fn key_averages(file: &str) -> Times {
    let text = std::fs::read_to_string(path(file)).expect("readable");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("valid");
    let ns =
        |value: &serde_json::Value| (value.as_f64().expect("a number") * 1000.0).round() as i64;
    let row = |row: &serde_json::Value| {
        let name = row["key"].as_str().expect("a name").to_owned();
        let calls = row["count"].as_i64().expect("a count");
        (name, (calls, ns(&row["self_cpu_us"]), ns(&row["self_device_us"])))
    };
    rows.iter().map(row).collect()
}

/// Times agree to the nanosecond, but for own host times of operators within which, outside of CUDA calls, the
/// profiler notes work of its own: torch deducts that. The differences are the sums of these events' durations
/// ("Activity Buffer Request", "Buffer Flush", "Lazy Function Loading") by Python over the raw traces.
#[test]
fn operators_have_the_times_that_torch_gives_them() {
    let attention = "aten::_cudnn_attention_forward";
    let of_8b = [
        (attention, 172_472),
        ("aten::add", 2_108_307 + 76_917),
        ("aten::linear", 64_952),
        ("aten::mul", 288_139),
        ("aten::pow", 1_978_905),
    ];
    let of_1b = [(attention, 169_352)];
    for (fixture, file, profiler) in [
        ("h200-llama-1b", "h200-llama-1b/torch/llama1b.key_averages.json", &of_1b[..]),
        ("h200-llama-8b", "h200-llama-8b/torch/llama8b.key_averages.json", &of_8b[..]),
    ] {
        let ours = with(fixture, ".pt.trace.json.zst", operators);
        let theirs = key_averages(file);
        assert_eq!(ours.len(), 43);
        for (name, times) in &ours {
            let deducted = profiler.iter().find(|(operator, _)| operator == name);
            let (calls, host, device) = *theirs.get(name).expect("torch knows the operator");
            let host = host + deducted.map_or(0, |(_, time)| *time);
            assert_eq!(*times, (calls, host, device), "{fixture}: {name}");
        }
    }
}

/// Host time, device time, busy time and launches of the counted instances, from SQL: operations whose API
/// call starts within a range of the name, in the last three prefills and decodes.
#[test]
fn modules_of_llama_8b() {
    let all = with("h200-llama-8b", "timeline.sqlite.zst", |context| {
        let pass = context.facts.primary_pass(context.session).expect("a timeline");
        trees(context, &Spans::of_modules(context.session), pass)
    });
    let figures = |stage: &str, path: &str| {
        let tree: &Tree = all.iter().find(|tree| tree.label == stage).expect("a stage");
        let nodes = (0..tree.nodes.len() as u32).find(|node| tree.path(*node) == path);
        let node = &tree.nodes[nodes.expect("a node") as usize];
        (node.host_total, node.device_total, node.busy, node.launches, node.names)
    };
    assert_eq!(
        figures("prefill", "model.layers.*"),
        (189_371_493, 659_638_942, 659_638_942, 3_840, 32)
    );
    assert_eq!(
        figures("prefill", "model.layers.* / mlp"),
        (23_571_529, 383_122_765, 383_122_765, 480, 32)
    );
    assert_eq!(
        figures("decode", "decode_step / model.layers.* / self_attn"),
        (1_306_042_251, 148_394_416, 147_992_976, 33_792, 32)
    );
    assert_eq!(
        figures("decode", "decode_step / lm_head"),
        (2_569_864, 11_491_924, 11_491_924, 48, 1)
    );
}

/// Peaks, time averages and live allocations from a replay of the raw trace's events in Python.
#[test]
fn memory_of_llama_1b() {
    let found = with("h200-llama-1b", ".pt.trace.json.zst", |context| findings(context, "memory"));
    let metric = |id: &str, stage: Option<&str>| {
        let of =
            |one: &&rooflens_schemas::Metric| one.id == id && one.scope.stage.as_deref() == stage;
        found.metrics.iter().find(of).and_then(|one| one.value.number()).expect("a number")
    };
    assert_eq!(metric("memory_peak_allocated", None), 3_234_096_640.0);
    assert_eq!(metric("memory_peak_allocated", Some("decode")), 3_104_019_968.0);
    assert_eq!(metric("memory_peak_reserved", Some("prefill")), 3_279_945_728.0);
    let unused = metric("memory_fragmentation", Some("prefill"));
    assert!((unused - 0.052_247_056_6).abs() < 1e-9, "{unused}");
    let held: Vec<[String; 4]> = dataset(&found, "memory_at_peak").rows[..3]
        .iter()
        .map(|row| [0, 1, 4, 5].map(|column| row[column].plain()))
        .collect();
    let expected = [
        ["before the trace began", "", "", "3032634880"],
        ["aten::cat", "prefill", "32", "67108864"],
        ["aten::mul", "prefill", "2", "41943040"],
    ];
    assert_eq!(held, expected);
    let stages = &dataset(&found, "memory").rows;
    let decode = stages.iter().find(|row| row[0].plain() == "decode").expect("a stage");
    assert_eq!(decode[9..], [Cell::Float(5_680.0), Cell::Float(661_467_136.0)]);
}

/// SQL: the first prefill makes 24 calls of cudaMalloc, cudaFree and cudaHostAlloc, which take 4 157 372 ns;
/// the others make none.
#[test]
fn allocating_calls_of_llama_8b() {
    let found = with("h200-llama-8b", "timeline.sqlite.zst", |context| findings(context, "memory"));
    let calls = dataset(&found, "allocator_calls");
    let sum = |column: usize| -> i64 {
        calls.rows.iter().map(|row| row[column].plain().parse::<i64>().expect("a number")).sum()
    };
    assert_eq!((sum(5), sum(6), calls.rows.len()), (24, 4_157_372, 3));
    assert!(calls.rows.iter().all(|row| row[2].plain() == "prefill" && row[4].plain() == "no"));
    assert!(found.metrics.iter().all(|metric| metric.value.number() == Some(0.0)));
}

/// Rows of a data set: the first column and some others as numbers.
fn numbers<const N: usize>(data: &Dataset, columns: [&str; N]) -> Vec<(String, [i64; N])> {
    let at = columns.map(|id| data.columns.iter().position(|one| one.id == id).expect("a column"));
    let int = |cell: &Cell| cell.plain().parse::<i64>().expect("a whole number");
    data.rows.iter().map(|row| (row[0].plain(), at.map(|at| int(&row[at])))).collect()
}

/// What `tests/reference/backward.py` derives from PyTorch's arrows in the raw traces, where the importer goes by
/// sequence numbers: GPU time of the backward pass by forward operator, and in all.
#[test]
fn backward_work_of_both_ranks_by_operator_of_the_forward_pass() {
    let all = with("h200x2-ddp", ".pt.trace.json.zst", |context| findings(context, "operators"));
    let data = dataset(&all, "backward_by_operator");
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    for (row, (path, [time])) in data.rows.iter().zip(numbers(data, ["backward_ns"])) {
        let operators = path.find("aten::").map_or("", |at| &path[at..]);
        *sums.entry((row[1].plain(), operators.to_owned())).or_default() += time;
    }
    let of = |rank: u32, path: &str| sums.get(&(format!("torch · rank {rank}"), path.to_owned()));
    for (path, times) in [
        ("aten::linear / aten::addmm", [52_571_731, 51_804_109]),
        ("aten::linear / aten::matmul / aten::mm", [18_036_692, 15_756_764]),
        ("aten::layer_norm / aten::native_layer_norm", [6_294_552, 8_326_540]),
        ("aten::linear / aten::add_", [1_176_509, 1_215_648]),
    ] {
        assert_eq!([of(0, path), of(1, path)], times.each_ref().map(Some), "{path}");
    }
    for (rank, tied, engine) in
        [(0, 103_788_161_i64, 226_215_780_i64), (1, 107_353_314, 119_405_143)]
    {
        let pass = format!("torch · rank {rank}");
        let own = sums.iter().filter(|((of, _), _)| *of == pass).map(|(_, time)| time);
        assert_eq!(own.sum::<i64>(), tied);
        let is = |one: &&rooflens_schemas::Metric| {
            one.id == "backward_coverage" && one.scope.pass.as_ref() == Some(&pass)
        };
        let share = all.metrics.iter().find(is).and_then(|one| one.value.number());
        assert_eq!(share, Some(tied as f64 / engine as f64));
    }
}

/// What `tests/reference/python_functions.py` derives from the raw trace, whose frames it nests by the ids of their
/// callers instead of by time.
#[test]
fn python_functions_of_the_capture() {
    let found =
        with("h200-llama-capture", ".pt.trace.json.zst", |context| findings(context, "python"));
    let data = dataset(&found, "python_functions");
    assert_eq!(data.rows.len(), 178);
    let columns =
        ["device_self_ns", "host_self_ns", "device_total_ns", "idle_ns", "idle_self_ns", "calls"];
    let expected = [
        ("modules/linear.py:130(forward)", PYTHON_LINEAR),
        ("llama/modeling_llama.py:62(forward)", PYTHON_NORM),
        ("llm.py:44(generate)", PYTHON_GENERATE),
        ("llama/modeling_llama.py:243(forward)", PYTHON_ATTENTION),
    ];
    let rows = numbers(data, columns);
    assert_eq!((&*rows[0].0, rows[0].1), expected[0]);
    for (name, figures) in expected {
        assert!(rows.contains(&(name.to_owned(), figures)), "{name}");
    }
    assert_eq!(rows.iter().map(|(_, row)| row[0]).sum::<i64>(), 14_509_172);
    assert_eq!(found.metrics[0].value.number(), Some(1.0));
}

const PYTHON_LINEAR: [i64; 6] = [7_492_602, 12_568_544, 7_492_602, 13_488_830, 13_312_814, 513];
const PYTHON_NORM: [i64; 6] = [2_820_362, 12_523_074, 2_820_362, 15_118_456, 15_114_699, 153];
const PYTHON_GENERATE: [i64; 6] = [327_584, 4_242_456, 14_509_172, 220_417_091, 4_313_562, 1];
const PYTHON_ATTENTION: [i64; 6] = [0, 4_300_436, 4_895_700, 184_622_243, 2_788_353, 72];

/// By hand from the model's dimensions: the mlp of a layer has three products of 14 336 × 4096 for each token.
#[test]
fn flops_of_the_modules_of_llama_8b() {
    let look = |context: &Context<'_>| {
        let pass = context.facts.primary_pass(context.session).expect("a timeline");
        let all = trees(context, &Spans::of_modules(context.session), pass);
        let tree = all.iter().find(|tree| tree.label == "prefill").expect("a stage");
        let mut nodes = 0..tree.nodes.len() as u32;
        let node = nodes.find(|node| tree.path(*node) == "model.layers.* / mlp");
        (tree.instances as f64, tree.nodes[node.expect("a node") as usize].flops)
    };
    let mlp = |endings: &[&str]| with_all("h200-llama-8b", endings, look);
    let (instances, flops) = mlp(&["timeline.sqlite.zst", ".pt.trace.json.zst"]);
    // Eight prompts of 1024.
    let tokens = 8192.0;
    let expected = instances * 32.0 * 3.0 * 2.0 * tokens * 14_336.0 * 4096.0;
    assert_eq!((flops.full, flops.uncounted), (expected, 0));
    // Without the trace of the operators nothing tells the sizes.
    let (_, flops) = mlp(&["timeline.sqlite.zst"]);
    assert_eq!((flops.full, flops.counted), (0.0, 0));
    assert!(flops.uncounted > 0);
}
