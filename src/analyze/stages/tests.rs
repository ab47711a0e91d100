//! Loops of different lengths, as prompts of different sizes make them, and stages of inferred rules.

use crate::tables::{Exclusion, StageInstance, StageTables};
use rooflens_analysis::testing::trace;
use rooflens_schemas::StageKind;
use rooflens_schemas::workload::StageRule;
use rooflens_session::{Ns, RangeId, Session, Timing};

/// Time between the starts of two loops, and of two steps.
const LOOP: i64 = 10_000;
const STEP: i64 = 100;

/// `generate()` once for each length: a range `decode` with a range `decode_step` for each token, which launches a
/// kernel of 50 ns.
fn generated(lengths: &[i64]) -> Session {
    let mut events = String::new();
    for (call, length) in (0..).zip(lengths) {
        let begin = 1000 + call * LOOP;
        events += &decode(begin, *length, STEP, 50);
    }
    trace(&events)
}

/// A loop with steps of `step` ns, each with a kernel of `busy` ns.
fn decode(begin: i64, length: i64, step: i64, busy: i64) -> String {
    let mut events = format!("range decode {begin}..{}\n", begin + length * step);
    for number in 0..length {
        let start = begin + number * step;
        let (call, kernel, end) = (start + 1, start + 5, start + step);
        events += &format!("range decode_step {start}..{end}\n");
        events += &format!(
            "launch {call}..{kernel} -> gemm {kernel}..{}\n",
            kernel + busy
        );
    }
    events
}

/// Numbers of the loops that are counted.
fn counted(session: &Session) -> Vec<u32> {
    let tables = StageTables::new(session);
    let stage = tables.stages.iter().find(|stage| stage.name == "decode");
    let loops = tables.instances_of(stage.expect("decode is a stage"));
    let counted = loops.iter().filter(|decode| decode.excluded.is_none());
    counted.map(|decode| decode.ordinal).collect()
}

#[test]
fn loops_of_different_lengths_all_count() {
    assert_eq!(counted(&generated(&[6, 3, 8, 5, 7])), [0, 1, 2, 3, 4]);
}

#[test]
fn warm_up_of_loops_of_different_lengths_is_excluded() {
    let mut session = generated(&[6, 3, 8, 5, 7]);
    session.workload.warmup = Some(2);
    assert_eq!(counted(&session), [2, 3, 4]);
}

/// Four requests of a prefill and three decode steps each, which no range holds together.
#[test]
fn decode_steps_of_warm_up_requests_do_not_count() {
    let mut events = String::new();
    for request in 0..4 {
        for part in 0..4 {
            let start = 1000 * request + 100 * part;
            let name = if part == 0 { "prefill" } else { "decode" };
            let kernel = start + 10;
            events += &format!("range {name} {start}..{}\n", start + 60);
            events += &format!(
                "launch {}..{} -> gemm {kernel}..{}\n",
                start + 1,
                start + 5,
                kernel + 40
            );
        }
    }
    let mut session = trace(&events);
    assert_eq!(counted(&session), Vec::from_iter(0..12));
    session.workload.warmup = Some(2);
    assert_eq!(counted(&session), Vec::from_iter(6..12));
}

#[test]
fn inferred_rules_do_not_hide_other_ranges_and_stated_rules_do() {
    let mut events = String::new();
    for step in 0..5 {
        for (name, start) in [("detect", 1000 * step), ("postprocess", 1000 * step + 500)] {
            let (call, launched, kernel) = (start + 1, start + 5, start + 10);
            events += &format!("range {name} {start}..{}\n", start + 300);
            events += &format!(
                "launch {call}..{launched} -> gemm {kernel}..{}\n",
                kernel + 200
            );
        }
    }
    let mut session = trace(&events);
    session.workload.stages = vec![StageRule {
        name: "detect".to_owned(),
        pattern: None,
        kind: Some(StageKind::Forward),
    }];
    let names = |session: &Session| {
        let stages = StageTables::new(session).stages;
        Vec::from_iter(stages.into_iter().map(|stage| stage.name))
    };
    assert_eq!(names(&session), ["detect"]);
    session.workload.inferred = vec!["stages".to_owned()];
    assert_eq!(names(&session), ["detect", "postprocess"]);
}

#[test]
fn a_loop_that_stops_early_does_not_count() {
    assert_eq!(counted(&generated(&[8, 8, 3, 8])), [0, 1, 3]);
}

#[test]
fn a_stated_length_that_few_loops_have_excludes_none() {
    let mut session = generated(&[6, 3, 8, 5, 7]);
    session.workload.output_tokens = Some(8);
    assert_eq!(counted(&session), [0, 1, 2, 3, 4]);
    // Four of the five have it: the fifth stopped early.
    let mut session = generated(&[8, 8, 8, 5, 8]);
    session.workload.output_tokens = Some(8);
    assert_eq!(counted(&session), [0, 1, 2, 4]);
}

