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

/// The published sizes of DeepSeek-OCR.
const OCR: &str = r#"{"model_type": "deepseek_vl_v2", "language_config": {"architectures": ["DeepseekV2ForCausalLM"],
    "first_k_dense_replace": 1, "hidden_size": 1280, "intermediate_size": 6848, "kv_lora_rank": null,
    "moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 10,
    "num_experts_per_tok": 6, "num_hidden_layers": 12, "num_key_value_heads": 10, "q_lora_rank": null,
    "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "use_mla": false, "v_head_dim": 0, "vocab_size": 129280},
    "projector_config": {"input_dim": 2048, "model_type": "mlp_projector", "n_embed": 1280},
    "vision_config": {"image_size": 1024, "model_type": "vision", "width": {
        "clip-l-14-224": {"heads": 16, "image_size": 224, "layers": 24, "patch_size": 14, "width": 1024},
        "sam_vit_b": {"downsample_channels": [512, 1024], "global_attn_indexes": [2, 5, 8, 11], "heads": 12,
            "layers": 12, "width": 768}}}}"#;

/// Ranges `vision`, `prefill` and `decode` of four images on an H200: GPU times of 18, 39 and 470 ms. The vision range
/// ends before the prefill begins, or lies in it.
fn ocr_trace(is_nested: bool) -> Value {
    let mut events = Vec::new();
    let kernel = |events: &mut Vec<Value>, start: f64, duration: f64| {
        let correlation = events.len();
        events.push(
            json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
            "ts": start - 50.0, "dur": 2.0, "args": {"correlation": correlation}}),
        );
        events.push(
            json!({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start,
            "dur": duration, "args": {"device": 0, "stream": 7, "correlation": correlation}}),
        );
    };
    let range = |name: &str, start: f64, duration: f64| json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration});
    for image in 0..4 {
        let start = f64::from(image) * 1e6;
        events.push(range("vision", start, 20_000.0));
        events.push(match is_nested {
            true => range("prefill", start, 60_000.0),
            false => range("prefill", start + 20_000.0, 40_000.0),
        });
        events.push(range("decode", start + 100_000.0, 500_000.0));
        kernel(&mut events, start + 100.0, 18_000.0);
        kernel(&mut events, start + 20_100.0, 39_000.0);
        for token in 0..10 {
            kernel(
                &mut events,
                start + 100_100.0 + f64::from(token) * 50_000.0,
                20_000.0,
            );
        }
    }
    json!({"schemaVersion": 1, "traceEvents": events, "deviceProperties": [{"id": 0, "name": "NVIDIA H200",
        "totalGlobalMem": 150_000_000_000_u64, "computeMajor": 9, "computeMinor": 0, "numSms": 132}]})
}

/// The report on such a trace.
fn ocr_report(is_nested: bool, workload: &str) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    write("config.json", OCR);
    write("trace.json", &ocr_trace(is_nested).to_string());
    let sizes = "dtype = \"bf16\"\nconfig = \"config.json\"\nbatch = 1\noutput_tokens = 100\n";
    write("workload.toml", &format!("{sizes}{workload}"));
    json_of(&["report", folder.path().to_str().expect("UTF-8")])
}

/// The MFU of a stage.
fn mfu(report: &Value, stage: &str) -> f64 {
    let metrics = report["metrics"].as_array().expect("metrics");
    let is_asked = |metric: &&Value| metric["id"] == "mfu" && metric["scope"]["stage"] == stage;
    let metric = metrics.iter().find(is_asked).expect("the metric");
    metric["value"]["value"].as_f64().expect("a number")
}

