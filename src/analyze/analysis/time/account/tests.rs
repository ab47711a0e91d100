use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::{trace, with_results};
use crate::time::idle::Cause;

/// Depth, kind and time of each node, from the root to the leaves.
fn tree(events: &str) -> Vec<(usize, NodeKind, i64)> {
    with_results(&trace(events), |context| {
        let account = &context.results.idle().expect("computed").account;
        check(context, account).expect("an exact account");
        let mut depths: Vec<usize> = Vec::new();
        let mut tree = Vec::new();
        for node in &account.nodes {
            let depth = node.parent.map_or(0, |parent| depths[parent] + 1);
            depths.push(depth);
            tree.push((depth, node.kind, node.time.0));
        }
        tree
    })
}

/// What must hold of every account.
fn check(context: &Context<'_>, account: &Account) -> Result<(), TestCaseError> {
    for (parent, node) in account.nodes.iter().enumerate() {
        prop_assert!(node.time >= Ns::ZERO, "{node:?}");
        let children: Vec<Ns> = account
            .children(parent)
            .map(|(_, child)| child.time)
            .collect();
        if !children.is_empty() {
            prop_assert_eq!(children.into_iter().sum::<Ns>(), node.time, "{:?}", node);
        }
    }
    let facts = context.facts;
    let shown: BTreeSet<usize> = account
        .nodes
        .iter()
        .filter_map(|node| match node.kind {
            NodeKind::Stage(stage, _) => Some(stage),
            _ => None,
        })
        .collect();
    for (index, stage) in facts.stages.iter().enumerate() {
        let instances = facts.instances_of(stage);
        let has_work = instances
            .iter()
            .any(|instance| instance.projection.is_some() && !instance.is_nested);
        if has_work && facts.run.contains(&stage.pass) {
            prop_assert!(shown.contains(&index), "stage {} has no node", stage.name);
        }
    }
    Ok(())
}

#[test]
fn captured_time_begins_with_the_workload() {
    let captured = |domain: &str| {
        let mut session = trace(
            "range gc 0..5
             cudaMalloc 100..105
             launch 110..111 -> gemm 120..160",
        );
        session.ranges.domain[0] = session.intern(domain);
        with_results(&session, |context| {
            context.results.idle().expect("computed").account.total()
        })
    };
    assert_eq!(captured(""), Ns(160));
    assert_eq!(captured(marks::DOMAIN), Ns(60));
}

