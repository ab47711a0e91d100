//! Rules that name what the host did, on sessions whose idle time is added up by hand.

use super::*;
use rooflens_analysis::testing::with_results;
use rooflens_session::{GpuId, GraphLaunch, PassId, ProcessId};

/// Titles and keys of what the rules find in a session, with the gain in nanoseconds.
pub(super) fn findings(session: &Session) -> Vec<(&'static str, f64, String)> {
    with_results(session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let findings = judge(&evidence).0.findings.into_iter();
        let with_gain = findings.filter_map(|finding| {
            let saved = finding.gain.as_ref()?.saved_ns.0;
            Some((finding.id, saved, words(&finding.statement)))
        });
        with_gain.collect()
    })
}

/// Iterations of 1000 µs with a graph of 900 µs from 50 µs on; in a window of two, the graph is 1800 kernels of 0.4 µs with
/// 0.1 µs between them, and its launch takes 5000 µs.
fn graph_in_two_timelines() -> Session {
    let mut text = String::new();
    for start in (0..6000).step_by(1000) {
        text += &format!("range step {start}us..{}us\n", start + 60);
        text += &format!("cudaGraphLaunch {}us..{}us\n", start + 20, start + 40);
    }
    text += "pass nsys-nodes timeline\n";
    for start in [0_i64, 7000] {
        text += &format!("range step {start}us..{}us\n", start + 5060);
        text += &format!(
            "launch {start}us..{}us -> axpy {}us..{}us\n",
            start + 5,
            start + 10,
            start + 11
        );
        text += &format!("cudaGraphLaunch {}us..{}us ->", start + 20, start + 5020);
        for node in 0..1800 {
            let begin = (start + 5050) * 1000 + 500 * node;
            text += &format!(" axpy #{node} {begin}..{},", begin + 400);
        }
        text += "\n";
    }
    let mut session = trace(&text);
    for (call, start) in (0..).zip((0..6_000_000).step_by(1_000_000)) {
        session.graph_launches.push(GraphLaunch {
            start: Ns(start + 50_000),
            end: Ns(start + 950_000),
            pass: PassId(0),
            gpu: GpuId(0),
            process: ProcessId(0),
            stream: 7,
            correlation: Some(call),
            graph: Some(4),
        });
    }
    session
}

#[test]
fn rules_read_kernels_of_the_timeline_of_nodes_and_times_of_the_other_one() {
    let session = graph_in_two_timelines();
    with_results(&session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let findings = judge(&evidence).0.findings.into_iter();
        let found: Vec<&str> = findings.map(|finding| finding.id).collect();
        // The GPU is idle for most of an iteration of nodes only, because launching them takes long.
        assert!(
            !found.contains(&"launch-bound") && !found.contains(&"hidden-graphs"),
            "{found:?}"
        );
        assert!(found.contains(&"short-kernels"), "{found:?}");
        let of_kernels = evidence.of_kernels().unwrap();
        let (timed, nodes) = (&evidence.stages[0], &of_kernels.stages[0]);
        assert_eq!(
            (timed.reference(), nodes.reference()),
            (Time(900e3), Time(900e3))
        );
        assert_eq!((timed.counted, nodes.counted), (Count(6.0), Count(6.0)));
        assert_eq!(
            (timed.operations, nodes.operations),
            (Count(1.0), Count(1801.0))
        );
        // 1800 · 0.4 µs + 1 µs, in six iterations.
        let kernels = evidence.loop_kernels();
        assert_eq!(
            kernels.into_values().collect::<Vec<_>>(),
            [Time(6.0 * 721e3)]
        );
    });
}

pub(super) fn finding<'a>(
    findings: &'a [(&'static str, f64, String)],
    id: &str,
) -> Option<&'a (&'static str, f64, String)> {
    findings.iter().find(|finding| finding.0 == id)
}

