//! Bounds of stages that are computed by hand.

use crate::analysis::time::idle::tests::Made;
use crate::findings::Findings;
use crate::model::MemoryKind;

fn bound(findings: &Findings, id: &str) -> Option<f64> {
    findings.metrics.iter().find(|metric| metric.id == id).expect("the metric").value.number()
}

/// 100: `gemm` [0, 40), launching until 60, `axpy` [60, 80), a copy [70, 100) of which 20 stand alone.
#[test]
fn what_is_thought_away_is_gone_from_the_stage_time() {
    let mut made = Made::new();
    made.range("prefill", 0, 70);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel("gemm", 0, 40, 1);
    made.call("cudaLaunchKernel", 50, 55, 2);
    made.kernel("axpy", 60, 80, 2);
    made.call("cudaMemcpyAsync", 56, 57, 3);
    made.copy(MemoryKind::Pinned, 70, 100, 3);
    let findings = made.findings();
    assert_eq!(bound(&findings, "bound_launching"), Some(80.0));
    assert_eq!(bound(&findings, "bound_host"), Some(80.0));
    assert_eq!(bound(&findings, "bound_copies"), Some(80.0));
    assert_eq!(bound(&findings, "bound_communication"), Some(100.0));
    assert_eq!(bound(&findings, "bound_top_kernel"), Some(60.0));
    let table = findings.datasets.iter().find(|one| one.id == "bounds").expect("the data set");
    // The kernel first, then three of 20 in their order; a gain of 0 is no row.
    let whats: Vec<String> = table.rows.iter().map(|row| row[2].plain()).collect();
    assert_eq!(whats[0], "top kernel free: gemm");
    assert_eq!(
        whats[1..],
        ["no launching gaps", "no gaps because of the host", "copies overlapped"]
    );
}

/// Three instances of 10, 20 and 100 with a gap of 0, 5 and 80: the one of 20 is the median.
#[test]
fn the_instance_of_median_time_decides() {
    let mut made = Made::new();
    for (number, (start, length, gap)) in
        [(0, 10, 0), (1000, 20, 5), (2000, 100, 80)].into_iter().enumerate()
    {
        made.range("prefill", start, start + length);
        let (first, second) = (2 * number as i64, 2 * number as i64 + 1);
        made.call("cudaLaunchKernel", start, start + 1, first);
        made.kernel("axpy", start, start + 5, first);
        made.call("cudaLaunchKernel", start + 1 + gap, start + 5 + gap, second);
        made.kernel("axpy", start + 5 + gap, start + length, second);
    }
    let findings = made.findings();
    assert_eq!(bound(&findings, "idle"), Some(5.0));
    assert_eq!(bound(&findings, "bound_launching"), Some(15.0));
}
