//! Rules about idle time, copies, communication and launching.

use super::*;

#[test]
fn launch_bound_needs_launching_to_be_the_largest_cause() {
    let made = decode().with(ids::IDLE_LAUNCHING, 600.0).with(ids::BUSY_SHARE, 0.2);
    let found = made.one(&launch_bound::RULE);
    assert!(words(&found.statement).starts_with("decode is launch-bound: for 60.0 % of its time"));
    assert_eq!((saved(&found), found.weight_ns), (600.0, 6000.0));
    // The resulting stage time of a bound counts, where there is one: 1000 − 450.
    let bounded = decode().with(ids::IDLE_LAUNCHING, 600.0).with(ids::BOUND_LAUNCHING, 450.0);
    assert_eq!(saved(&bounded.one(&launch_bound::RULE)), 550.0);
    let busier = decode().with(ids::IDLE_LAUNCHING, 300.0).with(ids::BUSY_SHARE, 0.6);
    assert!(words(&busier.one(&launch_bound::RULE).statement).contains("waits for launches"));
    let other = decode().with(ids::IDLE_LAUNCHING, 300.0).with(ids::IDLE_SYNC, 301.0);
    assert_eq!(other.outcome(&launch_bound::RULE), Outcome::Clear);
    assert_eq!(
        decode().with(ids::IDLE_LAUNCHING, 99.0).outcome(&launch_bound::RULE),
        Outcome::Clear
    );
}

#[test]
fn a_bound_is_that_of_the_unprofiled_stage_where_its_time_is_known() {
    // Profiled 1000 ns, busy for 300 of them and launching for 600; un-profiled 4 steps of 175 ns = 700 ns.
    // Gaps are then 700 − 300 = 400 ns at most, and so is what launches can cost.
    let mut made = decode().steps(4.0).with(ids::IDLE_LAUNCHING, 600.0).rows(
        ids::REPEAT_STATISTICS,
        &["stage", "pass", "profiled", "median_ns", "median_per_step_ns"],
        &[&["decode", "torch", "yes", "9", "9"], &["decode", "baseline", "no", "7000", "175"]],
    );
    made.stages[0].busy = 300.0;
    let found = made.one(&launch_bound::RULE);
    assert_eq!(found.weight_ns, 4000.0);
    let gain = found.gain.unwrap();
    assert_eq!((gain.saved_ns, gain.of_ns, gain.of.as_str()), (400.0, 700.0, "decode un-profiled"));
    assert!(
        gain.basis.contains(": 600.0 ns of the 1.000 µs of the profiled stage"),
        "{}",
        gain.basis
    );
    // Work lasts as long without the profiler.
    made = made.with(ids::COPY_EXPOSED, 250.0);
    assert_eq!(saved(&made.one(&exposed_copies::RULE)), 250.0);
}