/// Four steps of 1000 µs, each with a kernel of 100 µs at its start and at 800 µs, and these events between them.
fn steps(inside: &str, after: &str) -> Session {
    let mut text = String::new();
    let at = |events: &str, start: i64| {
        let mut shifted = String::new();
        for word in events.split_inclusive([' ', '\n']) {
            let token = word.trim_end();
            let times = token
                .strip_suffix("us")
                .and_then(|token| token.split_once("us.."));
            match times {
                Some((from, to)) => {
                    let [from, to] = [from, to].map(|time| time.parse::<i64>().unwrap() + start);
                    shifted += &format!("{from}us..{to}us{}", &word[token.len()..]);
                }
                None => shifted += word,
            }
        }
        shifted
    };
    for step in 0..4 {
        let start = step * 1000;
        let events = format!(
            "range step 0us..905us
             launch 0us..5us -> axpy 10us..110us
             {inside}
             launch 800us..805us -> axpy 810us..910us
             {after}\n"
        );
        text += &at(&events, start);
    }
    trace(&text)
}

/// Of 700 µs that each step is idle, 500 lie in a call that frees memory: the queue fills after it.
#[test]
fn what_follows_a_call_that_frees_memory_goes_with_it() {
    let found = findings(&steps("cudaFree 200us..700us", ""));
    let (_, saved, _) = finding(&found, "allocator-stalls").unwrap();
    assert_eq!(saved.round(), 700_000.0);
}

/// Of each step 700 of 900 µs are idle, 500 in a collection; 200 of 700 are other code.
#[test]
fn a_collection_in_each_iteration_is_named() {
    let found = findings(&steps("range rooflens:gc generation 2 200us..700us", ""));
    let (_, saved, statement) = finding(&found, "garbage-collection").unwrap();
    // 500 µs are more than two thirds of the 695 in which the host is late: all of these count, and the 5 µs until the
    // late launch starts.
    assert_eq!(*saved, 700_000.0);
    assert!(
        statement.contains("occurs=known.iterations{windows=4, of=4, each=500 µs}"),
        "{statement}"
    );
    assert!(statement.contains("names=gc generation 2"), "{statement}");
    // 190 µs of other code stay, of 900.
    let (_, saved, _) = finding(&found, "host-bound").unwrap();
    assert_eq!(*saved, 190_000.0);
}

/// A wait of 550 of the 695 µs in which the host is late. The host itself works for 255 of the 900 µs: 10 µs in launches,
/// 145 µs before the wait and 100 µs after it.
#[test]
fn without_waits_the_host_works_as_long_as_before() {
    let found = findings(&steps("cudaDeviceSynchronize 150us..700us", ""));
    let (_, saved, _) = finding(&found, "sync-bound").unwrap();
    assert_eq!(*saved, 645_000.0, "{found:?}");
}

/// Less than 5 % of 900 µs is no finding.
#[test]
fn a_short_collection_is_not_named() {
    let short = findings(&steps("range rooflens:gc generation 0 200us..244us", ""));
    assert!(finding(&short, "garbage-collection").is_none());
    let long = findings(&steps("range rooflens:gc generation 0 200us..245us", ""));
    assert!(finding(&long, "garbage-collection").is_some());
}

/// From one step to the next 100 µs are idle: from 910 to 1010, 50 of them in a loader.
#[test]
fn a_cause_between_iterations_is_one_of_the_loop() {
    let loader =
        "range rooflens:enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ 920us..970us";
    // Four steps of 900 µs and three times of 100 µs between them: 3900, of which 150 are 3.8 %.
    let found = findings(&steps("", loader));
    assert!(finding(&found, "data-loader").is_none());
    let loader = loader.replace("970us", "990us");
    let found = findings(&steps("", &loader));
    let (_, saved, statement) = finding(&found, "data-loader").unwrap();
    assert_eq!(*saved, 210_000.0);
    assert!(
        statement.contains("known.loop{share=5.38 %, run=3.90 ms}"),
        "{statement}"
    );
    assert!(
        statement.contains("windows=3, of=3, each=70.0 µs"),
        "{statement}"
    );
}

