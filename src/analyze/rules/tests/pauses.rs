//! Rules about stalls that few iterations have.

use super::*;
use rooflens_analysis::testing::trace;
use rooflens_analysis::time::idle::cause::Times;
use rooflens_analysis::time::idle::gaps::Gap;
use rooflens_analysis::time::idle::longest::LongGap;

/// Nine iterations with 50 ns of host code each and one with the rest of `total`; three gaps, of which the first, before
/// `kernel`, is as long as `longest`.
fn pauses(total: i64, kernel: &str, longest: i64) -> Made {
    let mut times = [50.0; 10];
    times[4] = total as f64 - 450.0;
    let mut made = decode()
        .busy(0.5)
        .each(Cause::HostCode, &times)
        .gaps(Cause::HostCode, 3);
    made.session = trace(&format!(
        "stream 7: {kernel} 0..1, gemm 1..2, copy 2..3, {kernel} 3..4"
    ));
    let tables = Facts::new(&made.session).tables;
    (made.facts.ops, made.facts.identities) = (tables.ops, tables.identities);
    let gap = |(op, cause, end)| LongGap {
        ordinal: 0,
        gap: Gap {
            start: Ns::ZERO,
            end,
            op,
            times: Times::one(cause, end),
            launching_in_calls: Ns::ZERO,
        },
        off_cpu: None,
        host: None,
        ranges: Vec::new(),
        operator: None,
        frame: None,
        waits_for: None,
    };
    let gaps = [
        (0, Cause::HostCode, longest),
        (1, Cause::HostCode, 50),
        (2, Cause::HostCode, 50),
        (3, Cause::Launching, 40),
    ]
    .map(|(op, cause, end)| (op, cause, Ns(end)));
    made.last_line().longest = gaps.map(gap).to_vec();
    made.last().of_loop = Time(10_000.0);
    made
}

#[test]
fn pauses_that_the_median_instance_does_not_have_are_said() {
    let made = |total: i64| pauses(total, "sdpa", 400);
    // Ten instances with the median of 50 ns each are 500; 1100 − 500 = 600 of 10 × 1000 ns are 6 %, 990 − 500 are 4.9 %.
    let found = made(1100).one(rule("host-pauses"));
    assert!((saved(&found) - 600.0).abs() < 1e-9);
    assert_eq!(found.gain.as_ref().unwrap().of_ns.0, 10_000.0);
    // 400 of 500 ns are one stall; most stalls, by number, end with another kernel.
    let text = words(&found.statement);
    let expected =
        "ended=host_pauses.ended{listed=3, whole=500 ns, share=80.0 %, count=1, kernel=sdpa";
    assert!(text.contains(expected), "{text}");
    let basis = &found.gain.as_ref().unwrap().basis;
    assert!(basis.contains("count=10, typical=50.0 ns"), "{basis}");
    assert_eq!(found.root, None);
    assert_eq!(made(990).outcome(rule("host-pauses")), Outcome::PASSED);
    // 60 of 160 ns are no half: no kernel is named, and no cause.
    let text = words(&pauses(1100, "sdpa", 60).one(rule("host-pauses")).statement);
    assert!(
        text.contains("ended=host_pauses.ended_mixed{listed=3, whole=160 ns, kinds=3}"),
        "{text}"
    );
    // The loss of 600 ns holds a stall of 580 and not one of 50 more.
    let text = words(&pauses(1100, "sdpa", 580).one(rule("host-pauses")).statement);
    assert!(
        text.contains(
            "ended=host_pauses.ended{listed=1, whole=580 ns, share=100 %, count=1, kernel=sdpa}"
        ),
        "{text}"
    );
}

