//! Rooflines, representativeness and kernel identity over the captures in `fixtures/`.
//!
//! Expected numbers come from the model's dimensions or, where said, from a Python script of its own over the raw
//! CSV pages and the SQLite export: NVTX ranges, API calls by correlation id, names stripped of namespaces and casts.

use std::path::Path;
use std::sync::LazyLock;

use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Dataset, Findings};
use rooflens::hardware::Hardware;
use rooflens::{bundle, ingest};

/// Read once: the captures are large for a build without optimization.
static SMALL: LazyLock<All> = LazyLock::new(|| findings("h200-llama-1b"));
static LARGE: LazyLock<All> = LazyLock::new(|| findings("h200-llama-8b"));

type All = Vec<(&'static str, Findings)>;

fn findings(fixture: &str) -> All {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("a fixture opens");
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let all = analysis::run(&context).into_iter();
    all.map(|(analysis, findings)| (analysis.id, findings)).collect()
}

fn dataset<'a>(all: &'a [(&str, Findings)], id: &str) -> &'a Dataset {
    let mut datasets = all.iter().flat_map(|(_, findings)| &findings.datasets);
    datasets.find(|dataset| dataset.id == id).expect("the data set is made")
}

/// Cells of one row as files hold them, by column.
fn rows(dataset: &Dataset) -> Vec<impl Fn(&str) -> String> {
    let row = |at: usize| {
        move |id: &str| {
            let column = dataset.columns.iter().position(|column| column.id == id);
            dataset.rows[at][column.expect("a column")].plain()
        }
    };
    (0..dataset.rows.len()).map(row).collect()
}

fn metric(all: &[(&str, Findings)], id: &str, stage: &str) -> Option<f64> {
    let mut metrics = all.iter().flat_map(|(_, findings)| &findings.metrics);
    let found =
        metrics.find(|metric| metric.id == id && metric.scope.stage.as_deref() == Some(stage));
    found.expect("the metric is made").value.number()
}

fn near(value: Option<f64>, expected: f64) {
    let value = value.expect("a number");
    assert!((value / expected - 1.0).abs() < 1e-6, "{value} for {expected}");
}

/// Operations and DRAM bytes of the profiled products on tensor cores, by pass and grid.
fn products(all: &[(&str, Findings)], pass: &str) -> Vec<(String, f64, f64)> {
    let number = |text: String| text.parse::<f64>().expect("a number");
    rows(dataset(all, "profiled_kernels"))
        .iter()
        .filter(|cell| cell("pass") == pass && cell("name").starts_with("nvjet"))
        .map(|cell| (cell("grid"), number(cell("flop")), number(cell("dram_bytes"))))
        .collect()
}

#[test]
fn tensor_operations_of_products_are_2_m_n_k() {
    let all = &*SMALL;
    // Batch 4, prompt 512, hidden 2048, 8 key-value heads of 64: query and output projections are
    // 2048 × 2048 × 2048, those of keys and values 2048 × 512 × 2048. In the order of the launches by duration.
    let (square, narrow) = (2.0 * 2048.0 * 2048.0 * 2048.0, 2.0 * 2048.0 * 512.0 * 2048.0);
    let prefill = products(all, "ncu-prefill");
    let expected = [square, square, narrow, narrow];
    assert_eq!(prefill.len(), expected.len());
    for ((grid, flops, _), expected) in prefill.iter().zip(expected) {
        assert!((flops / expected - 1.0).abs() < 0.02, "{grid}: {flops} for {expected}");
    }
    // Decode: tiles pad 4 sequences, those of 64x8 to 8 (query and output, grid 4x8), those of 8x64 to 64 (key and
    // value, grid 4x16).
    for (grid, flops, _) in products(all, "ncu-decode") {
        let expected = match grid.as_str() {
            "4x8x1" => 2.0 * 8.0 * 2048.0 * 2048.0,
            "4x16x1" => 2.0 * 64.0 * 512.0 * 2048.0,
            _ => panic!("an unknown product of grid {grid}"),
        };
        assert!((flops / expected - 1.0).abs() < 0.02, "{grid}: {flops} for {expected}");
    }
}

