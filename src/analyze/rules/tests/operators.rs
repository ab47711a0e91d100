//! Rules about groups of kernels.

use super::*;
use rooflens_analysis::operators::chains::{ChainKind, Chains, Example, Group, Place};
use rooflens_document::GainKind;

/// A stage of 1000 ns with 800 ns of kernels, of which 100 operations take 40 %; their other form takes 10 % and needs 20.
fn decode_with(kind: ChainKind) -> Made {
    let mut made = decode().operations(200.0, 800.0);
    (made.last().busy, made.last().busy_share) = (Time(800.0), Ratio(0.8));
    let group = Group {
        kind,
        chains: Count(50.0),
        kernels: Count(1000.0),
        removed: Count(800.0),
        within: Count::ZERO,
        fixed: None,
        norms: Time::ZERO,
        time: Time(3200.0),
        of_model: [Time::ZERO; 2],
        bound: Some(Time(800.0)),
        example: Example {
            operators: "add → mul".to_owned(),
            sizes: "8 × 4".to_owned(),
            ..Example::default()
        },
    };
    let place = Place {
        stage: Some(made.facts.summaries[0].clone()),
        operations: Count(2000.0),
        time: Time(8000.0),
        groups: vec![group],
    };
    let outside = Place::default();
    made.known.chains = Ok(Chains {
        pass: PassId(0),
        by_names: false,
        has_rates: true,
        has_strides: true,
        places: vec![place, outside],
    });
    made
}

fn group(made: &mut Made) -> &mut Group {
    &mut made.known.chains.as_mut().unwrap().places[0].groups[0]
}

#[test]
fn a_chain_saves_its_time_and_the_idle_time_of_its_launches() {
    // 199 gaps between 200 operations have 199 ns of idle time: 1 ns each.
    let made = decode_with(ChainKind::Pointwise).idle(Cause::Launching, 199.0);
    let finding = made.one(rule("pointwise-unfused"));
    assert_eq!(
        words(&finding.statement),
        "pointwise_unfused.statement{stage=decode, chains=5, kernels=100, \
         per=findings.per_iteration, time=320 ns, share=40.0 %, sizes=8 × 4, operators=add → mul}"
    );
    let gain = finding.gain.unwrap();
    // 30 % of 800 ns, and 40 % of 200 launches at 1 ns each.
    assert_eq!(gain.saved_ns, Time(320.0));
    assert_eq!((gain.kind, gain.of_ns), (GainKind::Work, Time(1000.0)));
    assert_eq!(
        words(&[Inline::Text(gain.basis)]),
        "pointwise_unfused.basis{launches=80.0 ns}findings.if_idle_stays"
    );
    assert_eq!(finding.weight_ns, Time(3200.0));
}

#[test]
fn a_chain_outside_of_the_calls_of_the_model_names_the_function() {
    let action = |of_model: [f64; 2]| {
        let mut made = decode_with(ChainKind::Pointwise);
        group(&mut made).of_model = of_model.map(Time);
        let root = made.one(rule("pointwise-unfused")).root;
        root.map_or_else(String::new, |root| root.action)
    };
    assert_eq!(
        action([1600.0, 1601.0]),
        "pointwise_unfused.root_action_outside"
    );
    assert_eq!(action([1600.0, 1600.0]), "");
}

#[test]
fn a_contraction_saves_all_but_its_gemm() {
    let made = decode_with(ChainKind::Contraction).idle(Cause::Sync, 200.0);
    let finding = made.one(rule("summed-products"));
    // 30 % of 800 ns.
    assert_eq!(finding.gain.unwrap().saved_ns, Time(240.0));
    assert!(words(&finding.statement).contains("chains=5, kernels=100"));
    assert_eq!(words(&finding.advice.unwrap()), "summed_products.advice");
    let mut made = decode_with(ChainKind::Contraction).idle(Cause::Sync, 200.0);
    group(&mut made).example.is_backward = true;
    let finding = made.one(rule("summed-products"));
    let advice = words(&finding.advice.unwrap());
    assert_eq!(advice, "summed_products.advice_backward");
}

#[test]
fn idle_time_of_other_causes_stays() {
    let made = decode_with(ChainKind::Norm).idle(Cause::Sync, 200.0);
    let gain = made.one(rule("norm-unfused")).gain.unwrap();
    assert_eq!(gain.saved_ns, Time(240.0));
    // A loop over experts waits for the sizes of its parts.
    let made = decode_with(ChainKind::Experts).idle(Cause::Sync, 199.0);
    let gain = made.one(rule("expert-loop")).gain.unwrap();
    assert_eq!(gain.saved_ns, Time(320.0));
}

#[test]
fn a_chain_below_the_threshold_is_none() {
    let mut made = decode_with(ChainKind::Cast).idle(Cause::Sync, 200.0);
    // 2 % of the stage are 20 ns, of 800 ns of kernels 2.5 %: 200 of 8000 ns.
    group(&mut made).bound = Some(Time(3200.0 - 200.0));
    assert_eq!(made.found(rule("dtype-casts")).len(), 1);
    group(&mut made).bound = Some(Time(3200.0 - 199.0));
    assert_eq!(made.outcome(rule("dtype-casts")), Outcome::PASSED);
    assert_eq!(made.outcome(rule("gemm-loop")), Outcome::PASSED);
}

