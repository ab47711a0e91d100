//! Bounds by hand, on models and machines of round numbers.

use rooflens_hardware::Hardware;
use rooflens_llm::{Decoder, Llm, Part, Shape, parse};
use rooflens_units::{Bytes, BytesPerSecond, Count, Flops, FlopsPerSecond, Ratio, Seconds};
use serde_json::json;

use crate::*;

fn format(name: &str) -> Precision {
    Precision::find(name).expect("a known format")
}

/// 1000 FLOP/s in 16 bits and 2000 in 8, 10 B/s, 1000 B; 5 B/s to others.
fn machine() -> Machine {
    Machine {
        name: "made".to_owned(),
        rates: vec![
            ("bf16".to_owned(), FlopsPerSecond(1000.0)),
            ("fp8".to_owned(), FlopsPerSecond(2000.0)),
        ],
        bandwidth: BytesPerSecond(10.0),
        memory: Bytes(1000.0),
        link: Some(BytesPerSecond(5.0)),
    }
}

/// One layer, hidden 4, two heads of 2, one of keys, plain MLP of 8, vocabulary 10: matrices of a layer
/// 16 + 8 + 8 + 16 + 2·32 = 112, head 40.
fn llm() -> Llm {
    let decoder = Decoder {
        family: "made",
        hidden: 4,
        intermediate: 8,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 2,
        vocab: 10,
        gated: false,
    };
    let mut llm: Llm = decoder.into();
    // Key and value: 4·2 each.
    assert_eq!(
        llm.layers[0]
            .1
            .matrices
            .iter()
            .map(|matrix| matrix.elements())
            .sum::<u64>(),
        112
    );
    llm.tied = true;
    llm
}

fn plan(setup: &Setup) -> Plan {
    Plan::new(&llm(), &machine(), setup).expect("rates for these formats")
}

#[test]
fn a_decode_pass_takes_the_greater_of_computing_and_moving_part_by_part() {
    let setup = Setup::plain(format("bf16"));
    // Two sequences behind 3 tokens.
    let pass = plan(&setup).pass(Shape {
        batch: 2,
        new: 1,
        past: 3,
        logits: 1,
    });
    // Projections: 48 elements, 96 B in 9.6 s; 2·2·48 FLOPs in 0.192 s.
    let projections = pass.part(Part::Projections);
    assert_eq!(projections.flops, Flops(192.0));
    assert_eq!(projections.bytes, Bytes(96.0));
    assert_eq!(
        (projections.compute, projections.memory, projections.bound),
        (Seconds(0.192), Seconds(9.6), Seconds(9.6))
    );
    // Attention: 2 sequences · 4 keys · 2 heads · 2·(2 + 2) FLOPs; 2 · (4 read + 1 written) · 4 elements · 2 B.
    let attention = pass.part(Part::Attention);
    assert_eq!(attention.flops, Flops(128.0));
    assert_eq!(attention.bytes, Bytes(80.0));
    // MLP 64 elements, head 40, two rows of the embedding.
    assert_eq!(pass.part(Part::Mlp).bytes, Bytes(128.0));
    assert_eq!(pass.part(Part::Head).bytes, Bytes(80.0));
    assert_eq!(pass.part(Part::Other).bytes, Bytes(16.0));
    assert!(
        (pass.time() - Seconds(40.0)).abs() < Seconds(1e-12),
        "400 B at 10 B/s: {}",
        pass.time().0
    );
    assert_eq!(pass.bound(), "memory");
}

