//! Rules about profiled kernels.

use super::*;
use crate::analysis::engine::classify::KernelIdentity;
use crate::analysis::kernels::matmul::roof::{Roof, Sum};
use crate::analysis::kernels::matmul::stages::{Group, StageProducts};

/// A profiled launch of `decode`: its number, share of the GPU time, ratio to the median, and what counters say.
struct Launch {
    number: &'static str,
    kernel: &'static str,
    share: &'static str,
    ratio: &'static str,
    class: &'static str,
    bound: &'static str,
    compute: &'static str,
    waves: &'static str,
    limiter: &'static str,
    occupancy: &'static str,
    l2_hits: &'static str,
    dram_bytes: &'static str,
}

const LAUNCH: Launch = Launch {
    number: "0",
    kernel: "k",
    share: "0.2",
    ratio: "1",
    class: "elementwise",
    bound: "latency-bound",
    compute: "5",
    waves: "1",
    limiter: "none",
    occupancy: "100",
    l2_hits: "60",
    dram_bytes: "10",
};

/// A stage of 1000 ns with 500 ns of GPU operations and these launches in the pass `ncu`, which stand for 70 %.
fn made(launches: &[Launch]) -> Made {
    covering(launches, 0.7)
}

fn covering(launches: &[Launch], share: f64) -> Made {
    let (mut alike, mut counters, mut depth) = (Vec::new(), Vec::new(), Vec::new());
    for one in launches {
        let block = "1x1x1";
        alike.push(vec![
            "ncu", one.number, one.kernel, "decode", block, block, one.share, one.ratio,
        ]);
        counters.push(vec![
            "ncu",
            one.number,
            one.class,
            one.bound,
            one.compute,
            one.l2_hits,
            one.dram_bytes,
        ]);
        depth.push(vec!["ncu", one.number, one.waves, one.limiter, one.occupancy]);
    }
    let rows = |rows: &[Vec<&'static str>], made: Made, id, columns: &[&'static str]| {
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        made.rows(id, columns, &rows)
    };
    let made = decode().with(ids::OPERATION_TIME_SUM, 500.0).with(ids::PROFILED_SHARE, share);
    let columns = ["pass", "launch", "kernel", "stage", "grid", "block", "time_share", "ratio"];
    let made = rows(&alike, made, ids::REPRESENTATIVENESS, &columns);
    let columns =
        ["pass", "launch", "class", "bound", "sol_compute_percent", "l2_hit_percent", "dram_bytes"];
    let made = rows(&counters, made, ids::PROFILED_KERNELS, &columns);
    let columns = ["pass", "launch", "waves", "limiter", "theoretical_occupancy_percent"];
    rows(&depth, made, ids::DEEP_DIVE, &columns)
}