#[test]
fn without_rates_or_operators_nothing_is_claimed() {
    let mut made = decode_with(ChainKind::Attention);
    group(&mut made).bound = None;
    made.known.chains.as_mut().unwrap().has_rates = false;
    let needs = |key: &str| ("abstained", key.to_owned());
    let without_rates = silent(made.outcome(rule("attention-math")));
    assert_eq!(without_rates, needs("findings.needs_peaks"));
    let without_operators = silent(decode().outcome(rule("attention-math")));
    assert_eq!(without_operators, needs("attention_math.needs"));
}

#[test]
fn copies_without_strides_are_not_judged() {
    let mut made = decode_with(ChainKind::Cast);
    made.known.chains.as_mut().unwrap().has_strides = false;
    let outcome = silent(made.outcome(rule("transposed-copies")));
    assert_eq!(outcome.0, "abstained");
    assert_eq!(made.found(rule("dtype-casts")).len(), 1);
}

#[test]
fn what_only_names_show_says_so() {
    let mut made = decode_with(ChainKind::Pointwise);
    let chains = made.known.chains.as_mut().unwrap();
    (chains.by_names, chains.has_rates) = (true, false);
    let statement = words(&made.one(rule("pointwise-unfused")).statement);
    assert!(statement.ends_with("}findings.by_names"), "{statement}");
    // Names do not show everything: what they do not show may be there.
    let outcome = silent(made.outcome(rule("norm-unfused")));
    assert_eq!(outcome.0, "abstained");
}

#[test]
fn where_the_cpu_bounds_the_stage_only_loops_save_time_now() {
    let host_bound = |kind| {
        let mut made = decode_with(kind).idle(Cause::Launching, 597.0).host(1000.0);
        (made.last().busy, made.last().busy_share) = (Time(400.0), Ratio(0.4));
        made.operations(200.0, 400.0)
    };
    // 30 % of 400 ns of kernels, after the CPU; 40 % of 200 launches at 3 ns more where launches are the fault.
    let gain = host_bound(ChainKind::Norm)
        .one(rule("norm-unfused"))
        .gain
        .unwrap();
    assert_eq!(
        (gain.saved_ns, gain.kind),
        (Time(120.0), GainKind::WorkAfterCpu)
    );
    let gain = host_bound(ChainKind::Optimizer)
        .one(rule("optimizer-loop"))
        .gain
        .unwrap();
    assert_eq!((gain.saved_ns, gain.kind), (Time(360.0), GainKind::Work));
    // Copies of images are calls of the program.
    let saved = |within, call| {
        let mut made = host_bound(ChainKind::Channels);
        group(&mut made).within = Count(within);
        made.last_line().launches.mean_call = Some(Time(call));
        let gain = made.one(rule("layout-conversions")).gain.unwrap();
        (gain.saved_ns, gain.kind)
    };
    assert_eq!(saved(0.0, 4.0), (Time(360.0), GainKind::Work));
    // A library launches 80 kernels itself, with calls of 4 ns while other kernels run, or shorter calls than kernels.
    assert_eq!(saved(800.0, 4.0), (Time(320.0), GainKind::Work));
    assert_eq!(saved(800.0, 1.0), (Time(120.0), GainKind::Work));
}

#[test]
fn names_of_the_program_are_weaker_than_sizes() {
    let made = |by_names| {
        let mut made = decode_with(ChainKind::Epilogue);
        made.known.chains.as_mut().unwrap().by_names = by_names;
        made
    };
    let statement = |by_names| words(&made(by_names).one(rule("gemm-epilogue")).statement);
    assert!(statement(true).ends_with("}gemm_epilogue.by_names"));
    assert!(!statement(false).contains("by_names"));
}

#[test]
fn groups_between_stages_are_those_of_the_loop() {
    let mut made = decode_with(ChainKind::Pointwise);
    // Two iterations, and between them a kernel: 18 000 ns of kernels in 20 000 ns.
    made.session = trace(
        "range decode 0..10
         launch 1..2 -> add 0..3_000
         launch 11..12 -> add 3_000..14_000
         range decode 20..30
         launch 21..22 -> add 16_000..20_000",
    );
    made.facts = Facts::new(&made.session);
    let chains = made.known.chains.as_mut().unwrap();
    let inside = chains.places[0].groups[0].clone();
    // 2400 ns inside, 2000 ns between, of 8000 + 2000 ns of kernels.
    chains.places[1] = Place {
        stage: None,
        operations: Count(100.0),
        time: Time(2000.0),
        groups: vec![Group {
            time: Time(2000.0),
            bound: Some(Time::ZERO),
            ..inside
        }],
    };
    let finding = made.one(rule("pointwise-unfused"));
    let gain = finding.gain.unwrap();
    // 44 % of 18 000 ns of kernels.
    assert_eq!((gain.kind, gain.saved_ns), (GainKind::Run, Time(7920.0)));
    assert_eq!(gain.of_ns, Time(20_000.0));
}
