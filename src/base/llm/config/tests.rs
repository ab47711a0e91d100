use rooflens_units::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::{Convention, Reach, Shape, forward, kv_bytes_per_token, modules};

/// Public configs, cut to what the architecture needs, with the published number of parameters and its source.
const PUBLISHED: &str = include_str!("published.json");

fn read(value: &Value) -> Llm {
    parse(value).unwrap_or_else(|error| panic!("{error}"))
}

fn published(name: &str) -> Llm {
    let all: Vec<Value> = serde_json::from_str(PUBLISHED).expect("valid JSON");
    let one = all
        .iter()
        .find(|one| one["name"] == name)
        .expect("a known model");
    read(&one["config"])
}

#[test]
fn parameters_equal_published_ones() {
    let all: Vec<Value> = serde_json::from_str(PUBLISHED).expect("valid JSON");
    assert!(all.len() >= 94, "{} models", all.len());
    let mut differing = Vec::new();
    for one in &all {
        let counted = parse(&one["config"]).map(|llm| llm.parameters());
        if counted.as_ref().ok() != one["parameters"].as_u64().as_ref() {
            let (name, source) = (&one["name"], &one["source"]);
            differing.push(format!(
                "{name}: {counted:?}, not {}: {source}",
                one["parameters"]
            ));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// A pass over 64 tokens with logits for all of them, and over what encoders read before. The reference computes all
/// pairs of queries and keys.
#[test]
fn flops_equal_those_of_an_independent_count() {
    let all: Vec<Value> = serde_json::from_str(PUBLISHED).expect("valid JSON");
    let counted = all.iter().filter(|one| one["flops"].is_u64());
    let counted: Vec<&Value> = counted.collect();
    assert!(counted.len() >= 60, "{} models", counted.len());
    let mut differing = Vec::new();
    for one in counted {
        let llm = read(&one["config"]);
        let shape = Shape {
            batch: 1,
            new: llm.sequence.unwrap_or(64),
            past: 0,
            logits: if llm.sequence.is_some() { 1 } else { 64 },
        };
        let mut flops = forward(&llm, shape, Convention::Full).0;
        // A sound or text is read in the same pass, an image is not.
        let read = llm
            .encoders
            .iter()
            .filter(|encoder| encoder.name != "vision");
        for encoder in read.filter(|_| llm.layers[0].1.cores.len() > 1) {
            flops += encoder.forward(1).0;
        }
        // Recurrences are no products of matrices in the reference.
        flops -= llm.state_flops() * 64.0;
        let images = llm
            .encoders
            .iter()
            .filter(|encoder| encoder.name == "vision");
        let of_image: f64 = images.map(|encoder| encoder.forward(1).0).sum();
        for (key, counted) in [("flops", flops), ("image_flops", of_image)] {
            let Some(reference) = one[key].as_f64() else {
                continue;
            };
            // The mean of the keys that a query of Stable Diffusion 3.5 sees is rounded.
            if (counted - reference).abs() > 2e-6 * reference {
                let ratio = counted / reference;
                differing.push(format!("{}: {ratio} of {key} {reference}", one["name"]));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn modules_add_up_to_the_model() {
    let all: Vec<Value> = serde_json::from_str(PUBLISHED).expect("valid JSON");
    for one in &all {
        let (llm, name) = (read(&one["config"]), &one["name"]);
        let shape = Shape {
            batch: 2,
            new: 64,
            past: 0,
            logits: 1,
        };
        let modules = modules(&llm, shape, 3);
        let parameters: u64 = modules.iter().map(|module| module.parameters).sum();
        assert_eq!(Some(parameters), one["parameters"].as_u64(), "{name}");
        let read: f64 = llm
            .encoders
            .iter()
            .map(|encoder| encoder.forward(6).0)
            .sum();
        let of_model = forward(&llm, shape, Convention::Causal).0 + read;
        let flops: f64 = modules.iter().map(|module| module.flops.0).sum();
        assert!((flops / of_model - 1.0).abs() < 1e-12, "{name}");
        let of_language = modules.iter().filter(|module| module.stage == "language");
        let cache: f64 = of_language.map(|module| module.cache.0).sum();
        let cached = llm.cached_elements(64) + llm.state_elements();
        assert!((cache - 4.0 * cached).abs() <= 1e-12 * cache, "{name}");
    }
}

#[test]
fn the_size_of_an_image_decides_its_tokens_and_work_and_no_parameters() {
    // Qwen2.5-VL: patches of 14, 2 × 2 of them an output: 1280 × 720 pixels are 45.7 × 25.7 outputs.
    let qwen = published("Qwen2.5-VL-7B");
    let wide = qwen.clone().viewing([1280, 720]);
    assert_eq!(wide.encoders[0].outputs, 46 * 26);
    assert_eq!(wide.encoders[0].llm.sequence, Some(4 * 46 * 26));
    assert_eq!(wide.parameters(), qwen.parameters());
    assert_eq!(wide.viewing([1024, 1024]).encoders, qwen.encoders);
    // DeepSeek-OCR at 640 × 640: 40 × 40 patches, 10 × 10 outputs, 10 row breaks, an end. SAM 768 wide: patches of 768
    // inputs, 12 layers of 12·768², windows of 196 in 8 and all 1600 in 4, a neck; CLIP 1024 wide over 101 tokens.
    let ocr = published("DeepSeek-OCR").viewing([640, 512]);
    assert_eq!(ocr.encoders[1].outputs, 111);
    let sam = 1600.0 * (2.0 * (768.0 * 768.0 + 144.0 * 768.0 * 768.0))
        + 4.0 * 768.0 * 1600.0 * (8.0 * 196.0 + 4.0 * 1600.0);
    let neck = 2.0 * 1600.0 * (768.0 * 256.0 + 9.0 * 256.0 * 256.0)
        + 2.0 * 400.0 * 9.0 * 256.0 * 512.0
        + 2.0 * 100.0 * 9.0 * 512.0 * 1024.0;
    let clip = 24.0 * (2.0 * 101.0 * 12.0 * 1024.0 * 1024.0 + 4.0 * 101.0 * 101.0 * 1024.0);
    let projection = 2.0 * 100.0 * 2048.0 * 1280.0;
    let flops: f64 = ocr
        .encoders
        .iter()
        .map(|encoder| encoder.forward(1).0)
        .sum();
    assert_eq!(flops, sam + neck + clip + projection);
    // A model that resizes images to one size.
    let gemma = published("Gemma-3-4B");
    let resized = gemma.clone().viewing([100, 100]);
    assert_eq!(resized.encoders, gemma.encoders);
    assert!(
        resized
            .remarks
            .iter()
            .any(|remark| remark.contains("resized to one size"))
    );
}

/// FLOPs of the last token of a sequence of 1024.
fn flops_per_token(llm: &Llm) -> f64 {
    let shape = Shape {
        batch: 1,
        new: 1,
        past: 1023,
        logits: 1,
    };
    forward(llm, shape, Convention::Causal).0
}

#[test]
fn flops_per_token_are_twice_the_active_matrices_and_attention() {
    // Llama-3-8B: a layer 2·4096² + 2·4096·1024 + 3·4096·14336 = 218 103 808; 32 layers and the head 4096·128 256:
    // 7 504 658 432. Attention 2·(128 + 128)·32 heads·32 layers·1024 keys.
    let by_hand = 2.0 * 7_504_658_432.0 + 524_288.0 * 1024.0;
    assert_eq!(flops_per_token(&published("Llama-3-8B")), by_hand);
    // Mixtral: attention 41 943 040, router 32 768, two experts 2·3·4096·14336 = 352 321 536; 32 layers, head
    // 4096·32 000: 12 748 587 008.
    let by_hand = 2.0 * 12_748_587_008.0 + 524_288.0 * 1024.0;
    assert_eq!(flops_per_token(&published("Mixtral-8x7B")), by_hand);
    // DeepSeek-V3: attention 7168·1536 + 1536·128·192 + 7168·576 + 512·128·256 + 128·128·7168 = 187 105 280 in 61
    // layers; 3 dense layers 3·7168·18 432; 58 with a router 7168·256 and 9 experts of 3·7168·2048; head 7168·129 280:
    // 36 624 596 992. Attention 2·(192 + 128)·128·61 = 4 997 120 for a key.
    let by_hand = 2.0 * 36_624_596_992.0 + 4_997_120.0 * 1024.0;
    assert_eq!(flops_per_token(&published("DeepSeek-V3")), by_hand);
    // Qwen3-30B-A3B: 18 874 368 + router 262 144 + 8 experts of 3·2048·768 = 56 885 248 in 48 layers; head
    // 2048·151 936: 3 041 656 832. Attention 2·(128 + 128)·32·48 = 786 432 for a key.
    let by_hand = 2.0 * 3_041_656_832.0 + 786_432.0 * 1024.0;
    assert_eq!(flops_per_token(&published("Qwen3-30B-A3B")), by_hand);
}

#[test]
fn cache_bytes_per_token_follow_from_heads_ranks_and_windows() {
    // Grouped queries: 2·8 heads·128·32 layers·2 bytes.
    assert_eq!(
        kv_bytes_per_token(&published("Llama-3-8B"), Bytes(2.0)),
        Bytes(131_072.0)
    );
    // Latent: (512 + 64)·61 layers·2 bytes.
    assert_eq!(
        kv_bytes_per_token(&published("DeepSeek-V3"), Bytes(2.0)),
        Bytes(70_272.0)
    );
    // 2·4 heads·256·26 layers·2 bytes; of 8192 tokens every other layer keeps 4096: 2048·13·(8192 + 4096) elements.
    let gemma = published("Gemma-2-2B");
    assert_eq!(kv_bytes_per_token(&gemma, Bytes(2.0)), Bytes(106_496.0));
    assert_eq!(gemma.cached_elements(8192), 2048.0 * 13.0 * 12_288.0);
    // gpt-oss: 2·8·64 elements; of 1024 tokens 12 layers keep 128 and 12 keep all.
    assert_eq!(
        published("gpt-oss-20b").cached_elements(1024),
        1024.0 * 12.0 * 1152.0
    );
    // A state instead of a cache: 64 layers of 5120 channels with 16 values, and 3 of the convolution.
    let mamba = published("Mamba-2.8B");
    assert_eq!(
        (mamba.cached_elements(1000), mamba.state_elements()),
        (0.0, 64.0 * 5120.0 * 19.0)
    );
}

#[test]
fn active_parameters_of_mixtures_are_published_too() {
    // 12.9 B of arXiv:2401.04088; 3.3 B and 22 B in the names and cards of Qwen3; 37 B of arXiv:2412.19437;
    // 3.61 B and 5.13 B of arXiv:2508.10925, which leaves the embedding out.
    let active = |name: &str| published(name).active_parameters() as f64 / 1e9;
    let embedding = |name: &str| published(name).tables as f64 / 1e9;
    assert!((active("Mixtral-8x7B") - 12.9).abs() < 0.05);
    assert!((active("Qwen3-30B-A3B") - 3.35).abs() < 0.05);
    assert!((active("Qwen3-235B-A22B") - 22.2).abs() < 0.5);
    assert!((active("DeepSeek-V3") - 37.5).abs() < 0.5);
    assert!((active("gpt-oss-20b") - embedding("gpt-oss-20b") - 3.61).abs() < 0.01);
    assert!((active("gpt-oss-120b") - embedding("gpt-oss-120b") - 5.13).abs() < 0.01);
}

#[test]
fn layers_of_one_kind_are_counted_together() {
    let kinds = |name: &str| -> Vec<(u64, &'static str)> {
        published(name)
            .layers
            .iter()
            .map(|(count, layer)| (*count, layer.mixer))
            .collect()
    };
    assert_eq!(kinds("Llama-3-8B"), [(32, "full attention")]);
    assert_eq!(
        kinds("Gemma-3-1B"),
        [(22, "sliding-window attention"), (4, "full attention")]
    );
    assert_eq!(
        kinds("Qwen3.5-27B"),
        [(48, "gated delta net"), (16, "full attention")]
    );
    assert_eq!(
        kinds("DeepSeek-V3"),
        [(3, "latent attention"), (58, "latent attention")]
    );
    assert_eq!(
        kinds("Llama-4-Scout, text"),
        [(36, "chunked attention"), (12, "full attention")]
    );
}

#[test]
fn the_language_model_of_a_multimodal_config_is_read_with_a_remark() {
    let value = json!({
        "model_type": "qwen3_vl_moe", "tie_word_embeddings": true,
        "text_config": {
            "model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "intermediate_size": 6144,
            "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
            "head_dim": 128, "vocab_size": 151936, "moe_intermediate_size": 768,
            "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [],
            "decoder_sparse_step": 1, "dtype": "bfloat16",
        },
    });
    assert!(is_config(&value));
    let llm = read(&value);
    assert!(llm.encoders.is_empty() && llm.remarks.is_empty());
    let mut towered = value.clone();
    towered["vision_config"] = json!({"model_type": "made_up"});
    assert_eq!(
        read(&towered).remarks,
        ["its vision part (made_up) is not counted"]
    );
    assert_eq!(
        (llm.outline.head_dim, llm.outline.experts, llm.tied),
        (128, 128, true)
    );
    assert_eq!(llm.dtype.as_deref(), Some("bf16"));
}

#[test]
fn a_window_counts_in_the_layers_that_have_it() {
    let base = json!({
        "model_type": "mistral", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
        "sliding_window": 16,
    });
    let reaches = |key: &str, value: Value| -> Vec<(u64, Reach)> {
        let mut changed = base.clone();
        changed[key] = value;
        read(&changed)
            .layers
            .iter()
            .map(|(count, layer)| (*count, layer.cores[0].reach))
            .collect()
    };
    assert_eq!(reaches("use_cache", json!(true)), [(2, Reach::Window(16))]);
    assert_eq!(
        reaches("use_sliding_window", json!(false)),
        [(2, Reach::Causal)]
    );
    let mixed = reaches(
        "layer_types",
        json!(["full_attention", "sliding_attention"]),
    );
    assert_eq!(mixed, [(1, Reach::Causal), (1, Reach::Window(16))]);
}

#[test]
fn dense_and_expert_layers_may_alternate() {
    let base = json!({
        "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
        "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
    });
    let feeds = |key: &str, value: Value| -> Vec<(u64, &'static str)> {
        let mut changed = base.clone();
        changed[key] = value;
        read(&changed)
            .layers
            .iter()
            .map(|(count, layer)| (*count, layer.feed))
            .collect()
    };
    assert_eq!(feeds("use_cache", json!(true)), [(4, "MoE")]);
    assert_eq!(
        feeds("decoder_sparse_step", json!(2)),
        [(2, "MLP"), (2, "MoE")]
    );
    assert_eq!(
        feeds("mlp_only_layers", json!([2])),
        [(3, "MoE"), (1, "MLP")]
    );
}

#[test]
fn what_is_not_known_is_refused_with_the_type_and_the_fields() {
    let reason = |value: Value| {
        parse(&value)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let unknown = reason(json!({"model_type": "made_up", "hidden_size": 8, "vocab_size": 8}));
    assert_eq!(
        unknown,
        "model type made_up is not supported, and its config lacks num_hidden_layers, num_attention_heads"
    );
    let missing = reason(json!({"model_type": "llama", "hidden_size": 64, "vocab_size": 100}));
    assert_eq!(
        missing,
        "the config of model type llama lacks num_hidden_layers, num_attention_heads, intermediate_size"
    );
    assert_eq!(reason(json!({"hidden_size": 64})), "model_type is missing");
    let absurd = json!({"model_type": "llama", "hidden_size": u64::MAX, "vocab_size": 100});
    assert_eq!(reason(absurd), "hidden_size is not a plausible number");
    let many = json!({
        "model_type": "llama", "hidden_size": 8, "vocab_size": 8, "num_hidden_layers": 1_000_000,
        "num_attention_heads": 1, "intermediate_size": 8,
    });
    assert!(reason(many).contains("num_hidden_layers"));
    let mut odd = json!({
        "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "sliding_window": 8,
        "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100,
        "layer_types": ["conv"],
    });
    assert!(reason(odd.clone()).contains("layers of type conv"));
    odd["sliding_window"] = Value::Null;
    assert!(reason(odd).contains("layers of type conv"));
}

#[test]
fn quantized_weights_are_known_by_their_method() {
    let stored = |quantization: Value| {
        let llm = read(&json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
            "num_hidden_layers": 1, "num_attention_heads": 4, "torch_dtype": "bfloat16",
            "quantization_config": quantization,
        }));
        (llm.quantized, llm.dtype)
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        stored(json!({"quant_method": "fp8"})),
        (named("fp8"), named("fp8"))
    );
    assert_eq!(
        stored(json!({"quant_method": "awq", "bits": 4})),
        (named("int4"), None)
    );
    assert_eq!(
        stored(json!({"quant_method": "mxfp4"})),
        (named("mxfp4"), None)
    );
    let algorithm = json!({"quant_method": "modelopt", "quant_algo": "NVFP4"});
    assert_eq!(stored(algorithm), (named("nvfp4"), None));
    assert_eq!(stored(json!({"quant_method": "other"})), (None, None));
}

/// The same document with this number in the place of all but the numbers of layers.
fn with_numbers(value: &Value, number: u64) -> Value {
    match value {
        Value::Number(_) => json!(number),
        Value::Array(list) => list.iter().map(|one| with_numbers(one, number)).collect(),
        Value::Object(fields) => {
            let replace = |(key, one): (&String, &Value)| {
                let is_depth = key.contains("layer") || key.contains("depth");
                let number = if is_depth { number.min(2) } else { number };
                (key.clone(), with_numbers(one, number))
            };
            Value::Object(fields.iter().map(replace).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn sizes_of_no_model_are_refused_or_counted_without_an_overflow() {
    let all: Vec<Value> = serde_json::from_str(PUBLISHED).expect("valid JSON");
    for one in &all {
        for number in [0, 1, 4096, 1 << 18, 1 << 24, u64::MAX] {
            let counted = parse(&with_numbers(&one["config"], number));
            let parameters = counted.map(|llm| llm.parameters());
            // A product of powers of two that overflows is 0.
            let is_plausible = parameters.as_ref().is_ok_and(|sum| *sum >= number);
            assert!(
                parameters.is_err() || number < 4096 || is_plausible,
                "{} with {number}: {parameters:?}",
                one["name"]
            );
        }
    }
}
