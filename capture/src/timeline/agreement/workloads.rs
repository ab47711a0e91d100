//! Generated descriptions of workloads.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use rooflens_schemas::text::quoted;

use super::corpus::Packed;
use super::{Count, Counts};

/// Stages that workloads name and that both programs name where nobody does.
pub(super) const STAGES: [&str; 8] = [
    "prefill",
    "decode",
    "decode_step",
    "train_step",
    "forward",
    "backward",
    "optimizer",
    "step",
];

/// A rule of a stage: its name, its kind, and the pattern of its ranges.
fn rule(ranges: Vec<String>) -> impl Strategy<Value = String> {
    let kinds = [
        "prefill",
        "decode",
        "decode_step",
        "train_step",
        "forward",
        "backward",
        "optimizer",
        "other",
    ];
    let pattern = (select(ranges), 0..6_u8).prop_map(|(range, form)| {
        let start: String = range.chars().take(3).collect();
        match form {
            0 => range,
            1 => start,
            2 => format!("^{start}.*"),
            3 => format!("({range}|nothing)"),
            4 => range.to_lowercase(),
            _ => ".*".to_owned(),
        }
    });
    let pattern = proptest::option::weighted(0.85, pattern);
    let rule = (select(STAGES.to_vec()), select(kinds.to_vec()), pattern);
    rule.prop_map(|(name, kind, pattern)| {
        let pattern = pattern.map(|pattern| format!("match = {}\n", quoted(&pattern)));
        let pattern = pattern.unwrap_or_default();
        format!("[[stages]]\nname = \"{name}\"\nkind = \"{kind}\"\n{pattern}")
    })
}

/// A description of a workload.
pub(super) fn workload(ranges: Vec<String>) -> impl Strategy<Value = String> {
    let warmup = proptest::option::of(0..5_u64);
    let tokens = proptest::option::of(select(vec![4_u64, 16, 64]));
    let rules = proptest::collection::vec(rule(ranges), 0..4);
    (warmup, tokens, rules).prop_map(|(warmup, tokens, rules)| {
        let line = |key: &str, value: Option<u64>| {
            value.map_or_else(String::new, |value| format!("{key} = {value}\n"))
        };
        line("warmup", warmup) + &line("output_tokens", tokens) + &rules.concat()
    })
}

#[test]
fn both_read_a_workload_in_the_same_way() {
    let sum = RefCell::new(Counts::default());
    for pass in ["h200-llama-1b/nsys-gated-decode", "h100-vit-train/nsys"] {
        let bundle = Packed::of_fixture(pass).bundle();
        let config = Config {
            cases: 100,
            failure_persistence: None,
            ..Config::default()
        };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let outcome = runner.run(&workload(bundle.ranges()), |text| {
            bundle.describe(text);
            sum.borrow_mut().merge(&bundle.compare(&STAGES));
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
    let sum = sum.into_inner();
    sum.expect(&[
        (Count::Read, 200),
        (Count::Listed, 200),
        (Count::Instances, 900),
        (Count::Excluded, 100),
        (Count::Lists, 400),
        (Count::Gates, 300),
    ]);
}
