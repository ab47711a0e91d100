use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::testing::trace;
use rooflens_analysis::{Context, Facts, Options, Results};
use rooflens_document::{Catalogue, Finding, Gain, GainKind, Part};
use rooflens_hardware::Hardware;
use rooflens_session::{Ns, Session};
use rooflens_units::{Count, Ratio, Time};

use crate::account::Explained;
use crate::conditions::Subject;
use crate::explanations::Reason;
use crate::kernels::Fate;
use crate::{Analyzed, Comparison, Pair, Side, compare};

/// Three steps of 100 ns: `gemm` for 40 and `axpy` for 20 ns, the GPU idle between them.
const BEFORE: &str = "\
range step 0..90
launch 0..5 -> gemm 10..50
launch 60..65 -> axpy 70..90
range step 100..190
launch 100..105 -> gemm 110..150
launch 160..165 -> axpy 170..190
range step 200..290
launch 200..205 -> gemm 210..250
launch 260..265 -> axpy 270..290";

/// The same with `gemm2` instead of `gemm`, which takes 30 ns, and `axpy` twice for 10 ns each.
const AFTER: &str = "\
range step 0..90
launch 0..5 -> gemm2 10..40
launch 45..50 -> axpy 50..60
launch 61..65 -> axpy 70..80
range step 100..190
launch 100..105 -> gemm2 110..140
launch 145..150 -> axpy 150..160
launch 161..165 -> axpy 170..180
range step 200..290
launch 200..205 -> gemm2 210..240
launch 245..250 -> axpy 250..260
launch 261..265 -> axpy 270..280";

/// Compares two sessions and gives the comparison to a function.
fn with<T>(
    sessions: &Pair<Session>,
    findings: &Pair<Vec<Finding>>,
    check: impl FnOnce(&Comparison) -> T,
) -> T {
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let facts = Pair::of(sessions, Facts::new);
    let context = |session, facts| Context::new(session, facts, &hardware, &options);
    let contexts = Pair {
        before: context(&sessions.before, &facts.before),
        after: context(&sessions.after, &facts.after),
    };
    let results = Pair::of(&contexts, Results::compute);
    let sides = Pair {
        before: side(contexts.before, &results.before, &findings.before),
        after: side(contexts.after, &results.after, &findings.after),
    };
    check(&compare(sides, Ratio(0.01)))
}

fn side(context: Context<'_>, results: &Results, findings: &[Finding]) -> Side {
    let mut side = Side {
        name: "made".to_owned(),
        ..Side::default()
    };
    let capture = Analyzed {
        context: context.with(results),
        findings,
    };
    side.add(&capture, Catalogue::english());
    side
}

fn traces(before: &str, after: &str) -> Pair<Session> {
    Pair {
        before: trace(before),
        after: trace(after),
    }
}

#[test]
fn differences_of_the_account_sum_to_that_of_the_captured_times() {
    with(&traces(BEFORE, AFTER), &Pair::default(), |comparison| {
        // First to last call or operation: 290 and 280 ns.
        let sum: i64 = comparison
            .account
            .iter()
            .map(|change| change.difference().0)
            .sum();
        assert_eq!(sum, -10);
        // An iteration lasts from its first to its last operation: 80 and 70 ns.
        let of_iteration = |side: fn(&Pair<Time>) -> Time| -> f64 {
            let parts = comparison
                .account
                .iter()
                .filter(|change| change.place.is_measured);
            parts
                .filter_map(|change| Some(side(&change.per_iteration()?).0))
                .sum()
        };
        assert_eq!(of_iteration(|time| time.before), 80.0);
        assert_eq!(of_iteration(|time| time.after), 70.0);
    });
}

