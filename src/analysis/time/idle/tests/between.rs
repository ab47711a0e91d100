//! Idle time between stages, by hand.

#![allow(clippy::unwrap_used)]

use super::*;

/// Three steps with a loader between: the GPU works 100, waits 50 (20 of it before `load` begins), works 100.
#[test]
fn what_lies_between_stages_is_told_with_the_range_of_the_host() {
    let mut made = Made::new();
    for step in 0..3 {
        let at = step * 150 * US;
        if step > 0 {
            // The host issues the next step after loading, 1 µs before the GPU starts.
            made.range("load", at - 30 * US, at - 2 * US);
        }
        made.range("step", at - 2 * US, at + 10 * US);
        made.call("cudaLaunchKernel", at - US, at + US, step);
        made.kernel("work", at, at + 100 * US, step);
    }
    made.stage("step");
    let (rows, metrics) = made.with(|context| {
        let found = run(context);
        let between = found.datasets.into_iter().find(|one| one.id == "between").unwrap();
        (between.rows, found.metrics)
    });
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(row[1..4], [Cell::Text("step".into()), Cell::Text("step".into()), Cell::Int(2)]);
    // Two times of 50 µs; the run is 3 × 100 + 2 × 50.
    assert_eq!(row[4..6], [Cell::Int(100 * US), Cell::Int(100 * US)]);
    assert_eq!(row[6], Cell::Float(0.25));
    assert_eq!(row[7..9], [Cell::Float(50_000.0), Cell::Int(50 * US)]);
    // The thread makes no call for 149 µs; `load` covers 28 of 50.
    assert_eq!(row[9], Cell::Text("host code".into()));
    assert_eq!(row[11..], [Cell::Name("load".into()), Cell::Float(0.56)]);
    let value = |id: &str| metrics.iter().find(|one| one.id == id).unwrap().value.number();
    assert_eq!(value("between_idle"), Some(100_000.0));
    assert_eq!(value("between_idle_share"), Some(0.25));
    assert_eq!(value("between_host"), Some(100_000.0));
}

/// Work of no stage is no idle time, and what lies next to an instance that does not count is left out.
#[test]
fn between_stages_only_idle_time_next_to_instances_that_count_is_counted() {
    let mut made = Made::new();
    for step in 0..4 {
        let at = step * 150 * US;
        made.range("step", at - 2 * US, at + 10 * US);
        made.call("cudaLaunchKernel", at - US, at + US, step);
        made.kernel("work", at, at + 100 * US, step);
    }
    made.call("cudaLaunchKernel", 260 * US, 261 * US, 9);
    made.kernel("outside", 270 * US, 280 * US, 9);
    made.session.workload.warmup = Some(1);
    made.stage("step");
    let found = made.with(run);
    let value = |id: &str| found.metrics.iter().find(|one| one.id == id).unwrap().value.number();
    // Steps 1 to 3 count: two times of 50 µs, 10 of the first with a kernel of no stage.
    assert_eq!(value("between_idle"), Some(90_000.0));
    assert_eq!(value("between_idle_share"), Some(90.0 / 400.0));
}