#[test]
fn quantized_weights_shrink_all_but_head_and_embedding() {
    let setup = Setup {
        weights: format("fp8"),
        ..Setup::plain(format("bf16"))
    };
    let pass = plan(&setup).pass(Shape {
        batch: 1,
        new: 1,
        past: 0,
        logits: 1,
    });
    assert_eq!(pass.part(Part::Projections).bytes, Bytes(48.0));
    assert_eq!(pass.part(Part::Head).bytes, Bytes(80.0));
    // 2·48 FLOPs at the rate of fp8.
    assert_eq!(pass.part(Part::Projections).compute, Seconds(96.0 / 2000.0));
    // 4 bits and a 16-bit scale for 128; multiplied in 16 bits.
    let four = Setup {
        weights: format("int4"),
        ..setup
    };
    let pass = plan(&four).pass(Shape {
        batch: 1,
        new: 1,
        past: 0,
        logits: 1,
    });
    assert_eq!(pass.part(Part::Projections).bytes, Bytes(48.0 * 0.515_625));
    assert_eq!(pass.part(Part::Projections).compute, Seconds(96.0 / 1000.0));
    // No rate for floats of 32 bits.
    assert_eq!(
        Plan::new(&llm(), &machine(), &Setup::plain(format("fp32"))),
        None
    );
}

#[test]
fn the_ridge_is_where_weights_compute_as_long_as_they_move() {
    // 2·b FLOPs an element at 1000/s against 2 B at 10 B/s: b = 100.
    assert_eq!(ridge_batch(&plan(&Setup::plain(format("bf16")))), Some(100));
    // H200, bf16: 989.4e12 ÷ 4.8e12 = 206.1 FLOP/B; Llama-3-8B reaches it at 207.
    let hardware = Hardware::builtin();
    let gpu = Machine::from(hardware.find("H200").expect("in the table"));
    let llama = Decoder {
        family: "llama",
        hidden: 4096,
        intermediate: 14336,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab: 128_256,
        gated: true,
    };
    let plan = Plan::new(&llama.into(), &gpu, &Setup::plain(format("bf16"))).expect("rates");
    assert_eq!(ridge_batch(&plan), Some(207));
}

#[test]
fn tensor_parallelism_divides_work_and_adds_two_reductions_a_layer() {
    let setup = Setup {
        tensor: 2,
        ..Setup::plain(format("bf16"))
    };
    let pass = plan(&setup).pass(Shape {
        batch: 1,
        new: 1,
        past: 0,
        logits: 1,
    });
    // q and o halved: 16; k and v of one head whole: 16 elements.
    assert_eq!(
        pass.part(Part::Projections).bytes,
        Bytes((16.0 + 16.0) * 2.0)
    );
    assert_eq!(pass.part(Part::Mlp).bytes, Bytes(64.0));
    // Two all-reduces of 4 elements of 2 B at 5 B/s.
    assert_eq!(pass.communication, Seconds(2.0 * 8.0 / 5.0));
    // Without a link none is counted.
    let alone = Machine {
        link: None,
        ..machine()
    };
    let plan = Plan::new(&llm(), &alone, &setup).expect("rates");
    assert_eq!(
        plan.pass(Shape {
            batch: 1,
            new: 1,
            past: 0,
            logits: 1
        })
        .communication,
        Seconds::ZERO
    );
}

