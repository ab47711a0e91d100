//! Printed upper bounds against schedules of the engine simulator, on 1,000 random setups. The simulator computes times
//! from sizes of its own.

use rooflens_llm::{Decoder, Llm};
use rooflens_simulator::{Arrivals, Client, Engine, Hardware, Part, Random, Workload, run};
use rooflens_units::{Bytes, BytesPerSecond, FlopsPerSecond, Ratio};

use crate::{Load, Machine, Plan, Precision, Setup, Speculation, predict};

const SETUPS: u64 = 1000;

/// Rounding of sums.
const ROUNDING: f64 = 1.0 + 1e-9;

fn decoder(random: &mut Random) -> Decoder {
    let kv_heads = random.one_of(&[1, 2, 4, 8]);
    let heads = kv_heads * random.one_of(&[1, 2, 4]);
    let head_dim = random.one_of(&[32, 64, 128]);
    Decoder {
        family: "made",
        hidden: heads * head_dim,
        intermediate: random.between((1, 64)) as u64 * 256,
        layers: random.between((1, 8)) as u64,
        heads,
        kv_heads,
        head_dim,
        vocab: random.between((1, 64)) as u64 * 512,
        gated: random.unit() < 0.5,
    }
}

/// The decoder in 16 bits on a GPU.
fn hardware(decoder: &Decoder, rate: f64, bandwidth: f64) -> Hardware {
    let part = |elements: u64| Part {
        flops: 2.0 * elements as f64,
        bytes: 2.0 * elements as f64,
    };
    let (heads, kv_heads) = (
        decoder.heads * decoder.head_dim,
        decoder.kv_heads * decoder.head_dim,
    );
    let projections = 2 * decoder.hidden * (heads + kv_heads);
    let feed = if decoder.gated { 3 } else { 2 };
    let mlp = feed * decoder.hidden * decoder.intermediate;
    let layers = decoder.layers;
    Hardware {
        rate,
        bandwidth,
        parts: vec![part(layers * projections), part(layers * mlp)],
        head: part(decoder.hidden * decoder.vocab),
        pair: (4 * heads * layers) as f64,
        cached: (2 * 2 * kv_heads * layers) as f64,
        row: (2 * decoder.hidden) as f64,
        overhead: 0.0,
        prefill_work: 1.0,
        decode_work: 1.0,
    }
}

#[test]
fn no_schedule_exceeds_an_upper_bound() {
    let bf16 = Precision::find("bf16").expect("a known format");
    let mut closest = [0.0_f64; 3];
    for number in 0..SETUPS {
        let mut random = Random::new(number);
        let decoder = decoder(&mut random);
        let bandwidth = random.scale((1e11, 4e12));
        let rate = bandwidth * random.scale((5.0, 300.0));
        let (prompt, output) = (
            random.scale((1.0, 2000.0)) as usize,
            random.scale((1.0, 120.0)) as usize,
        );
        let slots = random.scale((1.0, 64.0)) as usize;
        let prefix = match random.unit() < 0.3 {
            true => prompt / 2,
            false => 0,
        };
        let budget = random.one_of(&[256, 1024, 8192]);
        let guesses = (random.unit() < 0.2).then(|| random.between((1, 4)));
        let engine = Engine {
            slots,
            blocks: random.between((2, 40)) * (prompt + output + 8).div_ceil(16),
            block: 16,
            budget,
            chunked: random.unit() < 0.7,
            prefix,
            speculation: guesses.map(|guesses| (guesses, 1.0)),
        };
        let arrivals = match random.unit() < 0.5 {
            true => Arrivals::Closed(2 * slots),
            false => Arrivals::Open(random.scale((1.0, 1e5))),
        };
        let outcome = run(&rooflens_simulator::Setup {
            hardware: hardware(&decoder, rate, bandwidth),
            engine,
            client: Client {
                arrivals,
                connections: None,
                delay: 0.0,
            },
            workload: Workload {
                requests: 2 * slots + random.between((0, 40)),
                prompt: (prompt, prompt),
                output: (output, output),
                seed: number,
            },
        });
        let machine = Machine {
            name: "made".to_owned(),
            rates: vec![("bf16".to_owned(), FlopsPerSecond(rate))],
            bandwidth: BytesPerSecond(bandwidth),
            memory: Bytes(1e12),
            link: None,
        };
        let setup = Setup {
            cached: Ratio((prefix as f64 + 0.5) / prompt as f64),
            // Only chunked prefill keeps to the budget.
            chunk: (engine.chunked && random.unit() < 0.5).then_some(budget as u64),
            speculation: guesses.map(|guesses| Speculation {
                tokens: guesses as u64,
                acceptance: Ratio(1.0),
            }),
            ..Setup::plain(bf16)
        };
        let llm: Llm = decoder.into();
        let plan = Plan::new(&llm, &machine, &setup).expect("rates");
        let load = Load {
            batch: slots as u64,
            prompt: prompt as u64,
            output: output as u64,
        };
        let prediction = predict(&plan, &llm, &machine, &setup, load);
        let decode = prediction.decode_rate.expect("a decoder").0;
        let ttft = outcome.requests.iter().map(|request| request.ttft());
        let shares = [
            outcome.rate() / prediction.requests.0,
            outcome.generated as f64 / outcome.seconds / decode,
            prediction.first.0 / ttft.fold(f64::INFINITY, f64::min),
        ];
        for (share, closest) in shares.iter().zip(&mut closest) {
            assert!(
                *share <= ROUNDING,
                "{number}: {shares:?} of the bounds by {engine:?}, {load:?}, {setup:?}"
            );
            *closest = closest.max(*share);
        }
    }
    // The bounds are not loose: some schedule comes near each.
    assert!(closest.iter().all(|share| *share > 0.9), "{closest:?}");
}