#[test]
fn a_typical_wait_for_the_data_loader_is_told() {
    // Of 400, 50 and 50 ns of host code in the longest gaps, the loader has the given ones.
    let found = |of_loader: &[usize]| {
        let mut made = pauses(500, "memcpy HtoD", 400);
        let loader = made
            .session
            .intern("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
        of_loader
            .iter()
            .for_each(|gap| made.last_line().longest[*gap].ranges = vec![loader]);
        made.idle(Cause::HostCode, 100.0).one(rule("host-bound"))
    };
    let waits = found(&[0]);
    let said = "does=host_bound.works, loader=80.0 %}";
    assert!(
        words(&waits.statement).contains(said),
        "{}",
        words(&waits.statement)
    );
    assert!(words(&waits.advice.unwrap()).contains("host_pauses.advice_loader"));
    assert_eq!(
        waits.root.unwrap().cause,
        "host_bound.root_cause_loader{loader=80.0 %}"
    );
    assert_eq!(found(&[1, 2]).root, None);
}

#[test]
fn stalls_in_the_data_loader_are_its_own() {
    let mut made = pauses(1100, "memcpy HtoD", 400);
    let loader = made
        .session
        .intern("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    made.last_line().longest[0].ranges = vec![loader];
    let found = made.one(rule("host-pauses"));
    assert!(words(&found.statement).ends_with("}host_pauses.loader"));
    assert!(words(&found.advice.unwrap()).contains("host_pauses.advice_loader"));
    assert_eq!(
        found.root.unwrap().cause,
        "host_pauses.root_cause_loader{count=1}"
    );
    // In another range it is not reported.
    let mut other = pauses(1100, "memcpy HtoD", 400);
    let range = other.session.intern("train");
    other.last_line().longest[0].ranges = vec![range];
    assert_eq!(other.one(rule("host-pauses")).root, None);
}

#[test]
fn a_cause_that_only_the_name_of_a_kernel_tells_is_hedged() {
    let cudnn = "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_7_64x64x64_4x1x1_cga1x1x1_kernel0_0";
    let found = pauses(1100, cudnn, 400).one(rule("host-pauses"));
    let root = found.root.as_ref().unwrap();
    assert!(
        root.cause
            .starts_with("host_pauses.root_cause_name{share=80.0 %, "),
        "{}",
        root.cause
    );
    assert_eq!(root.passes, 1);
    // The trace that would show it is asked for.
    assert_eq!(words(&found.next.unwrap()), "host_pauses.next");
}

/// Two instances with `total` ns of host code together, in ten steps each; a median step has 5 ns.
fn two_instances(total: i64) -> Made {
    with_step(total, 5.0)
}

fn with_step(total: i64, step: f64) -> Made {
    let half = total as f64 / 2.0;
    let made = decode()
        .each(Cause::HostCode, &[half; 2])
        .each(Cause::Launching, &[300.0; 2]);
    let made = made.gaps(Cause::HostCode, 10).steps(10.0);
    let mut made = made.holds(StageKind::DecodeStep, "decode_step");
    made.stages[0].counted = Count(2.0);
    made.stages[0].of_loop = Time(2000.0);
    made.line(1, 100.0, 0.0).set(Cause::HostCode, Time(step));
    made
}

#[test]
fn of_few_instances_the_steps_tell_what_is_typical() {
    // 1200 − 2 × 10 × 5 = 1100 ns in two instances.
    let made = two_instances(1200);
    let found = made.one(rule("host-pauses"));
    assert_eq!(saved(&found), 1100.0);
    let basis = &found.gain.as_ref().unwrap().basis;
    assert!(
        basis.contains("steps=10, count=2, typical=5.00 ns"),
        "{basis}"
    );
    assert!(words(&found.statement).contains("count=2, typical=host_pauses.steps,"));
    // Without the pauses 50 of 1000 ns are at the threshold of host-bound: as typical as 5 %.
    assert!(
        words(&made.one(rule("host-bound")).statement)
            .contains("idle=host_bound.without_pauses{stage=decode, share=5.00 %}")
    );
    // One gap a step: the typical host code lies between the steps, and a graph of a step leaves it there.
    assert_eq!(saved(&made.one(rule("launch-bound"))), 300.0);
    let (word, why) = silent(with_step(1200, 4.0).outcome(rule("host-bound")));
    assert_eq!(word, "not applicable");
    assert_eq!(why, format!("decode: {}", covered_by(rule("host-pauses"))));
    // 2 × (99 − 50) = 98 of 2000 ns are 4.90 %: no pauses, and host code is what both have, less than launching.
    let none = two_instances(198);
    assert_eq!(none.outcome(rule("host-pauses")), Outcome::PASSED);
    assert_eq!(saved(&none.one(rule("launch-bound"))), 300.0);
    assert!(
        words(&none.one(rule("host-bound")).statement)
            .contains("idle=findings.idles{stage=decode, share=9.90 %, most=9.90 %")
    );
    // Two instances without steps have no typical one.
    let mut unknown = two_instances(1200);
    unknown.stages[0].nested.clear();
    assert_eq!(silent(unknown.outcome(rule("host-pauses"))).0, "abstained");
}

#[test]
fn what_pauses_explain_is_said_once() {
    let told = |total: i64| {
        let made = two_instances(total).pace(1, -0.4, -9.0);
        made.repeats("decode", "b", None, &[90, 31, 30, 29, 30])
    };
    let made = told(1200);
    let text = words(&made.one(rule("host-pauses")).statement);
    assert!(
        text.contains("uneven_pace.also{stage=decode_step, drift=40.0 %}"),
        "{text}"
    );
    assert!(
        text.ends_with("repeat_outliers.also{time=90.0 ns, median=30.0 ns}"),
        "{text}"
    );
    for rule in [rule("uneven-pace"), rule("repeat-outliers")] {
        let (word, why) = silent(made.outcome(rule));
        assert_eq!(word, "not applicable");
        assert!(why.ends_with("rule=host_pauses.name}"), "{why}");
    }
    // Without pauses both speak for themselves.
    let made = told(100);
    assert!(
        words(&made.one(rule("uneven-pace")).advice.unwrap())
            .contains("uneven_pace.advice_shorter")
    );
    assert!(
        words(&made.one(rule("repeat-outliers")).advice.unwrap())
            .contains("repeat_outliers.advice")
    );
}

/// Nine iterations of ten have 50 of 1000 ns of host code and 40 of launching, one 1550: of the baseline, 5 % recur.
#[test]
fn of_the_baseline_only_what_recurs_is_a_cause() {
    let typical = [50.0; 9];
    let made = decode()
        .busy(0.4)
        .each(Cause::HostCode, &[&typical[..], &[1550.0]].concat());
    let made = made
        .each(Cause::Launching, &[40.0; 10])
        .gaps(Cause::HostCode, 9)
        .steps(1.0);
    let profiled = words(&made.one(rule("stage-busy")).statement);
    assert!(
        profiled.contains("share=20.0 %, count=10, why=stage_busy.pauses"),
        "{profiled}"
    );
    let made = made.repeats("decode", "baseline", Some(1), &[700]);
    let said = words(&made.one(rule("stage-busy")).statement);
    let expected = "share=5.00 %, count=10, why=host code, apart=,";
    assert!(said.contains(expected), "{said}");
}

/// Five of twelve iterations stall for 450 ns: in the first half they are warm-up, spread over all they are a loss.
#[test]
fn stalls_that_have_ended_are_no_loss_of_the_loop() {
    let stalls = |stalled: [usize; 5]| {
        let mut times = [50.0; 12];
        for iteration in stalled {
            times[iteration] = 500.0;
        }
        let mut made = decode().busy(0.5).each(Cause::HostCode, &times);
        made.last().of_loop = Time(12_000.0);
        made.one(rule("host-pauses"))
    };
    let ended = stalls([0, 1, 2, 3, 5]);
    assert!(words(&ended.statement).contains("last=6"));
    assert_eq!(ended.gain, None);
    let recurring = stalls([0, 3, 5, 8, 11]);
    assert!(!words(&recurring.statement).contains("last="));
    assert!((saved(&recurring) - 5.0 * 450.0).abs() < 1e-9);
}

/// Two of twelve iterations plan attention for a new length for 3000 µs.
#[test]
fn stalls_of_plans_have_a_cause() {
    let mut text = String::new();
    for step in 0..12 {
        let time = |from: i64, to: i64| format!("{}us..{}us", step * 5000 + from, step * 5000 + to);
        let is_new = step == 6 || step == 9;
        let second = if is_new { 3500 } else { 500 };
        text += &format!("range forward {}\n", time(0, second + 200));
        text += &format!("launch {} -> gemm {}\n", time(0, 5), time(10, 480));
        if is_new {
            let mark = "range rooflens:new shape forward batch=1 tokens=5 keys=5";
            text += &format!("{mark} {}\n", time(6, second + 1));
        }
        let (launch, runs) = (time(second, second + 5), time(second + 10, second + 110));
        let attention = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma";
        text += &format!("launch {launch} -> {attention} {runs}\n");
    }
    let action = super::named::action(&trace(&text), "host-pauses");
    assert!(
        action.starts_with("host_pauses.root_action_plans"),
        "{action}"
    );
}
