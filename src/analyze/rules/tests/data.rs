//! Rules about the measurement itself.

use super::*;
use rooflens_analysis::engine::classify::KernelClass::{Gemm, Graph, Normalization, Other};
use rooflens_analysis::time::stage_times::attribution::PassAttribution;
use rooflens_analysis::utilization::Unavailable;

#[test]
fn a_cold_first_repeat_is_told_from_other_outliers() {
    // Deviations from 30: 60, 1, 0, 1, 0; mean 210 / 5. The first repeat is numbered.
    let made = |number: u32| {
        let mut made = decode().repeats("decode", "b", None, &[90, 31, 30, 29, 30]);
        made.known.baseline.as_mut().unwrap().series[0].repeats[0].number = number;
        made
    };
    let cold = made(0).one(rule("repeat-outliers"));
    assert_eq!(cold.title, "repeat_outliers.title_cold{stage=decode}");
    assert_eq!(cold.weight_ns.0, 60.0);
    assert!(words(&cold.advice.unwrap()).contains("mean=42.0 ns"));
    assert_eq!(made(3).one(rule("repeat-outliers")).advice, None);
    // Far by score, 1.049 times the median by time; and 1.051 times.
    let near = |slow: i64| {
        let repeats = [slow, 1001, 1000, 999, 1000];
        decode()
            .repeats("decode", "b", None, &repeats)
            .outcome(rule("repeat-outliers"))
    };
    assert_eq!(near(1049), Outcome::PASSED);
    assert!(matches!(near(1051), Outcome::Found(_)));
    // Two repeats, or equal ones, have no score.
    let few = decode().repeats("decode", "b", None, &[90, 90]);
    assert_eq!(silent(few.outcome(rule("repeat-outliers"))).0, "abstained");
}

#[test]
fn the_profiler_costs_what_the_unprofiled_run_does_not_take() {
    let made = |median: i64| {
        let made = prefill().busy(0.4).idle(Cause::Launching, 600.0);
        made.repeats("prefill", "b", None, &[median])
    };
    // 500 against 1000 ns is half.
    let found = made(500).one(rule("profiler-overhead"));
    let text = words(&found.statement);
    assert!(
        text.starts_with("profiler_overhead.statement{stage=prefill, all=10, time=1.00 µs, pass=nsys, unprofiled=500 ns, share=50.0 %"),
        "{text}"
    );
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(
        made(950).outcome(rule("profiler-overhead")),
        Outcome::PASSED
    );
    // One of two iterations loads code for 100 of 1000 ns: the other is warm. Where both do, none is.
    let cold = |times: &[f64]| made(500).each(Cause::FirstUse, times);
    let text = words(
        &cold(&[100.0, 99.0])
            .one(rule("profiler-overhead"))
            .statement,
    );
    // It takes as long as all of them, so that the text names these.
    assert!(text.contains("{stage=prefill, all=10,"), "{text}");
    let none = cold(&[100.0, 100.0]).outcome(rule("profiler-overhead"));
    assert_eq!(silent(none).0, "abstained");
    // Of many that all do as much it is usual.
    let usual = cold(&[200.0; 5]).one(rule("profiler-overhead"));
    assert!(words(&usual.statement).contains("{stage=prefill, all=10,"));
    // A loop without known steps compares with nothing.
    let loops = decode().repeats("decode", "b", Some(10), &[500]);
    assert!(matches!(
        loops.outcome(rule("profiler-overhead")),
        Outcome::InsufficientData(_)
    ));
}

#[test]
fn utilization_is_doubted_above_the_peak_without_one_and_by_other_types() {
    let made = |mfu| prefill().busy(1.0).utilization(mfu, 0.0);
    assert_eq!(
        made(1.3).one(rule("utilization-basis")).severity,
        Severity::Critical
    );
    let mut none = made(0.5);
    none.utilized().ceiling = Err(Unavailable::UnknownGpu("Unknown GPU".to_owned()));
    assert!(words(&none.one(rule("utilization-basis")).statement).contains("gpu=Unknown GPU"));
    let types = |other| {
        let made = made(0.5).launches("a", Gemm, ("bf16", None), (1, 800));
        let made = made.launches("b", Gemm, ("fp32", None), (1, other));
        made.launches("c", Normalization, ("fp32", None), (1, 999))
    };
    // 200 of 1000 ns.
    let mixed = types(200).one(rule("utilization-basis"));
    assert!(
        words(&mixed.statement).starts_with("utilization_basis.types{share=20.0 %, dtype=fp32")
    );
    assert_eq!(
        types(50).outcome(rule("utilization-basis")),
        Outcome::PASSED
    );
}

#[test]
fn limits_of_the_data_are_said() {
    let attributed = |mut made: Made, staged| {
        made.times().attribution = vec![PassAttribution {
            staged_from_first: staged,
            ..PassAttribution::default()
        }];
        made
    };
    let mut made = attributed(decode(), Ratio(0.8))
        .summary(|summary| summary.inferred_share = Ratio(0.6))
        .launches("a", Gemm, ("", None), (1, 95))
        .launches("b", Other, ("", None), (1, 5))
        .work_of(Gemm, 90);
    let graphs = made
        .session
        .add_pass("graphs", PassKind::Timeline, "graphs/timeline.sqlite");
    for (stage, time) in [("decode", 90), ("offload", 20)] {
        let at = made.add_stage(stage, StageKind::Decode, 1000.0, None);
        made.facts.stages[at].pass = graphs;
        let mut other = decode().work_of(Graph, time).known.stage_work.unwrap();
        (other[0].pass, other[0].summary) = (graphs, made.last_summary());
        made.known.stage_work.as_mut().unwrap().append(&mut other);
    }
    let found = made.found(rule("attribution-coverage"));
    assert!(
        words(&found[0].statement)
            .starts_with("attribution_coverage.unattributed{share=20.0 %, pass=nsys")
    );
    assert!(
        words(&found[1].statement)
            .starts_with("attribution_coverage.inferred{share=60.0 %, stage=decode")
    );
    assert!(
        words(&made.one(rule("unknown-kernels")).statement)
            .starts_with("unknown_kernels.statement{share=5.00 %")
    );
    let hidden = made.one(rule("hidden-graphs"));
    assert!(
        words(&hidden.statement)
            .contains("stages=hidden_graphs.stage{share=90.0 %, stage=decode}, hidden_graphs.stage{share=20.0 %, stage=offload}")
    );
    assert_eq!(
        hidden.severity,
        Severity::Note,
        "the primary pass shows the kernels"
    );
    let whole = attributed(decode(), Ratio(0.95))
        .launches("a", Gemm, ("", None), (1, 99))
        .launches("b", Other, ("", None), (1, 1))
        .work_of(Graph, 5);
    for rule in [
        rule("attribution-coverage"),
        rule("unknown-kernels"),
        rule("hidden-graphs"),
    ] {
        assert_eq!(whole.outcome(rule), Outcome::PASSED, "{}", rule.id);
    }
}