#[test]
fn matrix_vector_products_read_their_weights_once() {
    let all = &*LARGE;
    // Hidden 4096, 8 key-value heads of 128, 2 bytes a weight: query 4096 × 4096, key and value 4096 × 1024.
    let weights = [4096.0 * 4096.0 * 2.0, 4096.0 * 1024.0 * 2.0, 4096.0 * 1024.0 * 2.0];
    let products = products(all, "ncu-decode");
    assert_eq!(products.len(), weights.len());
    for ((grid, _, bytes), weights) in products.iter().zip(weights) {
        let ratio = bytes / weights;
        assert!((1.0..=1.1).contains(&ratio), "{grid}: {ratio}");
    }
    // Split-K: 4096 in three parts of 22 steps of 64 is 4224 deep, for a batch of 8.
    assert!((products[1].1 - 2.0 * 8.0 * 1024.0 * 4224.0).abs() < 1.0);
}

/// Expected values by the script.
#[test]
fn counters_spread_over_the_timeline_as_a_script_over_the_raw_files_does() {
    let all = &*SMALL;
    near(metric(all, "profiled_share", "prefill"), 0.494_911_271_5);
    near(metric(all, "dram_bytes", "prefill"), 5_445_060_821.333);
    near(metric(all, "profiled_dram_share", "prefill"), 0.091_298_218_69);
    near(metric(all, "profiled_share", "decode"), 0.631_271_016_2);
    near(metric(all, "dram_bytes", "decode"), 3_939_817_258.667);
    // The script counts tensor operations only, of which bf16's share of the HFU is 0.062887; fp32 adds 2.469
    // GFLOP at 66.9 TFLOP/s in 12.425 ms.
    let hfu = metric(all, "hfu", "prefill").expect("a number");
    assert!((hfu - 0.062_887_056 - 2.469e9 / 66.9e12 / 0.012_425_08).abs() < 1e-5, "{hfu}");

    let all = &*LARGE;
    near(metric(all, "profiled_share", "decode"), 0.382_622_683_1);
    near(metric(all, "dram_bytes", "decode"), 45_203_873_792.0);
    // No prefill was profiled: nothing is said of its operations.
    assert_eq!(metric(all, "hfu", "prefill"), None);
}

#[test]
fn all_kernels_of_nsight_compute_are_found_in_the_timeline() {
    let all = &*SMALL;
    let passes = rows(dataset(all, "identity_passes"));
    let of = |pass: &str| {
        let row = passes.iter().find(|cell| cell("pass") == pass).expect("the pass");
        ["kernels", "exact", "signature", "without_parameters", "ambiguous", "none"].map(row)
    };
    // Distinct names and letter-by-letter matches: `sort -u`, `comm` over the names of the raw files.
    assert_eq!(of("torch"), ["38", "9", "3", "26", "0", "0"]);
    assert_eq!(of("ncu-decode")[4..], ["0", "0"]);
    assert_eq!(of("ncu-prefill")[4..], ["0", "0"]);
}

#[test]
fn the_down_projection_is_not_taken_for_the_query_projection_of_the_same_grid() {
    // One kernel and grid computes 2048³ in 24 µs and, with four times the depth, in 80 µs: 64 and 32 launches.
    let all = &*SMALL;
    let launches = rows(dataset(all, "representativeness"));
    let query = launches
        .iter()
        .find(|cell| cell("pass") == "ncu-prefill" && cell("kernel").contains("256x128"))
        .expect("the query projection was profiled");
    assert_eq!((query("grid"), query("stands_for")), ("2x64x1".to_owned(), "64".to_owned()));
    assert_eq!(query("verdict"), "representative");
}