/// Five turns of a kernel, a copy of a count to the host, and a wait for it.
#[test]
fn a_loop_of_waits_comes_before_launches() {
    let mut turns = String::new();
    for turn in 1..6 {
        let start = 110 + turn * 100;
        turns += &format!(
            "launch {}us..{}us -> axpy {}us..{}us
             cudaMemcpyAsync {}us..{}us -> memcpy DtoH pinned 4B {}us..{}us
             cudaStreamSynchronize {}us..{}us\n",
            start,
            start + 2,
            start + 3,
            start + 4,
            start + 5,
            start + 6,
            start + 7,
            start + 8,
            start + 6,
            start + 9,
        );
    }
    let found = findings(&steps(&turns, ""));
    assert!(finding(&found, "sync-bound").is_some(), "{found:?}");
    let launches = finding(&found, "launch-bound").map_or(0.0, |finding| finding.1);
    let waits = finding(&found, "sync-bound").unwrap().1;
    assert!(waits > launches, "{found:?}");
}

/// What the finding of a rule says to do.
pub(super) fn action(session: &Session, id: &str) -> String {
    with_results(session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let findings = judge(&evidence).0.findings;
        let mut of_rule = findings.iter().filter(|finding| finding.id == id);
        let root = of_rule.next().and_then(|finding| finding.root.as_ref());
        root.expect("a known cause").action.clone()
    })
}

/// A tensor of 8 kB is read once in each step, or three times in the same line, each after a kernel or without one.
#[test]
fn a_loop_that_reads_tensors_is_batched_if_it_computes_them() {
    let read = |start: i64, computes: bool| {
        let us = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        let launch = format!("launch {} -> axpy {}", us(5, 7), us(8, 9));
        format!(
            "range rooflens:tolist at a.py:7 {}
             {}
             cudaMemcpyAsync {} -> memcpy DtoH pinned 8000B {}
             cudaStreamSynchronize {}\n",
            us(0, 30),
            if computes { launch.as_str() } else { "" },
            us(10, 12),
            us(13, 14),
            us(12, 16),
        )
    };
    let of = |starts: &[i64], computes: bool| {
        let reads: String = starts.iter().map(|start| read(*start, computes)).collect();
        action(&steps(&reads, ""), "sync-bound")
    };
    let (once, often) = (of(&[200], true), of(&[200, 400, 600], true));
    let moved = of(&[200, 400, 600], false);
    assert!(moved.starts_with("sync_bound.root_action_data"), "{moved}");
    assert!(once.starts_with("sync_bound.root_action_data"), "{once}");
    assert!(often.starts_with("sync_bound.root_action_batch"), "{often}");
}

/// Four turns in each step, each of a marked read and of one within an operator, which has no mark and after which the host
/// works longer: 900 - 2 * 100 - 4 * 5 = 680 µs are idle.
#[test]
fn a_loop_of_reads_without_a_common_name_is_about_its_launches() {
    let mut turns = String::new();
    for start in [200, 350, 500, 650] {
        let us = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        turns += &format!(
            "range rooflens:item at a.py:7 {}
             launch {} -> axpy {}
             cudaMemcpyAsync {} -> memcpy DtoH pinned 4B {}
             cudaStreamSynchronize {}
             launch {} -> axpy {}
             cudaMemcpyAsync {} -> memcpy DtoH pinned 4B {}
             cudaStreamSynchronize {}\n",
            us(0, 16),
            us(5, 7),
            us(8, 9),
            us(8, 10),
            us(11, 13),
            us(10, 15),
            us(30, 32),
            us(35, 36),
            us(33, 34),
            us(37, 38),
            us(34, 40),
        );
    }
    let session = steps(&turns, "");
    let action = action(&session, "sync-bound");
    assert!(
        action.starts_with("sync_bound.root_action_launches"),
        "{action}"
    );
    assert!(action.contains("item at a.py:7"), "{action}");
    // With all 20 µs of its operations, a turn would take nothing.
    let (_, saved, _) = finding(&findings(&session), "sync-bound").unwrap().clone();
    assert!((680_000.0..=700_000.0).contains(&saved), "{saved}");
}