fn mixture() -> Llm {
    let config = json!({
        "model_type": "mixtral", "hidden_size": 4, "intermediate_size": 8, "vocab_size": 10,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_local_experts": 4, "num_experts_per_tok": 2,
    });
    parse(&config).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_batch_reads_the_experts_that_it_is_expected_to_choose() {
    let setup = Setup::plain(format("bf16"));
    let of = |setup: &Setup, batch: u64| {
        let plan = Plan::new(&mixture(), &machine(), setup).expect("rates");
        *plan
            .pass(Shape {
                batch,
                new: 1,
                past: 0,
                logits: 1,
            })
            .part(Part::Experts)
    };
    // An expert has 3·32 elements, the router 16. One token reads 2 of 4, two tokens 4·(1 − (1/2)²) = 3.
    assert_eq!(of(&setup, 1).bytes, Bytes((2.0 * 96.0 + 16.0) * 2.0));
    assert_eq!(of(&setup, 2).bytes, Bytes((3.0 * 96.0 + 16.0) * 2.0));
    assert_eq!(of(&setup, 2).flops, Flops(2.0 * 2.0 * (2.0 * 96.0 + 16.0)));
    // Over two GPUs each holds half of the experts; the router stays whole.
    let spread = Setup { expert: 2, ..setup };
    assert_eq!(of(&spread, 2).bytes, Bytes((1.5 * 96.0 + 16.0) * 2.0));
    // mxfp4 is for experts only: 4.25 bits of each element of them.
    let four = Setup {
        weights: format("mxfp4"),
        ..setup
    };
    assert_eq!(of(&four, 1).bytes, Bytes(2.0 * 96.0 * 0.531_25 + 32.0));
}

#[test]
fn chunks_read_weights_again_and_a_cached_prefix_is_not_computed() {
    let setup = Setup::plain(format("bf16"));
    let load = Load {
        batch: 2,
        prompt: 8,
        output: 1,
    };
    let of = |setup: &Setup| predict(&plan(setup), &llm(), &machine(), setup, load);
    let whole = of(&setup);
    assert_eq!(
        (whole.chunks, whole.prefill.part(Part::Mlp).bytes),
        (1, Bytes(128.0))
    );
    // 8 tokens over 2 sequences a pass: two passes of 4.
    let chunked = of(&Setup {
        chunk: Some(8),
        ..setup
    });
    assert_eq!(
        (chunked.chunks, chunked.prefill.part(Part::Mlp).bytes),
        (2, Bytes(256.0))
    );
    assert_eq!(
        chunked.prefill.part(Part::Mlp).flops,
        whole.prefill.part(Part::Mlp).flops
    );
    assert_eq!(
        chunked.prefill.part(Part::Attention).flops,
        whole.prefill.part(Part::Attention).flops
    );
    // Half of it cached: half of the projections; of 36 pairs the last four queries' 26 remain.
    let cached = of(&Setup {
        cached: Ratio(0.5),
        ..setup
    });
    assert_eq!(
        2.0 * cached.prefill.part(Part::Mlp).flops,
        whole.prefill.part(Part::Mlp).flops
    );
    let pairs =
        cached.prefill.part(Part::Attention).flops / whole.prefill.part(Part::Attention).flops;
    assert!((pairs - 26.0 / 36.0).abs() < 1e-12);
}

#[test]
fn speculation_divides_a_pass_by_the_tokens_that_it_gives() {
    // 1 + 0.5 + 0.25.
    assert_eq!(
        Speculation {
            tokens: 2,
            acceptance: Ratio(0.5)
        }
        .expected(),
        Count(1.75)
    );
    assert_eq!(
        Speculation {
            tokens: 3,
            acceptance: Ratio(1.0)
        }
        .expected(),
        Count(4.0)
    );
    let guess = Some(Speculation {
        tokens: 2,
        acceptance: Ratio(0.5),
    });
    let setup = Setup {
        speculation: guess,
        ..Setup::plain(format("bf16"))
    };
    let load = Load {
        batch: 1,
        prompt: 3,
        output: 1,
    };
    let prediction = predict(&plan(&setup), &llm(), &machine(), &setup, load);
    assert_eq!(prediction.tpot, Some(prediction.decode.time() / 1.75));
    // Three tokens pass through each matrix.
    assert_eq!(
        prediction.decode.part(Part::Mlp).flops,
        Flops(3.0 * 2.0 * 64.0)
    );
}

#[test]
fn what_fits_is_what_weights_leave() {
    let setup = Setup {
        memory_share: Ratio(1.0),
        ..Setup::plain(format("bf16"))
    };
    let load = Load {
        batch: 1,
        prompt: 3,
        output: 2,
    };
    let memory = predict(&plan(&setup), &llm(), &machine(), &setup, load).memory;
    // Matrices 112, tied embedding 40, norms 8 + 4: 164 elements of 2 B; 5 positions of 4 elements.
    assert_eq!(
        (memory.weights, memory.sequence, memory.fits),
        (Bytes(328.0), Bytes(40.0), 16)
    );
    let small = Machine {
        memory: Bytes(300.0),
        ..machine()
    };
    assert_eq!(
        predict(&plan(&setup), &llm(), &small, &setup, load)
            .memory
            .fits,
        0
    );
    // Two stages hold half of the layers each, and two batches are under way.
    let two = Setup {
        pipeline: 2,
        ..setup
    };
    let memory = predict(&plan(&two), &llm(), &machine(), &two, load).memory;
    assert_eq!(
        (memory.weights, memory.sequence),
        (Bytes(120.0 + 44.0), Bytes(20.0))
    );
}

#[test]
fn advice_keeps_the_limits() {
    let setup = Setup {
        memory_share: Ratio(1.0),
        ..Setup::plain(format("bf16"))
    };
    let load = Load {
        batch: 1,
        prompt: 3,
        output: 2,
    };
    let of = |limits: Limits| advise(&plan(&setup), &llm(), &machine(), &setup, (load, limits));
    let free = of(Limits::default());
    assert_eq!(
        (free.fits, free.recommended.map(|(batch, _)| batch)),
        (16, Some(16))
    );
    // Weights and head take 30.4 s, each sequence 2.4 s of attention to (3 + 2)·4 elements more and 0.8 s for its row.
    let tight = of(Limits {
        tpot: Some(Seconds(45.0)),
        ttft: None,
    });
    let (batch, prediction) = tight.recommended.expect("some batch");
    assert!(prediction.tpot.is_some_and(|tpot| tpot <= Seconds(45.0)));
    let next = Load {
        batch: batch + 1,
        ..load
    };
    let beyond = predict(&plan(&setup), &llm(), &machine(), &setup, next);
    assert!(
        beyond.tpot.is_some_and(|tpot| tpot > Seconds(45.0)),
        "{batch}"
    );
    assert_eq!(
        of(Limits {
            ttft: Some(Seconds(1.0)),
            tpot: None
        })
        .recommended,
        None
    );
}

#[test]
fn a_sweep_has_all_combinations_in_order_whatever_the_threads() {
    let of = Sweep {
        machines: vec![
            machine(),
            Machine {
                bandwidth: BytesPerSecond(20.0),
                ..machine()
            },
        ],
        weights: vec![format("bf16"), format("fp32")],
        tensor: vec![1, 2],
        prompts: vec![3, 5],
        batches: vec![1, 2, 4],
    };
    let points = sweep(&llm(), &of, &Setup::plain(format("bf16")), 2);
    assert_eq!(points.len(), 48);
    let first: Vec<(u64, u64)> = points
        .iter()
        .take(6)
        .map(|point| (point.load.prompt, point.load.batch))
        .collect();
    assert_eq!(first, [(3, 1), (3, 2), (3, 4), (5, 1), (5, 2), (5, 4)]);
    assert!(
        points
            .iter()
            .all(|point| point.prediction.is_some() == (point.setup.weights.name == "bf16"))
    );
    assert_eq!(points, sweep(&llm(), &of, &Setup::plain(format("bf16")), 2));
}

#[test]
fn latent_attention_takes_the_cheaper_of_two_ways() {
    let config = json!({
        "model_type": "deepseek_v3", "hidden_size": 8, "intermediate_size": 8, "vocab_size": 10,
        "moe_intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "kv_lora_rank": 4, "qk_nope_head_dim": 2, "qk_rope_head_dim": 1, "v_head_dim": 2,
        "n_routed_experts": 2, "num_experts_per_tok": 1, "first_k_dense_replace": 1,
    });
    let llm = parse(&config).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&llm, &machine(), &Setup::plain(format("bf16"))).expect("rates");
    let flops = |past: u64, new: u64| {
        plan.pass(Shape {
            batch: 1,
            new,
            past,
            logits: 1,
        })
        .part(Part::Attention)
        .flops
    };
    // Prefill of 3: 6 pairs of 2 heads of 2·(3 + 2) FLOPs; a pair of the latent cache would be 2·(2·4 + 1).
    assert_eq!(flops(0, 3), Flops(6.0 * 2.0 * 10.0));
    // A step behind 9: 10 pairs of 2·9 for each head, rather than 10 pairs of 10 and 9 expansions of 2·4·(2 + 2).
    assert_eq!(flops(9, 1), Flops(10.0 * 2.0 * 18.0));
}