#[test]
fn causes_of_idle_time_have_a_rule_each() {
    // Rule, metrics of a stage of 1000 ns, nanoseconds saved; and the same metrics below the threshold.
    type Case =
        (&'static Rule, &'static [(&'static str, f64)], f64, &'static [(&'static str, f64)]);
    let cases: [Case; 6] = [
        (
            &host_bound::RULE,
            &[("idle_host_code", 80.0), ("idle_os", 20.0)],
            100.0,
            &[("idle_host_code", 49.0)],
        ),
        (&sync_bound::RULE, &[("idle_sync", 30.0)], 30.0, &[("idle_sync", 19.0)]),
        (&allocator_stalls::RULE, &[("idle_allocator", 10.0)], 10.0, &[("idle_allocator", 9.0)]),
        (
            &exposed_copies::RULE,
            &[("copy_exposed", 70.0), ("bound_copies", 940.0)],
            60.0,
            &[("copy_exposed", 49.0)],
        ),
        (&exposed_communication::RULE, &[("comm_exposed", 50.0)], 50.0, &[("comm_exposed", 49.0)]),
        // Half of the bytes are pageable, and copies take 200 ns: at most 100 ns.
        (
            &pageable_copies::RULE,
            &[("pageable_share", 0.5), ("copy_time", 200.0)],
            100.0,
            &[("pageable_share", 0.5), ("copy_time", 9.0)],
        ),
    ];
    for (rule, holds, expected, below) in cases {
        let with = |metrics: &[(&str, f64)]| {
            metrics.iter().fold(decode(), |made, (id, value)| made.with(id, *value))
        };
        let found = with(holds).one(rule);
        assert!((saved(&found) - expected).abs() < 1e-9, "{}", rule.id);
        assert!((found.weight_ns - 10.0 * expected).abs() < 1e-9, "{}", rule.id);
        assert!(found.advice.is_some(), "{}", rule.id);
        assert_eq!(with(below).outcome(rule), Outcome::Clear, "{}", rule.id);
    }
}

#[test]
fn the_data_loader_is_named_where_the_operating_system_holds_the_thread() {
    let system = decode().with(ids::IDLE_HOST_CODE, 30.0).with(ids::IDLE_OS, 170.0);
    let found = system.one(&host_bound::RULE);
    assert!(words(&found.statement).contains("85.0 % of that in the operating system"));
    assert!(words(&found.advice.unwrap()).contains("data loader"));
}

#[test]
fn waiting_for_a_rank_is_told_from_sending() {
    let waits = decode().with(ids::COMM_EXPOSED, 100.0).with(ids::COMM_WAIT, 60.0);
    let found = waits.one(&exposed_communication::RULE);
    assert!(words(&found.statement).contains("60.0 % of that it waits"));
    assert!(words(&found.advice.unwrap()).contains("equal work"));
    let sends = decode().with(ids::COMM_EXPOSED, 100.0).with(ids::COMM_WAIT, 40.0);
    assert!(words(&sends.one(&exposed_communication::RULE).advice.unwrap()).contains("buckets"));
}

#[test]
fn a_straggler_could_save_what_it_computes_beyond_the_fastest() {
    let rank = |rank: &str, compute: f64| {
        let text = |text: &str| Cell::Text(text.to_owned());
        vec![text("step"), text("nsys"), text(rank), Cell::Float(1000.0), Cell::Float(compute)]
    };
    let ranks = |imbalance: f64| {
        let mut made = Made::default();
        for rank in [0, 1] {
            made = made.stage("step", StageKind::TrainStep, 1000.0, 20_000.0);
            made.stages.last_mut().unwrap().scope.rank = Some(rank);
        }
        let columns = ["stage", "pass", "rank", "time_ns", "compute_ns"];
        let mut made = made.rows(ids::RANKS, &columns, &[]);
        made.datasets[0].rows = vec![rank("0", 600.0), rank("1", 900.0)];
        made.metric(ids::IMBALANCE, scope("nsys", "step"), imbalance)
    };
    // Ranks compute 600 and 900 ns: mean 750, 900 / 750 = 1.2; 300 ns beyond the fastest.
    let made = ranks(1.2);
    let found = made.one(&straggler::RULE);
    assert_eq!(found.title, "step, rank 1");
    assert!((saved(&found) - 300.0).abs() < 1e-9);
    assert_eq!(found.scope.rank, Some(1));
    assert_eq!(ranks(1.04).outcome(&straggler::RULE), Outcome::Clear);
    assert!(found.next.is_some());
    // Half of the slowdown by the clock makes it the reason, less does not.
    let clocks = |share: f64| {
        let mut made = ranks(1.2);
        let data = &mut made.datasets[0];
        let columns = ["slowdown", "sm_clock_hz", "by_clock", "clock_limit", "clock_limit_share"];
        let text = |name| crate::findings::Column::text(name, name);
        data.columns.extend(columns.map(text));
        let missing =
            [Cell::Missing, Cell::Float(1.98e9), Cell::Missing, Cell::Missing, Cell::Missing];
        data.rows[0].extend(missing);
        let limit = Cell::Name("sw_power_cap".to_owned());
        let slow =
            [Cell::Float(1.5), Cell::Float(1.5e9), Cell::Float(share), limit, Cell::Float(0.75)];
        data.rows[1].extend(slow);
        made.one(&straggler::RULE)
    };
    let said = words(&clocks(0.5).statement);
    assert!(said.contains("1.500 GHz") && said.contains("accounts for 50.0 %"), "{said}");
    assert!(said.contains("sw_power_cap was set in 75.0 %"), "{said}");
    assert!(words(&clocks(0.5).advice.unwrap()).contains("lowers the clock"));
    assert!(!words(&clocks(0.49).statement).contains("GHz"));
}

#[test]
fn pauses_that_the_median_instance_does_not_have_are_said() {
    let made = |total: &str| {
        let columns = ["stage", "pass", "cause", "total_ns", "median_ns", "longest_ns"];
        let gaps = ["stage", "pass", "cause", "ended_by"];
        decode()
            .with(ids::BUSY_SHARE, 0.5)
            .rows(ids::IDLE_SUMS, &columns, &[&["decode", "nsys", "host code", total, "50", "400"]])
            .rows(
                ids::LONGEST_GAPS,
                &gaps,
                &[
                    &["decode", "nsys", "host code", "sdpa"],
                    &["decode", "nsys", "launching", "gemm"],
                    &["decode", "nsys", "host code", "sdpa"],
                ],
            )
    };
    // Ten instances with 50 ns each are 500; 1600 − 500 = 1100 of a run of 20 000 are 5.5 %, 1400 − 500 are 4.5 %.
    let found = made("1600").one(&host_pauses::RULE);
    assert!((saved(&found) - 1100.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("Of the 2 longest of them 2 end with"));
    assert_eq!(made("1400").outcome(&host_pauses::RULE), Outcome::Clear);
}

#[test]
fn short_kernels_are_said_where_launching_is_not() {
    let made = |operations: f64, sum: f64| {
        decode().with(ids::OPERATIONS, operations).with(ids::OPERATION_TIME_SUM, sum)
    };
    let found = made(200.0, 800_000.0).one(&short_kernels::RULE);
    assert!(words(&found.statement).contains("last 4.000 µs on average, 200 operations"));
    for clear in
        [made(200.0, 2e6), made(50.0, 1e5), made(200.0, 8e5).with(ids::IDLE_LAUNCHING, 600.0)]
    {
        assert_eq!(clear.outcome(&short_kernels::RULE), Outcome::Clear);
    }
}

#[test]
fn gaps_charged_to_synchronizing_calls_go_before_the_cause() {
    let made = decode().with(ids::IDLE_SYNC, 30.0).with(ids::SYNC_IDLE, 200.0).rows(
        ids::SYNCHRONIZATION,
        &["call", "pass", "range", "operator", "in_stage_ns"],
        &[
            &["cudaEventSynchronize", "nsys", "a", "", "50"],
            &["cudaStreamSynchronize", "nsys", "decode", "aten::item", "150"],
            &["cudaDeviceSynchronize", "torch", "b", "", "900"],
        ],
    );
    let found = made.one(&sync_bound::RULE);
    assert_eq!(saved(&found), 200.0);
    let end = "; the costliest is cudaStreamSynchronize in aten::item.";
    assert!(words(&found.statement).ends_with(end), "{}", words(&found.statement));
}

#[test]
fn allocating_calls_that_take_only_the_host_are_a_note() {
    let made = |time: &str| {
        decode().with(ids::IDLE_ALLOCATOR, 1.0).with(ids::HOST_TIME, 400.0).rows(
            ids::ALLOCATOR_CALLS,
            &["call", "pass", "stage", "counted", "calls", "time_ns"],
            &[
                &["cudaMalloc", "nsys", "decode", "yes", "3", time],
                &["cudaMalloc", "nsys", "decode", "no", "9", "9999"],
            ],
        )
    };
    // Ten counted instances of 400 ns on the host.
    let found = made("100").one(&allocator_stalls::RULE);
    assert!(
        words(&found.statement)
            .contains("in 3 CUDA calls, which take 2.50 % of its time on the host")
    );
    assert_eq!((found.gain, found.severity), (None, Severity::Note));
    assert_eq!(made("30").outcome(&allocator_stalls::RULE), Outcome::Clear);
}

#[test]
fn the_verdict_on_a_stage_decides_the_word() {
    let made = |verdict: &str| {
        let columns = ["stage", "pass", "verdict"];
        let made = decode().with(ids::IDLE_LAUNCHING, 400.0).with(ids::BUSY_SHARE, 0.5);
        made.rows(ids::LAUNCH_FIGURES, &columns, &[&["decode", "nsys", verdict]])
    };
    let says = |verdict: &str| {
        words(&made(verdict).one(&launch_bound::RULE).statement).contains("is launch-bound")
    };
    assert!(says("launch-bound") && !says("GPU-bound"));
}