/// Three masks as indices in each step, with kernels and copies of 1 µs: 900 - 2 * 100 - 3 * 2 = 694 µs are idle.
#[test]
fn a_mask_as_index_takes_the_launches_of_its_layer() {
    let mut masks = String::new();
    for start in [200, 400, 600] {
        let us = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        masks += &format!(
            "operator aten::index {}
             operator aten::nonzero {}
             launch {} -> axpy {}
             cudaMemcpyAsync {} -> memcpy DtoH pinned 4B {}
             cudaStreamSynchronize {}\n",
            us(0, 30),
            us(2, 25),
            us(5, 7),
            us(8, 9),
            us(10, 12),
            us(13, 14),
            us(12, 16),
        );
    }
    let found = findings(&steps(&masks, ""));
    let (_, saved, statement) = finding(&found, "sync-bound").unwrap();
    assert_eq!(*saved, 694_000.0, "{found:?}");
    assert!(statement.contains("aten::index"), "{statement}");
    assert!(finding(&found, "launch-bound").is_none(), "{found:?}");
}

/// Graphs that are captured in each iteration, and the cache that PyTorch empties before.
#[test]
fn what_a_capture_needs_belongs_to_it() {
    let marks = "range rooflens:empty_cache 200us..300us
        range rooflens:cuda graph capture 300us..700us";
    let found = findings(&steps(marks, ""));
    assert!(finding(&found, "graph-capture").is_some(), "{found:?}");
    assert!(finding(&found, "empty-cache").is_none());
    let found = findings(&steps("range rooflens:empty_cache 200us..300us", ""));
    assert!(finding(&found, "empty-cache").is_some(), "{found:?}");
}

/// The host sleeps in a range of its own, with 20 µs of code around.
#[test]
fn a_range_around_a_sleep_belongs_to_it() {
    let sleep = "range poll 200us..720us
        os clock_nanosleep 210us..710us";
    let found = findings(&steps(sleep, ""));
    let (_, _, statement) = finding(&found, "os-waits").unwrap();
    assert!(statement.contains("each=520 µs"), "{statement}");
    assert!(statement.contains("names=clock_nanosleep"), "{statement}");
}

/// In each step a library is loaded for 1200 of 1900 µs in which the GPU is idle.
#[test]
fn code_that_each_iteration_loads_is_one_of_its_shapes() {
    // Steps of 3000 µs, so that a step prepares for more than a millisecond.
    let mut text = String::new();
    for step in 0..4 {
        let at = |time: i64| step * 3000 + time;
        text += &format!(
            "range step {}us..{}us
             launch {}us..{}us -> axpy {}us..{}us
             cuLibraryLoadData {}us..{}us
             launch {}us..{}us -> axpy {}us..{}us\n",
            at(0),
            at(2900),
            at(0),
            at(5),
            at(10),
            at(110),
            at(200),
            at(1400),
            at(2000),
            at(2005),
            at(2010),
            at(2110),
        );
    }
    let found = findings(&trace(&text));
    let (_, saved, _) = finding(&found, "new-shapes").unwrap();
    // Idle from 110 to 2010: 1895 until the launch returns, and 5 until its kernel starts.
    assert_eq!(*saved, 1_900_000.0);
    assert!(finding(&found, "first-use").is_none() && finding(&found, "host-bound").is_none());
}

/// In each step a convolution runs two kernels for 100 and 200 µs, waits for each, and then runs the first one again.
#[test]
fn kernels_that_are_timed_to_choose_from_go_with_the_plan() {
    let mut text = String::new();
    for step in 0..4 {
        let time = |from: i64, to: i64| format!("{}us..{}us", step * 5000 + from, step * 5000 + to);
        text += &format!("range step {}\n", time(0, 4500));
        text += &format!("launch {} -> gemm {}\n", time(0, 5), time(10, 110));
        text += &format!("operator aten::cudnn_convolution {}\n", time(110, 3000));
        for (call, end, kernel) in [(300, 410, "conv_a"), (1300, 1510, "conv_b")] {
            let (launch, runs) = (time(call, call + 5), time(call + 10, end));
            text += &format!("launch {launch} -> {kernel} {runs}\n");
            text += &format!("cudaEventSynchronize {}\n", time(call + 6, end + 5));
        }
        text += &format!(
            "launch {} -> conv_a {}\n",
            time(2900, 2905),
            time(2910, 3010)
        );
    }
    let found = findings(&trace(&text));
    // Of 3000 µs from 10 to 3010 the GEMM and the last kernel stay.
    let (_, saved, _) = finding(&found, "new-shapes").unwrap();
    assert_eq!(saved.round(), 2_800_000.0);
    // Without waits for events cuDNN times nothing, and its benchmark is off.
    let untimed = text.replace("cudaEventSynchronize", "cudaStreamSynchronize");
    let advice = action(&trace(&untimed), "new-shapes");
    assert!(advice.contains("root_action_shapes"), "{advice}");
}