#[test]
fn a_kernel_that_replaces_another_and_one_launched_twice_are_told_apart() {
    with(&traces(BEFORE, AFTER), &Pair::default(), |comparison| {
        let [gemm, axpy] = &comparison.kernels[..] else {
            panic!("{:?}", comparison.kernels)
        };
        assert_eq!(
            (gemm.fate(), gemm.difference()),
            (Fate::Replaced, Time(-10.0))
        );
        assert_eq!(axpy.fate(), Fate::Kept);
        assert_eq!(axpy.used.after.launches, Count(2.0));
        // Twice as often as before makes 20 ns more, half as long makes 20 ns less.
        let parts = (axpy.by_launches(), axpy.by_duration());
        assert_eq!(parts, (Time(20.0), Time(-20.0)));
    });
}

/// Four training steps with these calls of the model, and the inferred batch.
fn trained(calls: &[&str], batch: u64) -> Session {
    let mut text = String::new();
    for step in 0..4 {
        let start = 1000 * step;
        text += &format!("range train_step {start}..{}\n", start + 900);
        for (number, sizes) in (0..).zip(calls) {
            let begin = start + 100 * number;
            text += &format!(
                "range rooflens:call train {sizes} {begin}..{}\n",
                begin + 50
            );
            text += &format!(
                "launch {begin}..{} -> gemm {}..{}\n",
                begin + 5,
                begin + 10,
                begin + 60
            );
        }
    }
    let mut session = trace(&text);
    session.workload.batch = Some(batch);
    session.workload.inferred = vec!["batch".to_owned()];
    session
}

#[test]
fn an_inferred_batch_is_that_of_a_training_step() {
    let subjects = |before: Session, after: Session| {
        let mut subjects = Vec::new();
        with(&Pair { before, after }, &Pair::default(), |comparison| {
            let conditions = comparison.conditions.iter();
            subjects.extend(conditions.map(|condition| condition.subject));
        });
        subjects
    };
    // The batch was inferred by call, or by step: both steps train with four sequences.
    let by_call = || trained(&["batch=2 tokens=8"; 2], 2);
    let by_step = trained(&["batch=4 tokens=8"], 4);
    assert_eq!(subjects(by_call(), by_step), []);
    let other = trained(&["batch=2 tokens=8"], 2);
    assert_eq!(subjects(by_call(), other), [Subject::Workload]);
}

#[test]
fn other_sizes_and_other_stages_prevent_a_comparison() {
    let mut sessions = traces(BEFORE, &AFTER.replace("step", "epoch"));
    (
        sessions.before.workload.batch,
        sessions.after.workload.batch,
    ) = (Some(1), Some(8));
    with(&sessions, &Pair::default(), |comparison| {
        let conditions = comparison.conditions.iter();
        let subjects: Vec<Subject> = conditions.map(|condition| condition.subject).collect();
        assert_eq!(subjects, [Subject::Workload, Subject::Stages]);
        assert!(subjects.iter().all(|subject| subject.prevents()));
        let values = &comparison.conditions[0].values;
        assert_eq!(
            (values.before.as_str(), values.after.as_str()),
            ("batch 1", "batch 8")
        );
        assert!(comparison.times.is_empty() && comparison.kernels.is_empty());
    });
}

#[test]
fn stages_of_other_names_are_explained_together() {
    let sessions = traces(BEFORE, &AFTER.replace("step", "epoch"));
    with(&sessions, &Pair::default(), |comparison| {
        let all = &comparison.explanations;
        assert!(all.iter().all(|one| one.explained == Explained::Whole));
        // Three GEMMs of 40 and of 30 ns; twice 20 and twice 30 ns from an iteration to the next one.
        let class = KernelClass::Gemm;
        let first = (all[0].reason, all[0].time);
        assert_eq!(first, (Reason::Work { class }, Time(-30.0)));
        let total: Time = all.iter().map(|one| one.time).sum();
        assert_eq!(total, Time(-10.0));
    });
}