#[test]
fn each_moment_has_a_phase_and_within_it_a_kernel_or_a_cause() {
    // 0 to 20: set-up. [20, 70): a kernel for 40 and a copy that runs 10 longer.
    // [230, 290): kernels for 50 and 5 with 5 between them. Until 300 the range is open.
    let events = "cudaMalloc 0..5
        range step 10..100
        launch 12..14 -> gemm 20..60
        cudaMemcpyAsync 15..17 -> memcpy HtoD pinned 1B 50..70
        range step 200..300
        launch 210..212 -> gemm 230..280
        launch 281..284 -> gemm 285..290";
    let kinds: Vec<(usize, i64)> = tree(events)
        .into_iter()
        .filter(|(_, kind, _)| !matches!(kind, NodeKind::Class(_) | NodeKind::Cause(_)))
        .map(|(depth, _, time)| (depth, time))
        .collect();
    let expected = [
        (0, 290), // the pass: the last range ends at 300, without a call or an operation after 290
        (1, 290), // its GPU
        (2, 20),  // before the first step
        (3, 20),  // idle
        (4, 20),  // before the first operation
        (2, 110), // steps
        (3, 110), // all of them steady
        (4, 105), // busy
        (6, 95),  // gemm
        (6, 10),  // the copy where no kernel runs
        (4, 5),   // idle
        (2, 160), // between steps
        (3, 160), // idle
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn work_of_others_is_no_busy_time_of_a_step() {
    // A step from 20 to 100 with kernels at both ends; a kernel outside of any range runs from 40 to 60.
    let tree = tree(
        "launch 0..2 -> other 40..60
        range step 5..15
        launch 6..7 -> gemm 20..30
        launch 8..9 -> gemm 90..100",
    );
    let time = |kind| {
        let mut of_kind = tree.iter().filter(|node| node.1 == kind);
        of_kind.next().map(|node| node.2)
    };
    assert_eq!(time(NodeKind::Busy), Some(20));
    assert_eq!(time(NodeKind::Cause(Cause::OtherWork)), Some(20));
}

#[test]
fn time_next_to_an_excluded_iteration_is_a_phase_of_its_own() {
    // A cold step of 300, then five of 10, 11, 12, 13 and 14; the next step starts 100, 90, 89, 88 and 87 later.
    let mut events = String::new();
    let mut start = 0;
    for (length, pause) in [(300, 100), (10, 90), (11, 89), (12, 88), (13, 87), (14, 0)] {
        let (launch, end) = (start + 1, start + length);
        events += &format!("range step {start}..{end}\n");
        events += &format!(
            "launch {launch}..{} -> gemm {}..{end}\n",
            launch + 1,
            launch + 2
        );
        start = end + pause;
    }
    let between: Vec<(bool, i64)> = tree(&events)
        .into_iter()
        .filter_map(|(_, kind, time)| match kind {
            NodeKind::Phase(Phase::Between { is_measured, .. }) => Some((is_measured, time)),
            _ => None,
        })
        .collect();
    // Kernels begin 3 after their range.
    assert_eq!(between, [(false, 103), (true, 93 + 92 + 91 + 90)]);
}

#[test]
fn an_iteration_far_longer_than_most_is_slow() {
    // Steps of 10, 11, 10, 12, 10 and 40; of the first five none is slow, however small their spread.
    let slow = |lengths: &[i64]| {
        let mut events = String::new();
        for (number, length) in (1..).zip(lengths) {
            let start = 100 * number;
            events += &format!("range step {start}..{}\n", start + 90);
            let (call, launched, kernel) = (start + 1, start + 2, start + 5);
            events += &format!(
                "launch {call}..{launched} -> gemm {kernel}..{}\n",
                kernel + length
            );
        }
        let slow = tree(&events)
            .into_iter()
            .filter_map(|(_, kind, time)| match kind {
                NodeKind::Phase(Phase::Stage { iterations, .. }) => {
                    (iterations == Iterations::Slow).then_some(time)
                }
                _ => None,
            });
        slow.sum::<i64>()
    };
    assert_eq!(slow(&[10, 11, 10, 12, 10, 40]), 40);
    assert_eq!(slow(&[10, 11, 10, 12, 10]), 0);
    assert_eq!(slow(&[10, 11, 40]), 0);
}

/// Start and length of a range, and its name.
type Range = (usize, i64, i64);

/// An event of a rank: start of its call, delay and length of its operation, and what it is.
type Event = (i64, i64, i64, usize, u32);

/// Ranges on one thread; kernels, copies and waits of two ranks, each on its own GPU; some calls lie outside of ranges.
fn session(ranges: &[Range], events: &[Event]) -> String {
    let mut text = String::new();
    for (name, start, length) in ranges {
        let name = ["prefill", "decode", "step"][*name];
        text += &format!("range {name} {start}..{}\n", start + length);
    }
    for (call, delay, length, kind, rank) in events {
        let (returns, start) = (call + 2, call + 2 + delay);
        let end = start + length;
        text += &format!("rank {rank}\n");
        text += &match kind {
            0 => format!(
                "cudaMemcpyAsync {call}..{returns} -> memcpy HtoD pinned 1B {start}..{end}\n"
            ),
            1 => format!("cudaDeviceSynchronize {call}..{end}\n"),
            kernel => {
                let kernel = ["gemm", "ncclDevKernel_AllReduce", "copy_kernel"][kernel - 2];
                format!("launch {call}..{returns} -> {kernel} {start}..{end}\n")
            }
        };
    }
    text
}

/// Checks the account of random sessions.
fn check_random(sessions: u32) {
    let ranges = prop::collection::vec((0_usize..3, 0_i64..900, 1_i64..200), 0..12);
    let event = (0_i64..1000, 0_i64..120, 0_i64..90, 0_usize..5, 0_u32..2);
    let events = prop::collection::vec(event, 1..40);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(sessions));
    let checked = runner.run(&(ranges, events), |(ranges, events)| {
        with_results(&trace(&session(&ranges, &events)), |context| {
            match context.results.idle() {
                Ok(idle) => check(context, &idle.account),
                // Waits alone are no work of a GPU.
                Err(_) => Ok(()),
            }
        })
    });
    checked.expect("exact accounts");
}

#[test]
fn children_sum_to_their_parent_and_no_stage_is_missing() {
    check_random(256);
}

#[test]
#[ignore = "10,000 sessions take a while"]
fn accounts_of_many_sessions_are_exact() {
    check_random(10_000);
}
