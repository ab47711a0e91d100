//! A sweep of 10 000 points has a second of CPU: five GPUs, four formats, ten prompts and fifty batches of DeepSeek-V3,
//! which has most kinds of matrices. Prints and asserts the CPU time of the process, from `/proc`.

use rooflens_hardware::Hardware;
use rooflens_llm::parse;
use rooflens_predict::{Machine, Precision, Setup, Sweep, sweep};
use rooflens_units::Ratio;

/// CPU time of this process in seconds: user and system, in ticks of 10 ms.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

fn main() {
    let config = serde_json::json!({
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "vocab_size": 129_280, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    });
    let llm = parse(&config).unwrap_or_else(|error| panic!("{error}"));
    let hardware = Hardware::builtin();
    let machine = |name: &str| Machine::from(hardware.find(name).expect("a GPU of the table"));
    let format = |name: &str| Precision::find(name).expect("a known format");
    let ranges = Sweep {
        machines: ["H100 SXM", "H200", "B200", "GB200", "L40S"]
            .map(machine)
            .to_vec(),
        weights: ["bf16", "fp8", "int4", "nvfp4"].map(format).to_vec(),
        tensor: vec![8],
        prompts: (1..=10).map(|n| n * 1024).collect(),
        batches: (1..=50).map(|n| n * 8).collect(),
    };
    let setup = Setup {
        images: 0,
        weights: format("bf16"),
        kv: format("bf16"),
        activations: format("bf16"),
        tensor: 8,
        pipeline: 1,
        expert: 8,
        data: 1,
        link: None,
        cached: Ratio::ZERO,
        chunk: None,
        speculation: None,
        memory_share: Ratio(0.9),
    };
    let timed = |setup: &Setup| {
        let before = cpu();
        let points = sweep(&llm, &ranges, setup, 128);
        assert_eq!(points.len(), 10_000);
        cpu() - before
    };
    let (whole, chunked) = (
        timed(&setup),
        timed(&Setup {
            chunk: Some(8192),
            ..setup
        }),
    );
    assert!(whole < 1.0, "{whole:.2} s of CPU for 10 000 points");
    let message =
        format!("10 000 points: {whole:.2} s of CPU; with chunked prefill {chunked:.2} s\n");
    let _ = std::io::Write::write_all(&mut std::io::stdout(), message.as_bytes());
}