#[test]
fn deepseek_ocr_has_mfu_by_stage() {
    // SAM of 4096 patches, 768 wide: patches of 3·16² values, 12 layers of 12·768² parameters, attention over windows
    // of 196 in 8 of them and over all in 4; a neck of four convolutions. CLIP, 1024 wide, over 257 tokens: 24 layers
    // of 12·1024². A projection of 2048·1280 for 256 tokens.
    let sam = 4096.0 * (2.0 * (768.0 * 768.0 + 144.0 * 768.0 * 768.0))
        + 4.0 * 4096.0 * 768.0 * (8.0 * 196.0 + 4.0 * 4096.0);
    let neck = 2.0 * 4096.0 * (768.0 * 256.0 + 9.0 * 256.0 * 256.0)
        + 2.0 * 1024.0 * 9.0 * 256.0 * 512.0
        + 2.0 * 256.0 * 9.0 * 512.0 * 1024.0;
    let clip = 24.0 * (2.0 * 257.0 * 12.0 * 1024.0 * 1024.0 + 4.0 * 257.0 * 257.0 * 1024.0);
    let vision = sam + neck + clip + 2.0 * 256.0 * 2048.0 * 1280.0;
    assert_eq!(vision, 1_100_837_126_144.0);
    // A token: 12 layers with 4·1280² of attention, one with 3·1280·6848, 11 with a router of 64·1280, 6 of 64 experts
    // and 2 shared ones of 3·1280·896.
    let token = 12.0 * 4.0 * 1280.0 * 1280.0
        + 3.0 * 1280.0 * 6848.0
        + 11.0 * (64.0 * 1280.0 + 8.0 * 3.0 * 1280.0 * 896.0);
    assert_eq!(token, 408_616_960.0);
    let head = 2.0 * 1280.0 * 129_280.0;
    let pair = 12.0 * 4.0 * 1280.0;
    let prefill = 2.0 * 300.0 * token + pair * 300.0 * 301.0 / 2.0 + head;
    // 100 tokens behind 300: 301 to 400 keys.
    let decode = 100.0 * (2.0 * token + head) + pair * 35_050.0;
    let workload = "prompt_tokens = 300\nimages = 1\n";
    let (apart, nested) = (ocr_report(false, workload), ocr_report(true, workload));
    let is_share = |mfu: f64, flops: f64, seconds: f64| {
        let expected = flops / seconds / 989.4e12;
        assert!((mfu / expected - 1.0).abs() < 1e-9, "{mfu}, not {expected}");
    };
    for report in [&apart, &nested] {
        is_share(mfu(report, "vision"), vision, 0.018);
        is_share(mfu(report, "decode"), decode, 0.47);
    }
    is_share(mfu(&apart, "prefill"), prefill, 0.039);
    // From the first kernel of the image to the last one of the prompt.
    is_share(mfu(&nested, "prefill"), vision + prefill, 0.059);
    // The first page has all three.
    for (report, shown) in [(&apart, "vision"), (&nested, "vision, part of prefill")] {
        let rows = rows(report, "headline");
        let stages: Vec<&Value> = rows.iter().map(|row| &row["stage"]).collect();
        assert!(
            rows.len() == 3 && stages.contains(&&json!(shown)),
            "{stages:?}"
        );
    }
    // At 640 × 640 SAM sees 1600 patches, and CLIP 101 tokens.
    let small = ocr_report(false, &format!("{workload}image_size = [640, 640]\n"));
    let sam = 1600.0 * (2.0 * (768.0 * 768.0 + 144.0 * 768.0 * 768.0))
        + 4.0 * 1600.0 * 768.0 * (8.0 * 196.0 + 4.0 * 1600.0);
    let clip = 24.0 * (2.0 * 101.0 * 12.0 * 1024.0 * 1024.0 + 4.0 * 101.0 * 101.0 * 1024.0);
    let vision = sam + (neck / 4096.0) * 1600.0 + clip + 2.0 * 100.0 * 2048.0 * 1280.0;
    is_share(mfu(&small, "vision"), vision, 0.018);
}

#[test]
fn modules_are_metrics_that_add_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("config.json");
    std::fs::write(&config, OCR).expect("written");
    let config = config.to_str().expect("UTF-8");
    let report = json_of(&[
        "predict", "--model", config, "--gpu", "H200", "--prompt", "300", "--images", "1",
    ]);
    let metrics = report["metrics"].as_array().expect("metrics");
    let metric = |id: &str, stage: Value, class: Value| {
        let mut of_id = metrics.iter().filter(|metric| metric["id"] == id);
        let scope = |metric: &&Value| {
            (&metric["scope"]["stage"], &metric["scope"]["class"]) == (&stage, &class)
        };
        of_id.find(scope).expect("the metric")["value"]["value"].as_f64()
    };
    // The total of the class of the model, and the FLOPs that MFU uses.
    let parameters = metric("module_parameters", Value::Null, Value::Null);
    assert_eq!(parameters, Some(3_336_106_240.0));
    let vision = metric("module_flops", "vision".into(), Value::Null);
    assert_eq!(vision, Some(1_100_837_126_144.0));
    // 12 layers of 1280²; an output of 1280 for each of 300 tokens. A cache of 2·1280 elements of 2 bytes.
    let of_query = |id: &str| metric(id, "language".into(), "deepseek_vl_v2.q".into());
    assert_eq!(of_query("module_parameters"), Some(19_660_800.0));
    assert_eq!(of_query("module_activations"), Some(12.0 * 300.0 * 1280.0));
    let cache = metric("module_cache", Value::Null, Value::Null);
    assert_eq!(cache, Some(12.0 * 300.0 * 5120.0));
    let rows = rows(&report, "model_modules");
    let of_vision = rows.iter().filter(|row| row["family"] == "clip-l-14");
    assert!(of_vision.count() > 5);
}