#[test]
fn small_grids_could_share_the_gpu_with_other_blocks() {
    let small = |share, waves, compute| Launch { share, waves, compute, ..LAUNCH };
    // 20 % of 500 ns at a quarter of a wave.
    let found = made(&[small("0.2", "0.25", "5")]).one(&small_grids::RULE);
    assert!((saved(&found) - 75.0).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(text.starts_with("At least 20.0 % of the GPU time of decode"), "{text}");
    assert!(text.contains("the largest is k (20.0 %, 0.250 waves)."), "{text}");
    assert!(text.ends_with("stand for 70.0 % of that GPU time."), "{text}");
    // A unit in use for 40 % of its peak cannot give more than the other 60 %.
    let used = made(&[small("0.2", "0.25", "40")]).one(&small_grids::RULE);
    assert!((saved(&used) - 60.0).abs() < 1e-9);
    let memory = Launch { bound: "dram-bound", waves: "0.25", ..LAUNCH };
    for clear in [small("0.2", "0.5", "5"), small("0.09", "0.25", "5"), memory] {
        assert_eq!(made(&[clear]).outcome(&small_grids::RULE), Outcome::CLEAR);
    }
}

#[test]
fn launches_that_stand_for_the_same_time_count_once_and_the_nearest_speaks() {
    let far = Launch { waves: "0.4", ratio: "1.5", ..LAUNCH };
    let near = Launch { number: "1", waves: "0.2", ratio: "0.9", ..LAUNCH };
    let other = Launch { number: "2", waves: "0.1", share: "0.1", ..LAUNCH };
    // 20 % at 0.2 and 10 % at 0.1 waves, of 500 ns: 80 + 45.
    let found = made(&[far, near, other]).one(&small_grids::RULE);
    assert!(words(&found.statement).starts_with("At least 30.0 %"));
    assert!((saved(&found) - 125.0).abs() < 1e-9);
}

#[test]
fn a_last_wave_costs_its_empty_slots() {
    let tail = |waves, bound| Launch { waves, bound, ..LAUNCH };
    // 1 − 1.25 ÷ 2 = 37.5 % of 20 % of 500 ns.
    let found = made(&[tail("1.25", "compute-bound")]).one(&wave_tail::RULE);
    assert!((saved(&found) - 37.5).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(text.contains("cost up to 7.50 % of the GPU time of decode"), "{text}");
    // 1 − 9.5 ÷ 10 = 5 % of 20 % is 1 %; half a wave and less is a small grid; memory does not wait for slots.
    for clear in
        [tail("9.5", "balanced"), tail("0.49", "latency-bound"), tail("1.25", "dram-bound")]
    {
        assert_eq!(made(&[clear]).outcome(&wave_tail::RULE), Outcome::CLEAR);
    }
}

#[test]
fn low_occupancy_is_a_limit_of_registers_or_shared_memory() {
    let low = || Launch { limiter: "registers", occupancy: "25", compute: "40", ..LAUNCH };
    // 20 % of 500 ns × (1 − 0.4).
    let found = made(&[low()]).one(&low_occupancy::RULE);
    assert!((saved(&found) - 60.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("k: registers allow an occupancy of 25.0 %."));
    for clear in [
        Launch { occupancy: "51", ..low() },
        Launch { limiter: "warps", ..low() },
        Launch { class: "gemm", ..low() },
        Launch { share: "0.04", ..low() },
        Launch { waves: "0.3", ..low() },
        Launch { bound: "compute-bound", ..low() },
    ] {
        assert_eq!(made(&[clear]).outcome(&low_occupancy::RULE), Outcome::CLEAR);
    }
}

#[test]
fn attention_that_misses_the_cache_reads_more_than_it_must() {
    let attention = || Launch {
        class: "attention",
        bound: "dram-bound",
        l2_hits: "30",
        dram_bytes: "400",
        ..LAUNCH
    };
    // 10 launches of an instance must move 1000 bytes: 100 each, against 400.
    let sized = |launch| {
        let mut made = made(&[launch]).summary(|summary| summary.sum = 500.0);
        let identity = KernelIdentity { short: "k".to_owned(), ..KernelIdentity::default() };
        let kernel = made.kernel("k", identity);
        let mut sum = Sum::default();
        sum.add(100, 100, 0, Some(Roof { bytes: Some(100.0), ..Roof::default() }));
        let (summary, groups) =
            (made.last_summary(), vec![Group { kernel, sum, ..Group::default() }]);
        made.known.attention =
            Ok(vec![StageProducts { summary, groups, ..StageProducts::default() }]);
        made
    };
    let found = sized(attention()).one(&attention_cache::RULE);
    // 20 % of 500 ns × (1 − 100 ÷ 400).
    assert!((saved(&found) - 75.0).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(text.contains("30.0 % of its accesses hit the L2 cache"), "{text}");
    for clear in [
        Launch { l2_hits: "50", ..attention() },
        Launch { dram_bytes: "119", ..attention() },
        Launch { share: "0.04", ..attention() },
        Launch { bound: "latency-bound", ..attention() },
    ] {
        assert_eq!(sized(clear).outcome(&attention_cache::RULE), Outcome::CLEAR);
    }
    // Without sizes nothing can be said against the misses.
    assert_eq!(silent(made(&[attention()]).outcome(&attention_cache::RULE)).0, "abstained");
    // Nor of attention, if other kernels were profiled.
    let other = Launch { class: "gemm", ..attention() };
    assert_eq!(silent(made(&[other]).outcome(&attention_cache::RULE)).0, "abstained");
}

#[test]
fn of_ncus_rules_the_largest_estimate_is_told_and_patterns_have_a_rule_of_their_own() {
    let columns = ["rule", "pass", "launches", "saved_share", "remark"];
    let made = |occupancy: &str, pattern: &str| {
        let rows: [&[&str]; 4] = [
            &["AchievedOccupancy", "a", "3", occupancy, "Few warps run. See the guide."],
            &["CPIStall", "a", "2", "0.05", ""],
            &["UncoalescedGlobalAccess", "a", "1", pattern, "40 % of the sectors are in vain."],
            &["SOLBottleneck", "b", "1", "", ""],
        ];
        Made::default().rows(ids::DEEP_DIVE_RULES, &columns, &rows)
    };
    let found = made("0.1", "0.3").one(&profiled_rule_estimate::RULE);
    assert_eq!(
        words(&found.statement),
        "Of ncu's rules AchievedOccupancy estimates most: to save 10.0 % of the time profiled in pass a, with remarks on \
         3 launches. On the longest launch it says: “Few warps run.”"
    );
    assert_eq!(found.gain, None, "durations of replays bound no gain of the run");
    assert_eq!(made("0.099", "0.3").outcome(&profiled_rule_estimate::RULE), Outcome::CLEAR);
    let found = made("0.1", "0.02").one(&memory_access::RULE);
    assert!(words(&found.statement).contains("save up to 2.00 % of the time profiled in pass a"));
    assert_eq!(made("0.1", "0.019").outcome(&memory_access::RULE), Outcome::CLEAR);
}

#[test]
fn profiles_unlike_the_run_are_told_of_all_passes_at_once() {
    let made = |a: f64, b: f64| {
        decode()
            .metric(ids::REPRESENTATIVE_SHARE, scope("a", ""), a)
            .metric(ids::REPRESENTATIVE_SHARE, scope("b", ""), b)
            .rows(
                ids::REPRESENTATIVENESS,
                &["kernel", "pass", "stage", "ratio", "time_share", "verdict"],
                &[
                    &["k", "a", "decode", "1", "0.3", "representative"],
                    &["l", "a", "decode", "1.7", "0.2", "longer than the median"],
                    &["m", "a", "decode", "0.5", "0.1", "shorter than the median"],
                ],
            )
    };
    let found = made(0.3, 0.4).one(&unrepresentative_profile::RULE);
    assert_eq!(found.title, "a, b");
    let text = words(&found.statement);
    assert!(text.starts_with("30.0 % of the time profiled in pass a is in launches"), "{text}");
    assert!(text.contains("l stands for the most time (20.0 % of decode)"), "{text}");
    assert!(text.contains("took 1.70 times the median. 40.0 % of the time profiled in pass b"));
    assert_eq!(made(0.3, 0.5).one(&unrepresentative_profile::RULE).title, "a");
    assert_eq!(made(0.5, 0.5).outcome(&unrepresentative_profile::RULE), Outcome::CLEAR);
}

#[test]
fn a_stage_without_counters_comes_with_the_command_that_lists_its_kernels() {
    let made = |share: f64, run: f64| {
        Made::default()
            .stage("decode", StageKind::Decode, 1000.0, run)
            .with(ids::PROFILED_SHARE, share)
            .rows(
                ids::UNPROFILED_KERNELS,
                &["kernel", "stage", "share"],
                &[&["x", "prefill", "0.9"], &["k", "decode", "0.5"], &["l", "decode", "0.1"]],
            )
            .rows(
                ids::STAGE_KERNELS,
                &["pass", "stage", "total_ns"],
                &[
                    &["nsys", "decode", "50"],
                    &["nsys", "decode", "35"],
                    &["nsys", "decode", "10"],
                    &["nsys", "decode", "5"],
                ],
            )
    };
    let found = made(0.4, 20_000.0).one(&profile_coverage::RULE);
    let text = words(&found.statement);
    assert!(
        text.contains(
            "40.0 % of the GPU time of decode (the largest of the rest is k with 50.0 %)."
        )
    );
    // 50 + 35 of 100 ns are less than 90 %, with the third it is enough.
    let next = words(&found.next.unwrap());
    assert!(next.starts_with("rooflens kernels BUNDLE --top 3 --stage 'decode' --yaml"), "{next}");
    // Ten instances of 1000 ns in a run of 250 000 are 4 %.
    for clear in [made(0.5, 20_000.0), made(0.4, 250_000.0)] {
        assert_eq!(clear.outcome(&profile_coverage::RULE), Outcome::CLEAR);
    }
}

#[test]
fn a_stage_of_which_little_was_profiled_is_not_clear() {
    let large = || Launch { waves: "9.9", ..LAUNCH };
    assert_eq!(covering(&[large()], 0.25).outcome(&small_grids::RULE), Outcome::CLEAR);
    assert_eq!(silent(covering(&[large()], 0.24).outcome(&small_grids::RULE)).0, "abstained");
    // What holds holds.
    let small = Launch { waves: "0.25", ..LAUNCH };
    assert_eq!(covering(&[small], 0.2).found(&small_grids::RULE).len(), 1);
}

/// GPU time of `decode` by bound class, with a launch of 1 wave that is latency-bound, or of `waves`.
fn bounds(latency: &str, compute: &str, waves: &'static str) -> Made {
    let rest =
        (1.0 - latency.parse::<f64>().unwrap() - compute.parse::<f64>().unwrap()).to_string();
    let launch = Launch { waves, ..LAUNCH };
    let made = made(&[launch]).class(ids::BOUND_SHARE, "ncu", "", "latency-bound", 0.9);
    made.rows(
        ids::WORKLOAD_BOUNDS,
        &["stage", "bound", "share"],
        &[
            &["decode", "compute-bound", compute],
            &["decode", "latency-bound", latency],
            &["decode", "not profiled", &rest],
            &["prefill", "l2-bound", "1"],
        ],
    )
}

#[test]
fn the_bound_class_is_weighed_by_the_time_of_the_workload() {
    // 30 of the 40 % with counters are latency-bound.
    let found = bounds("0.3", "0.1", "1").one(&profiled_bound::RULE);
    assert_eq!(
        words(&found.statement),
        "Of the GPU time of decode 30.0 % is latency-bound, 10.0 % compute-bound; counters are of launches that stand for \
         40.0 % of it."
    );
    // 12 + 12 % of the stage are less than a quarter.
    assert_eq!(silent(bounds("0.12", "0.12", "1").outcome(&profiled_bound::RULE)).0, "abstained");
    // Small grids are latency-bound: said once.
    let small = bounds("0.3", "0.1", "0.25");
    assert!(matches!(small.outcome(&small_grids::RULE), Outcome::Found(_)));
    let (word, why) = silent(small.outcome(&profiled_bound::RULE));
    assert_eq!((word, &*why), ("not applicable", "decode: “Grids too small for the GPU” says it"));
}

#[test]
fn no_class_speaks_for_a_stage_that_has_three_alike() {
    let made = made(&[LAUNCH]).class(ids::BOUND_SHARE, "ncu", "", "latency-bound", 0.9).rows(
        ids::WORKLOAD_BOUNDS,
        &["stage", "bound", "share"],
        &[
            &["decode", "compute-bound", "0.3"],
            &["decode", "latency-bound", "0.3"],
            &["decode", "dram-bound", "0.3"],
        ],
    );
    assert_eq!(made.outcome(&profiled_bound::RULE), Outcome::CLEAR);
}

#[test]
fn launches_of_a_step_are_launches_of_its_stage() {
    // Rows name the innermost stage. Ten steps of 40 ns are 80 % of the 500 ns, and 25 % of that are 20 %.
    let inner = |label: &'static str| {
        let mut made = made(&[Launch { share: "0.25", waves: "0.25", ..LAUNCH }]);
        made = made.holds(StageKind::DecodeStep, "decode_step").steps(10.0);
        made.datasets[0].rows[0][3] = Cell::Text(label.to_owned());
        made.metric(ids::OPERATION_TIME_SUM, scope("nsys", "decode_step"), 40.0)
    };
    let text = words(&inner("decode_step").one(&small_grids::RULE).statement);
    assert!(text.starts_with("At least 20.0 % of the GPU time of decode"), "{text}");
    assert_eq!(silent(inner("prefill").outcome(&small_grids::RULE)).0, "abstained");
}