#[test]
fn what_a_finding_promised_stands_next_to_what_the_stage_gained() {
    let finding = |id: &'static str| Finding {
        id,
        scope: rooflens_schemas::Scope {
            stage: Some("step".to_owned()),
            ..Default::default()
        },
        gain: Some(Gain {
            saved_ns: Time(15.0),
            of_ns: Time(80.0),
            of: String::new(),
            basis: String::new(),
            kind: GainKind::Idle,
        }),
        ..Finding::default()
    };
    let findings = Pair {
        before: vec![finding("launch-bound"), finding("dtype-casts")],
        after: vec![finding("dtype-casts"), finding("small-grid")],
    };
    with(&traces(BEFORE, AFTER), &findings, |comparison| {
        let rows: Vec<_> = comparison.findings.iter().collect();
        let labels: Vec<&str> = rows.iter().map(|change| change.label()).collect();
        assert_eq!(labels, ["gone", "same", "new"]);
        // The bound of 15 of 80 ns lets expect 65 ns, and an iteration takes 70 ns.
        assert_eq!(rows[0].bound.before, Some(Time(15.0)));
        let outcome = rows[0].outcome.expect("the finding is gone");
        assert_eq!(
            (outcome.before, outcome.expected, outcome.got),
            (Time(80.0), Time(65.0), Time(70.0))
        );
        assert_eq!(rows[1].outcome, None);
        assert_eq!(rows[2].bound.after, Some(Time(15.0)));
    });
}

#[test]
fn a_gain_beyond_its_kernels_is_of_idle_time() {
    let target = |kind, of_kernels: f64| {
        let finding = Finding {
            id: "pointwise-unfused",
            gain: Some(Gain {
                saved_ns: Time(15.0),
                of_ns: Time(80.0),
                of: String::new(),
                basis: String::new(),
                kind,
            }),
            parts: vec![(Part::Group(0), Time(of_kernels))],
            ..Finding::default()
        };
        let findings = Pair {
            before: vec![finding],
            after: Vec::new(),
        };
        with(&traces(BEFORE, AFTER), &findings, |comparison| {
            let target = &comparison.findings[0].target;
            (target.is_busy, target.is_idle)
        })
    };
    assert_eq!(target(GainKind::Run, 15.0), (true, false));
    assert_eq!(target(GainKind::Work, 15.0), (true, false));
    assert_eq!(target(GainKind::Work, 10.0), (true, true));
}

#[test]
fn a_part_of_the_run_is_smaller_if_its_time_and_its_quotient_are() {
    let finding = |saved: f64, of: f64| Finding {
        id: "between-stages",
        gain: Some(Gain {
            saved_ns: Time(saved),
            of_ns: Time(of),
            of: String::new(),
            basis: String::new(),
            kind: GainKind::Run,
        }),
        ..Finding::default()
    };
    let label = |before, after| {
        let findings = Pair {
            before: vec![before],
            after: vec![after],
        };
        with(&traces(BEFORE, BEFORE), &findings, |comparison| {
            comparison.findings[0].label()
        })
    };
    assert_eq!(label(finding(90.0, 100.0), finding(5.0, 10.0)), "smaller");
    assert_eq!(label(finding(5.0, 10.0), finding(90.0, 100.0)), "larger");
    // The same time of a run that is half as long, and half of the time of half of the run.
    assert_eq!(label(finding(10.0, 100.0), finding(10.0, 50.0)), "same");
    assert_eq!(label(finding(10.0, 100.0), finding(5.0, 50.0)), "same");
}

#[test]
fn a_session_against_itself_differs_in_nothing() {
    with(&traces(BEFORE, BEFORE), &Pair::default(), |comparison| {
        assert!(comparison.conditions.is_empty() && comparison.settings.is_empty());
        assert!(
            comparison
                .account
                .iter()
                .all(|change| change.difference() == Ns::ZERO)
        );
        assert!(
            comparison
                .kernels
                .iter()
                .all(|change| change.difference() == Time::ZERO)
        );
        let report = crate::report(comparison, Catalogue::english(), Default::default());
        assert!(
            report
                .dataset("compare_times")
                .is_some_and(|times| times.rows.len() == 1)
        );
    });
}