/// In each step attention of cuDNN is loaded for 2000 µs, and then a GEMM for 1000 µs, with code around both.
#[test]
fn plans_of_attention_and_code_of_other_kernels_are_told_apart() {
    let attention =
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_kernel0_0";
    let mut text = String::new();
    for step in 0..4 {
        let time = |from: i64, to: i64| format!("{}us..{}us", step * 5000 + from, step * 5000 + to);
        text += &format!("range step {}\n", time(0, 4500));
        text += &format!("launch {} -> gemm {}\n", time(0, 5), time(10, 110));
        text += &format!("cuLibraryLoadData {}\n", time(200, 2200));
        // Memory is cleared before.
        let (call, clears) = (time(2990, 2995), time(3000, 3002));
        text += &format!("cudaMemsetAsync {call} -> memset 512B {clears}\n");
        text += &format!(
            "launch {} -> {attention} {}\n",
            time(3000, 3005),
            time(3010, 3110)
        );
        text += &format!("cuModuleLoadData {}\n", time(3300, 4300));
        text += &format!("launch {} -> gemm {}\n", time(4400, 4405), time(4410, 4510));
    }
    let found = findings(&trace(&text));
    let saved = |id: &str| finding(&found, id).unwrap().1.round();
    // Idle from 110 until memory is cleared for attention at 2990.
    assert_eq!(saved("new-shapes"), 2_880_000.0);
    // Idle from 3110 until the launch of the GEMM returns at 4405: loading is most of it.
    assert_eq!(saved("first-use"), 1_295_000.0);
    assert!(finding(&found, "host-bound").is_none());
}

/// Steps of 100 µs, between which the host makes no call for 85 µs: that is no code of its own.
#[test]
fn between_stages_that_are_only_launched_nothing_is_prepared_ahead() {
    let mut text = String::new();
    for start in (0..500).step_by(100) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range step {}\n", time(0, 30));
        text += &format!("launch {} -> axpy {}\n", time(0, 5), time(10, 30));
    }
    with_results(&trace(&text), |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let mut findings = judge(&evidence).0.findings.into_iter();
        let between = findings
            .find(|finding| finding.id == "between-stages")
            .unwrap();
        let root = between.root.unwrap();
        assert_eq!(root.action, "between_stages.root_action_launching");
        assert!(words(&between.advice.unwrap()).contains("advice_launching"));
    });
}

/// The kernel that PyTorch counts elements with says what the host waits for.
#[test]
fn a_wait_for_a_number_of_elements_is_named_by_its_kernel() {
    let wait = |kernel: &str| {
        format!(
            "launch 120us..122us -> {kernel} 125us..130us
             cudaMemcpyAsync 130us..132us -> memcpy DtoH pinned 4B 133us..134us
             cudaStreamSynchronize 132us..200us"
        )
    };
    let statement = |kernel: &str| {
        let found = findings(&steps(&wait(kernel), ""));
        finding(&found, "sync-bound").unwrap().2.clone()
    };
    let counts = statement("DeviceReduceSingleTileKernel<NonZeroOp<bool>>");
    assert!(counts.contains("sites=nonzero"), "{counts}");
    assert!(!statement("axpy").contains("sites="));
}

/// Iterations of 1000 µs: after work of the GPU until `until`, four reads of numbers of elements while the host launches
/// short kernels, and 205 µs without an operation.
fn reads_after_work(until: i64) -> Session {
    let mut text = String::new();
    for start in (0..6000).step_by(1000) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range detect {}\n", time(0, 100));
        text += &format!("launch {} -> gemm {}\n", time(10, 15), time(20, until));
        text += &format!("range pick {}\n", time(100, 900));
        for number in 0..4 {
            let call = 290 + 100 * number;
            let begin = call + 20;
            let (launch, count) = (time(call, call + 5), time(begin, begin + 5));
            let kernel = "DeviceReduceSingleTileKernel<NonZeroOp<bool>>";
            text += &format!("launch {launch} -> {kernel} {count}\n");
            let (call, copy) = (time(call + 6, call + 8), time(begin + 6, begin + 8));
            text += &format!("cudaMemcpyAsync {call} -> memcpy DtoH pinned 4B {copy}\n");
            let wait = time(299 + 100 * number, begin + 10);
            text += &format!("cudaStreamSynchronize {wait}\n");
        }
        text += &format!("launch {} -> axpy {}\n", time(800, 805), time(810, 815));
    }
    trace(&text)
}

