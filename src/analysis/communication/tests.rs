//! Two ranks of a small session, by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::{Facts, Options};
use crate::findings::Inline;
use crate::hardware::Hardware;
use crate::model::{Collective, DeviceSample, Dim3, Launch, LaunchId, Ns};

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
    run(&Context::new(session, &facts, &hardware, &options))
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

/// An NVML sample of each GPU every 10 µs: rank 0 at 1.98 GHz, rank 1 at 1.44 GHz under a power cap.
fn sample(session: &mut Session, until: Ns) {
    session.passes.utc_origin[0] = Some(1_000_000_000);
    let artifact = session.intern("nsys/nvml.csv");
    for at in (0..until).step_by(10_000) {
        for (device, mhz, reasons) in [(0, 1980, 0), (1, 1440, 4)] {
            session.device_samples.push(DeviceSample {
                utc: 1_000_000_000 + at,
                device,
                power_mw: None,
                sm_mhz: Some(mhz),
                memory_mhz: None,
                gpu_util: None,
                memory_util: None,
                temperature: None,
                memory_used: None,
                throttle_reasons: Some(reasons),
                artifact,
            });
        }
    }
}

#[test]
fn a_lower_clock_is_the_reason_of_slower_kernels_if_it_is_low_enough() {
    // 60 instead of 40 µs: 1.5 times as long; 1980 / 1440 = 1.375, three quarters of it.
    let mut slower = session(12, 60, ["gemm", "gemm"]);
    sample(&mut slower, 1000 * US);
    let text = words(&findings(&slower));
    assert!(text.contains("its SM clock is lower: 1.440 GHz"), "{text}");
    assert!(text.contains("1.980 GHz") && text.contains("accounts for 75.0 %"), "{text}");
    assert!(text.contains("sw_power_cap in 100"), "{text}");
    // 80 µs: twice as long, of which the clock accounts for 37.5 %.
    let mut slowest = session(12, 80, ["gemm", "gemm"]);
    sample(&mut slowest, 1000 * US);
    let text = words(&findings(&slowest));
    assert!(text.contains("look at its clock and memory") && !text.contains("GHz"), "{text}");
    // Other work says nothing of the clock.
    let mut more = session(12, 60, ["gemm_a", "gemm_b"]);
    sample(&mut more, 1000 * US);
    assert!(words(&findings(&more)).contains("it has more work"));
}

/// Rank 0 sends 1 MB to rank 1 three times. Rank 1 waits 30 µs for the first, which takes 10 µs; rank 0 waits in the
/// second for the 8 µs until rank 1 comes, and needs 17 µs; the third is done before rank 1 comes, and nobody waits.
#[test]
fn messages_tell_which_rank_waits_for_which() {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let times = [[(30, 40), (100, 125), (200, 210)], [(0, 40), (108, 125), (250, 258)]];
    for (rank, (operation, times)) in ["ncclSend", "ncclRecv"].into_iter().zip(times).enumerate() {
        for (start, end) in times {
            launch(&mut session, pass, rank, "ncclDevKernel_SendRecv(T)", (start * US, end * US));
            let [operation, group] = [operation, "0xab"].map(|text| session.intern(text));
            let bytes = Some(1_000_000);
            session.collectives.push(Collective {
                launch: LaunchId::at(session.launches.len() - 1),
                operation,
                dtype: Default::default(),
                bytes_in: bytes.filter(|_| rank == 0).or(Some(0)),
                bytes_out: bytes.filter(|_| rank == 1).or(Some(0)),
                group_size: None,
                group,
                ranks: Default::default(),
                sequence: None,
                rank: None,
                peer: Some(1 - rank as u32),
            });
        }
    }
    let found = findings(&session);
    let data = found.datasets.iter().find(|data| data.id == "messages").unwrap();
    let [row] = &data.rows[..] else { panic!("one kind of message") };
    let of =
        |id: &str| row[data.columns.iter().position(|column| column.id == id).unwrap()].clone();
    assert_eq!([of("from"), of("to")], ["0", "1"].map(|rank| Cell::Text(rank.to_owned())));
    assert_eq!(
        [of("sender_wait_ns"), of("receiver_wait_ns")],
        [Cell::Int(8 * US), Cell::Int(30 * US)]
    );
    // 10, 17 and 10 µs for 1 MB each.
    assert_eq!(
        [of("transfer_ns"), of("bandwidth")],
        [Cell::Float(10e3), Cell::Float(1e6 / 10e3 * 1e9)]
    );
    // 3 MB in 37 µs, on either side.
    let bus = [0, 1].map(|rank| metric(&found, "bus_bandwidth", Some(rank)).unwrap());
    assert_eq!(bus, [3e6 / 37e3 * 1e9; 2]);
    assert_eq!([0, 1].map(|rank| metric(&found, "comm_wait", Some(rank))), [Some(8e3), Some(30e3)]);
    let text = words(&found);
    assert!(text.contains("rank 1 waited for rank 0 30.0"), "{text}");
    assert!(
        text.contains("6 sends and receives on 2 ranks") && !text.contains("straggler"),
        "{text}"
    );
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
        rank: None,
        peer: None,
    });
    let found = findings(&session);
    // 10⁶ B × 2 · 7 / 8 in 25 µs, because no other rank has that group.
    let bus = metric(&found, "bus_bandwidth", Some(0)).unwrap();
    assert!((bus / (1.75e6 / 25e3 * 1e9) - 1.0).abs() < 1e-12);
    assert_eq!(metric(&found, "comm_wait", Some(0)), None);
}