#[test]
fn a_cold_start_of_loops_of_different_lengths_is_found_by_the_time_of_a_step() {
    let mut events = String::new();
    for (call, length) in (0..).zip([3, 30, 50, 60, 45, 35]) {
        let step = if call == 0 { 1000 } else { STEP };
        events += &decode(1000 + call * LOOP, length, step, step - 10);
    }
    // The first loop takes 2990 ns, 997 for each step: less than any other loop, and ten times as much for each step. The
    // others take 99.7 to 99.8 ns for each of 30 to 60 steps.
    assert_eq!(counted(&trace(&events)), [1, 2, 3, 4, 5]);
}

/// Steps with one operation of these lengths.
fn steps(lengths: &[i64]) -> Session {
    let mut events = String::new();
    for (number, length) in (1..).zip(lengths) {
        let start = 200 * number;
        events += &format!("range step {start}..{}\n", start + 190);
        let (call, launched, kernel) = (start + 1, start + 2, start + 5);
        events += &format!(
            "launch {call}..{launched} -> gemm {kernel}..{}\n",
            kernel + length
        );
    }
    trace(&events)
}

/// Six steps of 100 to 103, then five of 150 to 152 and one of 180: the last level is what runs, unless unprofiled repeats
/// stay at one level.
#[test]
fn steps_before_a_jump_are_no_part_of_the_figures() {
    let mut lengths = [100, 102, 101, 103, 102, 101, 150, 180, 151, 152, 151, 150];
    let earlier = |session: &Session| {
        let instances = StageTables::new(session).instances;
        let is_earlier = |step: &&StageInstance| step.excluded == Some(Exclusion::EarlierLevel);
        let earlier = instances.iter().filter(is_earlier);
        earlier.map(|step| step.ordinal).collect::<Vec<_>>()
    };
    let mut session = steps(&lengths);
    assert_eq!(earlier(&session), [0, 1, 2, 3, 4, 5]);
    let stage = session.intern("step");
    for repeat in 0..12 {
        session.timings.push(Timing {
            stage,
            repeat,
            duration: Ns(100),
            steps: None,
            batch: None,
            tokens: None,
            keys: None,
            artifact: stage,
            pass: stage,
            profiled: Some(false),
        });
    }
    assert!(earlier(&session).is_empty());
    lengths.reverse();
    assert!(earlier(&steps(&lengths)).is_empty());
}

#[test]
fn a_first_step_far_slower_than_the_others_is_a_cold_start() {
    // Steps of 90, 10, 11, 10 and 12: the deviations from the median 11 are 79, 1, 0, 1 and 1, their median is 1, and
    // the score of the first is 0.6745 * 79 = 53.
    let excluded = |lengths: [i64; 5]| {
        let instances = StageTables::new(&steps(&lengths)).instances;
        let excluded: Vec<bool> = instances
            .iter()
            .map(|step| step.excluded.is_some())
            .collect();
        excluded
    };
    assert_eq!(
        excluded([90, 10, 11, 10, 12]),
        [true, false, false, false, false]
    );
    // The same step in the middle is an outlier, and no cold start.
    assert_eq!(excluded([10, 11, 90, 10, 12]), [false; 5]);
}

#[test]
fn marks_of_the_host_are_no_stages_and_hold_no_operations() {
    // Its name is a built-in stage, and the kernel is launched in it.
    let events = "range epoch 0..100
        range rooflens:prefill 10..90
        launch 20..22 -> gemm 30..40";
    let tables = StageTables::new(&trace(events));
    let names: Vec<&str> = tables.stages.iter().map(|stage| &*stage.name).collect();
    assert_eq!(names, ["epoch"]);
    assert_eq!(tables.ops.range[0].range(), Some(RangeId(0)));
}

#[test]
fn ranges_in_ranges_are_looked_at_to_a_few_levels() {
    let mut events = "launch 50000..50001 -> gemm 50002..50003\n".to_owned();
    for level in 0..20_000 {
        events += &format!("range r {level}..{}\n", 100_000 - level);
    }
    let tables = StageTables::new(&trace(&events));
    assert_eq!(tables.stages.len(), 1);
    assert_eq!(tables.stages[0].instances.len(), 1);
}

#[test]
fn a_phase_of_a_step_next_to_its_parts_is_a_stage() {
    let mut events = String::new();
    for step in 0..4 {
        let begin = 1000 * step;
        events += &format!("range train_step {begin}..{}\n", begin + 900);
        let parts = [
            ("augment", 10),
            ("forward", 300),
            ("layer", 310),
            ("backward", 600),
        ];
        for (name, offset) in parts {
            let start = begin + offset;
            let length = if name == "layer" { 100 } else { 200 };
            events += &format!("range {name} {start}..{}\n", start + length);
        }
        for offset in [20, 320, 620] {
            let call = begin + offset;
            let (issued, start, end) = (call + 5, call + 10, call + 80);
            events += &format!("launch {call}..{issued} -> gemm {start}..{end}\n");
        }
    }
    let tables = StageTables::new(&trace(&events));
    let mut names: Vec<&str> = tables
        .stages
        .iter()
        .map(|stage| stage.name.as_str())
        .collect();
    names.sort_unstable();
    // `layer` lies in `forward`, and is no phase of the step.
    assert_eq!(names, ["augment", "backward", "forward", "train_step"]);
}