#[test]
fn idle_time_is_that_of_waits_if_the_host_was_ahead_before_them() {
    let between = |until: i64| {
        let found = findings(&reads_after_work(until));
        assert!(finding(&found, "sync-bound").is_some());
        let of_rule = found.into_iter().filter(|(id, ..)| *id == "between-stages");
        of_rule.map(|(_, saved, _)| saved).collect::<Vec<f64>>()
    };
    // The GPU works until 300 µs, and the host is ahead by 200 µs: of 205 µs after the last kernel, 5 remain.
    assert!(between(300).is_empty());
    // It works until 90 µs, and the host waits four times for 21 µs: of five times 205 µs, 121 remain each, for the largest
    // part of which the host is in no stage. Six times the GPU is idle from 90 to 310 µs, while the host is in the next one.
    assert_eq!(between(90), [6.0 * 220e3, 5.0 * 121e3]);
}

/// The host is in the next step for 70 of 90 µs, in which it does not launch.
#[test]
fn idle_time_in_the_range_of_the_next_stage_is_that_of_the_stage() {
    let mut text = String::new();
    for start in (0..500).step_by(100) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range step {}\n", time(0, 75));
        text += &format!("launch {} -> axpy {}\n", time(60, 65), time(70, 80));
    }
    with_results(&trace(&text), |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let mut findings = judge(&evidence).0.findings.into_iter();
        let is_between = |finding: &Finding| finding.id == "between-stages";
        let between = findings.find(is_between).unwrap();
        assert_eq!(between.scope.stage.as_deref(), Some("step"));
        let statement = words(&between.statement);
        assert!(statement.contains("inside=77.8 %"), "{statement}");
        assert!(!statement.contains("place="), "{statement}");
    });
}

/// Steps of 5000 µs, in which the host launches the second kernel after `until` µs; in another pass it has allocated memory
/// for a convolution for most of that time.
fn prepared(until: [i64; 4]) -> Session {
    let mut text = String::new();
    for (step, until) in (0..).zip(until) {
        let time = |from: i64, to: i64| format!("{}us..{}us", step * 5000 + from, step * 5000 + to);
        text += &format!("range step {}\n", time(0, 4500));
        text += &format!("launch {} -> gemm {}\n", time(0, 5), time(10, 110));
        let (launch, kernel) = (time(until, until + 5), time(until + 10, until + 110));
        text += &format!("launch {launch} -> gemm {kernel}\n");
    }
    text += "pass torch operators
        range step 0us..4500us
        launch 0us..5us -> gemm 10us..110us
        operator aten::cudnn_convolution 110us..4100us
        cudaMalloc 200us..3900us
        launch 4000us..4005us -> gemm 4010us..4110us";
    trace(&text)
}

#[test]
fn what_one_iteration_of_another_pass_prepares_each_iteration_must_have_time_for() {
    let found = |until| findings(&prepared(until));
    let each = found([4000; 4]);
    assert!(finding(&each, "new-shapes").is_some());
    let first = found([4000, 300, 300, 300]);
    assert!(finding(&first, "new-shapes").is_none());
}

/// Iterations of these times, 20 µs apart, half of that in the range of the next one.
fn loop_of(iterations: &[i64], repeats: &[i64]) -> Session {
    let (mut text, mut start) = (String::new(), 0);
    for iteration in iterations {
        let end = iteration + 10;
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range step {}\n", time(0, 100));
        text += &format!("launch {} -> axpy {}\n", time(0, 5), time(10, 20));
        text += &format!("launch {} -> axpy {}\n", time(20, 25), time(end - 10, end));
        start += end + 10;
    }
    let mut session = trace(&text);
    let repeats: Vec<i64> = repeats.iter().map(|time| time * 1000).collect();
    add_repeats(&mut session, ("step", "baseline"), None, &repeats);
    session
}

