//! Predictions against captures, and the command as scripts meet it.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{path as fixture, rooflens};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `report.json` of some arguments.
fn json_of(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("report.json");
    let out = out.to_str().expect("UTF-8");
    let output = rooflens(&[args, &["-q", "-o", out]].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&std::fs::read(out).expect("written")).expect("JSON")
}

/// The rows of a data set as objects.
fn rows(report: &Value, id: &str) -> Vec<Value> {
    let datasets = report["datasets"].as_array().expect("data sets");
    let Some(dataset) = datasets.iter().find(|one| one["id"] == id) else {
        return Vec::new();
    };
    let columns: Vec<&str> = dataset["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["id"].as_str().expect("an id"))
        .collect();
    let object = |row: &Value| {
        let cells = row.as_array().expect("cells").iter();
        columns
            .iter()
            .map(|id| (*id).to_owned())
            .zip(cells.cloned())
            .collect::<Value>()
    };
    dataset["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(object)
        .collect()
}

#[test]
fn no_measured_stage_is_faster_than_its_bound() {
    let mut stages = 0;
    for (bundle, least) in [
        ("h200-llama-8b", 8),
        ("h200-llama-1b", 10),
        ("h200-qwen-0.5b", 3),
        ("h200-llama-capture", 8),
        ("h100-train", 2),
    ] {
        let path = fixture(bundle);
        let rows = rows(
            &json_of(&["report", path.to_str().expect("UTF-8")]),
            "predicted_bounds",
        );
        assert!(rows.len() >= least, "{bundle}: {} stages", rows.len());
        for row in &rows {
            let number = |id: &str| row[id].as_f64().expect("a number");
            let (bound, measured) = (number("bound_ns"), number("time_ns"));
            assert!(bound > 0.0 && bound <= measured, "{bundle}: {row}");
            // The factor is what idle time and kernels below the roofline cost, and nothing else.
            if let (Some(busy), Some(reached)) =
                (row["busy_share"].as_f64(), row["of_busy"].as_f64())
            {
                let explained = 1.0 / (busy * reached);
                assert!(
                    (explained / number("factor") - 1.0).abs() < 1e-9,
                    "{bundle}: {row}"
                );
                assert!(
                    reached <= 1.0,
                    "{bundle}: kernels above the roofline: {row}"
                );
            }
        }
        stages += rows.len();
    }
    assert!(stages > 30, "{stages} stages");
}

#[test]
fn the_bounds_of_llama_8b_are_those_by_hand() {
    let config = fixture("h200-llama-8b").join("config.json");
    let config = config.to_str().expect("UTF-8");
    let report = json_of(&[
        "predict",
        "--model",
        config,
        "--gpu",
        "H200",
        "--batch",
        "8",
        "--prompt",
        "1024",
        "--output-tokens",
        "1",
        "--dtype",
        "bf16",
    ]);
    let rows = rows(&report, "prediction");
    let number = |id: &str| rows[0][id].as_f64().expect("a number");
    // Prefill: 2·8192·6 979 321 856 FLOPs of projections and MLP and 2 201 170 739 200 of attention at 989.4 TFLOP/s;
    // the head is read, 1 050 673 152 B at 4.8 TB/s, and 8192 rows of the embedding, 67 108 864 B.
    let computed = (114_349_209_288_704.0 + 2_201_170_739_200.0) / 989.4e12;
    let moved = (1_050_673_152.0 + 67_108_864.0) / 4.8e12;
    assert!((number("ttft_ns") / ((computed + moved) * 1e9) - 1.0).abs() < 1e-12);
    // A step behind 1024 tokens: matrices and head in 16 bits, 8 rows of the embedding, 8·(1025 + 1) positions of
    // 131 072 B.
    let bytes = 2.0 * 7_504_658_432.0 + 8.0 * 8192.0 + 8.0 * 1026.0 * 131_072.0;
    assert!((number("tpot_ns") / (bytes / 4.8e12 * 1e9) - 1.0).abs() < 1e-12);
    // The same as metrics, which `serve-report --predicted` reads.
    let metrics = report["metrics"].as_array().expect("metrics");
    let metric = |id: &str| {
        let own = metrics
            .iter()
            .find(|one| one["id"] == id)
            .expect("the metric");
        (
            own["value"]["value"].as_f64().expect("a number"),
            own["scope"]["class"].clone(),
        )
    };
    // A request that is alone: one prompt of the eight.
    let alone = computed / 8.0 + (1_050_673_152.0 + 67_108_864.0 / 8.0) / 4.8e12;
    let (ttft, by) = metric("predict.ttft_bound");
    assert!(
        (ttft / (alone * 1e9) - 1.0).abs() < 1e-12 && by == "compute",
        "{ttft} {by}"
    );
    let (tpot, by) = metric("predict.tpot_bound");
    assert!(
        (tpot / (bytes / 4.8e12 * 1e9) - 1.0).abs() < 1e-12 && by == "memory",
        "{by}"
    );
    // 141 GB · 0.9 less 16.06 GB of weights, over 1025 positions.
    let free = 126.9e9 - 2.0 * 8_030_261_248.0;
    let fits = (free / (1025.0 * 131_072.0)) as u64;
    assert!(number("weights_bytes") == 2.0 * 8_030_261_248.0);
    let memory = self::rows(&report, "prediction_memory");
    assert_eq!(memory[0]["sequences"].as_u64(), Some(fits));
}

#[test]
fn wrong_arguments_are_2_and_configs_that_cannot_be_used_are_3() {
    let config = fixture("h200-llama-8b").join("config.json");
    let config = config.to_str().expect("UTF-8");
    let fails = |more: &[&str], says: &str| {
        let output = rooflens(&[&["predict", "--model", config], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(
            stderr(&output).contains(says),
            "{more:?}: {}",
            stderr(&output)
        );
    };
    fails(&[], "--gpu");
    fails(&["--gpu", "H9000"], "no GPU named H9000");
    fails(&["--gpu", "H100"], "H100 SXM5 80GB");
    fails(&["--gpu", "H200", "--dtype", "fp7"], "no number format fp7");
    fails(&["--gpu", "H200", "--speculate", "4"], "TOKENS:ACCEPTANCE");
    fails(
        &["--gpu", "H200", "--batch", "0"],
        "0 is not in 1..=1048576",
    );
    fails(&["--gpu", "H200", "--cached-prefix", "1.5"], "share");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |name: &str, content: &str, says: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("writable");
        let model = path.to_str().expect("UTF-8");
        let output = rooflens(&["predict", "--model", model, "--gpu", "H200"]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(
            stderr(&output).contains(says),
            "{name}: {}",
            stderr(&output)
        );
    };
    refused(
        "cut.json",
        "{\"model_type\": \"llama\", \"hidden",
        "is not JSON",
    );
    refused(
        "other.json",
        "{\"model_type\": \"no_such_model\"}",
        "model type no_such_model is not supported",
    );
    let partial = json!({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1});
    refused(
        "partial.json",
        &partial.to_string(),
        "lacks vocab_size, num_hidden_layers",
    );
    let missing = rooflens(&[
        "predict",
        "--model",
        "/no/such/config.json",
        "--gpu",
        "H200",
    ]);
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn without_an_output_the_summary_is_printed_and_with_one_all_formats_are_written() {
    let config = fixture("h200-llama-1b").join("config.json");
    let config = config.to_str().expect("UTF-8");
    let printed = rooflens(&["predict", "--model", config, "--gpu", "H200"]);
    assert!(printed.status.success());
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        text.starts_with("# ") && text.contains("specified peaks"),
        "{text}"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("all");
    let arguments = [
        "predict", "--model", config, "--gpu", "H200", "--gpu", "B200", "--lang", "zh",
    ];
    let written = rooflens(&[&arguments[..], &["-o", out.to_str().expect("UTF-8")]].concat());
    assert!(written.status.success(), "{}", stderr(&written));
    for file in ["report.md", "report.html", "report.json", "prediction.csv"] {
        assert!(Path::new(&out).join(file).is_file(), "{file}");
    }
}

#[test]
fn measured_rates_replace_specified_ones_and_say_so() {
    let bundle = fixture("h200-llama-8b");
    let config = bundle.join("config.json");
    let report = json_of(&[
        "predict",
        "--model",
        config.to_str().expect("UTF-8"),
        "--gpu",
        "H200",
        "--batch",
        "8",
        "--peaks",
        bundle.to_str().expect("UTF-8"),
    ]);
    let figures = rows(&report, "prediction_calibration");
    let of = |what: &str| {
        figures
            .iter()
            .find(|row| row["what"] == what)
            .expect("measured")
    };
    // 787.5 of 989.4 TFLOP/s, 4.252 of 4.8 TB/s.
    assert!((of("bf16")["ratio"].as_f64().expect("a ratio") - 0.796).abs() < 0.001);
    assert!((of("copy")["ratio"].as_f64().expect("a ratio") - 0.8858).abs() < 0.001);
    assert_eq!(of("prefill (baseline)")["error"].as_f64(), Some(0.0));
    let point = &rows(&report, "prediction")[0];
    let calibrated = point["ttft_estimate_ns"].as_f64().expect("calibrated");
    assert!(calibrated > point["ttft_ns"].as_f64().expect("predicted"));
    // Single operations say how far their roofline times at these rates are from them.
    let report = json_of(&[
        "predict",
        "--model",
        config.to_str().expect("UTF-8"),
        "--gpu",
        "H100 SXM",
        "--peaks",
        "src/studies/microbench/testdata",
    ]);
    let figures = rows(&report, "prediction_calibration");
    let of = |what: &str| {
        figures
            .iter()
            .find(|row| row["what"] == what)
            .expect("measured")
    };
    // The fastest GEMM of `bench.json` reaches 696.5 TFLOP/s, more than the 686.6 sustained ones of `peaks.json`; 989.4 are
    // specified.
    assert!((of("bf16")["ratio"].as_f64().expect("a ratio") - 0.7040).abs() < 0.001);
    assert!(
        of("attention_decode bf16")["error"]
            .as_f64()
            .is_some_and(|error| error < 0.2)
    );
    // Rates of another GPU calibrate nothing.
    let other = rooflens(&[
        "predict",
        "--model",
        config.to_str().expect("UTF-8"),
        "--gpu",
        "L4",
        "--peaks",
        bundle.join("snapshot/peaks.json").to_str().expect("UTF-8"),
    ]);
    assert_eq!(other.status.code(), Some(3));
}
