//! Two ranks of a small session, by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::{Facts, Options};
use crate::findings::Inline;
use crate::hardware::Hardware;
use crate::model::{Collective, Dim3, Launch, LaunchId, Ns};

const US: Ns = 1000;

/// Two processes of one pass, each on a GPU of its own, that meet in an all-reduce every 100 µs. Rank 0 computes
/// for 40 µs and waits until rank 1, which computes for `slow` µs, has come; the message takes 5 µs, and rank 1
/// computes during the last 2 µs of it.
fn session(steps: i64, slow: Ns, kernels: [&str; 2]) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    for step in 0..steps {
        // A little irregular, as all steps are.
        let begin = (step * 100 + step % 3) * US;
        let done = begin + (slow + 5) * US;
        for (rank, compute) in [40, slow].into_iter().enumerate() {
            let arrived = begin + compute * US;
            launch(&mut session, pass, rank, kernels[rank], (begin, arrived));
            launch(
                &mut session,
                pass,
                rank,
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)",
                (arrived, done),
            );
        }
        launch(&mut session, pass, 1, "adam", (done - 2 * US, done + US));
    }
    session
}

fn launch(session: &mut Session, pass: PassId, rank: usize, name: &str, (start, end): (Ns, Ns)) {
    let kernel = session.kernel(name, "");
    let process = session.process(pass, rank as i64, rank as i64);
    let gpu = session.gpu(pass, rank as u32);
    session.launches.push(Launch {
        start,
        end,
        kernel,
        pass,
        gpu,
        process,
        stream: if name.starts_with("nccl") { 17 } else { 7 },
        correlation: None,
        grid: Dim3 { x: 8, y: 1, z: 1 },
        block: Dim3::default(),
        registers: None,
        shared_bytes: None,
        graph_node: None,
        graph: None,
    });
}

fn findings(session: &Session) -> Findings {
    let facts = Facts::new(session);
    let (hardware, options) = (Hardware::default(), Options::default());
    run(&Context { session, facts: &facts, hardware: &hardware, options: &options })
}

fn metric(findings: &Findings, id: &str, rank: Option<u32>) -> Option<f64> {
    let whole = |scope: &rooflens_schemas::Scope| scope.stage.is_none() && scope.rank == rank;
    findings.metrics.iter().find(|one| one.id == id && whole(&one.scope))?.value.number()
}

fn words(findings: &Findings) -> String {
    let text = |inline: &Inline| match inline {
        Inline::Text(text) | Inline::Code(text) | Inline::Strong(text) => text.clone(),
        Inline::Quantity(quantity) => quantity.to_string(),
    };
    let prose = |block: &Block| match block {
        Block::Prose(inlines) => inlines.iter().map(text).collect(),
        _ => String::new(),
    };
    findings.blocks.iter().map(prose).collect()
}

#[test]
fn ranks_wait_transfer_and_hide() {
    let found = findings(&session(12, 60, ["gemm_a", "gemm_b"]));
    let of = |id: &str| [0, 1].map(|rank| metric(&found, id, Some(rank)));
    // Per step 25 and 5 µs of all-reduce, of which a transfer of 5 µs; rank 1 hides 2 µs.
    assert_eq!(of("comm_time"), [Some(300e3), Some(60e3)]);
    assert_eq!(of("comm_exposed"), [Some(300e3), Some(36e3)]);
    assert_eq!(of("comm_overlap_share"), [Some(0.0), Some(0.4)]);
    assert_eq!(of("comm_wait"), [Some(240e3), Some(0.0)]);
    assert_eq!(of("comm_transfer"), [Some(60e3), Some(60e3)]);
    // Computing 40 and 63 µs: 63 ÷ 51.5.
    assert_eq!(metric(&found, "imbalance", None), Some(63.0 / 51.5));
    assert_eq!(metric(&found, "clock_residual", None), Some(0.0));
    // No sizes in an nsys export: no bandwidth, and not 0.
    assert_eq!(metric(&found, "bus_bandwidth", Some(0)), None);
}

#[test]
fn the_straggler_is_named_with_its_reason() {
    let more = words(&findings(&session(12, 60, ["gemm_a", "gemm_b"])));
    assert!(more.contains("Rank 1 is the straggler: it came last in 12 of 12"), "{more}");
    assert!(more.contains("it has more work"), "{more}");
    let slower = words(&findings(&session(12, 60, ["gemm", "gemm"])));
    assert!(slower.contains("kernels of the same name and grid take 50.0 % longer"), "{slower}");
    // Equal ranks have none.
    assert!(!words(&findings(&session(12, 40, ["gemm", "gemm"]))).contains("straggler"));
}

#[test]
fn sizes_of_the_trace_give_bandwidths_and_a_lone_rank_has_no_waits() {
    let mut session = session(1, 60, ["gemm", "gemm"]);
    // The second launch is rank 0's all-reduce: 25 µs.
    let [operation, dtype] = ["allreduce", "BFloat16"].map(|text| session.intern(text));
    session.collectives.push(Collective {
        launch: LaunchId(1),
        operation,
        dtype,
        bytes_in: Some(1_000_000),
        bytes_out: Some(1_000_000),
        group_size: Some(8),
        group: operation,
        ranks: dtype,
        sequence: Some(1),
    });
    let found = findings(&session);
    // 10⁶ B × 2 · 7 / 8 in 25 µs, because no other rank has that group.
    let bus = metric(&found, "bus_bandwidth", Some(0)).unwrap();
    assert!((bus / (1.75e6 / 25e3 * 1e9) - 1.0).abs() < 1e-12);
    assert_eq!(metric(&found, "comm_wait", Some(0)), None);
}