#[test]
fn the_loop_holds_no_more_stalls_than_as_many_repeats() {
    let of_loop = |iterations: &[i64], repeats: &[i64]| {
        with_results(&loop_of(iterations, repeats), |context| {
            let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
            (evidence.loop_time().0 / 1e3).round()
        })
    };
    let stall = [100, 100, 300, 100, 100];
    // 700 µs of iterations, and four times 20 µs between them, of which a repeat holds 10 µs.
    assert_eq!(of_loop(&stall, &[100; 4]), 740.0);
    assert_eq!(of_loop(&stall, &[100; 5]), 540.0);
    // A repeat takes 20 µs more on average.
    assert_eq!(of_loop(&stall, &[100, 100, 200, 100, 100]), 640.0);
    // Of 506 µs of iterations 198 are a cold start; a repeat holds 10 of each 20 µs between them.
    assert_eq!(of_loop(&[302, 100, 104], &[104; 2]), 328.0);
}

/// Requests of 1000 µs: 8 KiB go to the host, which works on them for 750 µs before it copies the next input to the GPU.
#[test]
fn code_between_stages_that_works_on_what_a_read_brought_is_named_by_it() {
    let mut text = String::new();
    for start in (0..6000).step_by(1000) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range encode {}\n", time(0, 30));
        text += &format!(
            "cudaMemcpyAsync {} -> memcpy HtoD pinned 8192B {}\n",
            time(5, 10),
            time(15, 20)
        );
        text += &format!("launch {} -> gemm {}\n", time(12, 16), time(20, 120));
        text += &format!("range rank {}\n", time(40, 250));
        text += &format!("launch {} -> axpy {}\n", time(45, 50), time(120, 220));
        text += &format!("range rooflens:cpu at serve.py:9 {}\n", time(60, 240));
        text += &format!(
            "cudaMemcpyAsync {} -> memcpy DtoH pageable 8192B {}\n",
            time(65, 70),
            time(220, 225)
        );
        text += &format!("cudaStreamSynchronize {}\n", time(70, 230));
    }
    with_results(&trace(&text), |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let mut findings = judge(&evidence).0.findings.into_iter();
        let between = findings
            .find(|finding| finding.id == "between-stages")
            .unwrap();
        // Idle from 225 to 1015 µs, five times.
        assert_eq!(between.gain.unwrap().saved_ns, Time(5.0 * 790e3));
        let root = between.root.unwrap();
        assert_eq!(
            root.cause,
            "between_stages.root_cause_data{name=cpu at serve.py:9}"
        );
    });
}

/// Twelve iterations with a kernel of 500 µs, each with a call of the model with these sizes.
fn generation(sizes: impl Fn(i64) -> String) -> Session {
    let mut text = String::new();
    for step in 0..12 {
        let start = 1000 * step;
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range decode {}\n", time(0, 600));
        text += &format!("range rooflens:call {} {}\n", sizes(step), time(0, 20));
        text += &format!("launch {} -> gemm {}\n", time(1, 5), time(10, 510));
    }
    trace(&text)
}

#[test]
fn a_sequence_that_grows_by_a_token_per_call_is_computed_again() {
    let saved = |sizes: fn(i64) -> String| {
        let found = findings(&generation(sizes));
        finding(&found, "no-kv-cache").map(|(_, saved, _)| *saved)
    };
    // Twelve calls have a token more each, 101 to 112: of 1278 tokens, twelve are new. 500 µs · 1266/1278.
    let grows = |step| format!("prefill batch=8 tokens={0} keys={0}", 101 + step);
    assert!((saved(grows).unwrap() - 495_305.0).abs() < 1.0);
    // With a cache, a call has one token and reads keys of all; lengths of unrelated batches differ by any number.
    assert_eq!(
        saved(|step| format!("decode batch=8 tokens=1 keys={}", 101 + step)),
        None
    );
    assert_eq!(
        saved(|step| format!("prefill batch=8 tokens={0} keys={0}", 101 + 2 * step)),
        None
    );
}

/// What to do about six iterations that launch these numbers of kernels, with a batch of eight samples.
fn launched(kernel: &str, counts: [usize; 6]) -> String {
    let mut text = String::new();
    for (step, count) in (0..).zip(counts) {
        let start = 1000 * step;
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range augment {}\n", time(0, 500));
        for number in 0..count as i64 {
            let call = 5 * number;
            let (launch, work) = (time(call, call + 5), time(call + 5, call + 6));
            text += &format!("launch {launch} -> {kernel} {work}\n");
        }
    }
    let mut session = trace(&text);
    session.workload.batch = Some(8);
    with_results(&session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let mut findings = judge(&evidence).0.findings.into_iter();
        let launching = findings.find(|finding| finding.id == "launch-bound");
        let root = launching.and_then(|finding| finding.root);
        root.map_or_else(String::new, |root| root.action)
    })
}

#[test]
fn no_graph_is_advised_for_a_loop_of_samples_or_a_varying_number_of_launches() {
    let samples = "launch_bound.root_action_samples{samples=8}";
    assert_eq!(launched("axpy", [16; 6]), samples);
    // A GEMM may be that of a layer, and twelve launches are no multiple of eight.
    assert!(!launched("gemm", [16; 6]).contains("samples"));
    assert!(!launched("axpy", [12; 6]).contains("samples"));
    // Three of six iterations launch as many kernels as each other, and no more than half may.
    let varying = "launch_bound.root_action_varying";
    assert!(launched("axpy", [12, 13, 14, 15, 17, 18]).starts_with(varying));
    assert!(!launched("axpy", [12, 12, 12, 12, 13, 14]).starts_with(varying));
}

/// Micro-batches of six training steps with so many calls of the model, of a batch of two each, and for each call a kernel of
/// backward on another thread, after all calls or after this one.
fn accumulated(calls: usize, is_between: bool) -> String {
    let mut text = String::new();
    for step in 0..6 {
        let start = 2000 * step;
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range train_step {}\n", time(0, 1500));
        for call in 0..calls as i64 {
            let begin = 200 * call;
            let sizes = "train batch=2 tokens=64 keys=64";
            text += &format!("range rooflens:call {sizes} {}\n", time(begin, begin + 100));
            for number in 0..20 {
                let launch = begin + 5 * number;
                let (launch, work) = (time(launch, launch + 5), time(launch + 5, launch + 6));
                text += &format!("launch {launch} -> gemm {work}\n");
            }
        }
        for call in 0..calls as i64 {
            let backward = if is_between {
                200 * call + 150
            } else {
                1300 + 10 * call
            };
            let launch = time(backward, backward + 5);
            let work = time(backward + 5, backward + 6);
            text += &format!("thread 2\nlaunch {launch} -> gemm {work}\nthread 1\n");
        }
    }
    let session = trace(&text);
    with_results(&session, |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let step = evidence.stages.first().unwrap();
        let calls = crate::launching::micro_batches(&evidence, step);
        calls.map_or_else(String::new, |[calls, batch]| {
            format!("{} × {}", calls.0, batch.0)
        })
    })
}

#[test]
fn a_step_that_accumulates_gradients_has_calls_with_backward_between() {
    assert_eq!(accumulated(4, true), "4 × 2");
    assert_eq!(accumulated(1, true), "");
    // As of two towers.
    assert_eq!(accumulated(4, false), "");
}

#[test]
fn a_wait_without_a_mark_is_within_an_operator_where_others_have_marks() {
    let action = |mark: &str| {
        let wait = "cudaStreamSynchronize 120us..200us";
        let session = steps(wait, mark);
        with_results(&session, |context| {
            let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
            let mut findings = judge(&evidence).0.findings.into_iter();
            let waits = findings.find(|finding| finding.id == "sync-bound").unwrap();
            waits.root.map_or_else(String::new, |root| root.action)
        })
    };
    assert_eq!(action(""), "");
    let marked = action("range rooflens:cuda.synchronize at train.py:9 960us..961us");
    assert_eq!(marked, "sync_bound.root_action_operators");
}
