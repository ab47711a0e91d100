//! Copies of a small session, by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{self, column, dataset, show};
use rooflens_document::Cell;
use rooflens_session::{
    Copy, CopyKind, Dim3, GpuId, Launch, MemoryKind, Ns, PassId, ProcessId, Session,
};

fn copy(session: &mut Session, times: (i64, i64), bytes: u64, kind: CopyKind, host: MemoryKind) {
    let device = MemoryKind::Device;
    let (source, destination) = match kind {
        CopyKind::HostToDevice => (host, device),
        CopyKind::DeviceToHost => (device, host),
        _ => (device, device),
    };
    session.copies.push(Copy {
        start: Ns(times.0),
        end: Ns(times.1),
        kind,
        bytes,
        source,
        destination,
        pass: PassId(0),
        gpu: GpuId(0),
        process: ProcessId(0),
        stream: 7,
        correlation: None,
        graph_node: None,
        graph: None,
    });
}

/// A kernel at [100, 200), a pageable copy at [150, 250), a pinned one at [240, 300), a memset, one back.
fn session() -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let gpu = session.gpu(pass, 0);
    let process = session.process(pass, 1, 1);
    let kernel = session.kernel("gemm", "");
    let (grid, block) = (Dim3::default(), Dim3::default());
    session.launches.push(Launch {
        start: Ns(100),
        end: Ns(200),
        kernel,
        pass,
        gpu,
        process,
        stream: 7,
        correlation: None,
        grid,
        block,
        registers: None,
        shared_bytes: None,
        graph_node: None,
        graph: None,
    });
    copy(
        &mut session,
        (150, 250),
        3 << 20,
        CopyKind::HostToDevice,
        MemoryKind::Pageable,
    );
    copy(
        &mut session,
        (240, 300),
        1 << 20,
        CopyKind::HostToDevice,
        MemoryKind::Pinned,
    );
    copy(
        &mut session,
        (300, 310),
        512,
        CopyKind::Memset,
        MemoryKind::Unknown,
    );
    copy(
        &mut session,
        (320, 330),
        1000,
        CopyKind::DeviceToHost,
        MemoryKind::Unknown,
    );
    session
}

/// The metric of the whole pass, of a direction or of all copies.
fn metric(findings: &SectionContent, id: &str, class: Option<&str>) -> Option<f64> {
    testing::metric(findings, id, |scope| {
        scope.stage.is_none() && scope.class.as_deref() == class
    })
}

#[test]
fn copies_have_a_rate_and_a_part_that_no_kernel_hides() {
    let found = show(&SECTION, &session());
    let copies = dataset(&found, "copies");
    // By time: 100, 60, 10, 10 ns. The kernel hides [150, 200) of the first.
    assert_eq!(
        column(copies, "exposed_ns"),
        [50, 60, 10, 10].map(Cell::Int)
    );
    assert_eq!(
        column(copies, "overlapped_ns"),
        [50, 0, 0, 0].map(Cell::Int)
    );
    // 3 145 728 B in 100 ns.
    assert_eq!(
        column(copies, "rate")[0],
        Cell::Float(3_145_728.0 / 100.0 * 1e9)
    );
    assert_eq!(column(copies, "large"), [1, 1, 0, 0].map(Cell::Int));
    assert_eq!(column(copies, "link_share")[0], Cell::Missing);
    // Memsets are no copies: 100 + 60 + 10 ns; [200, 300) and [320, 330) exposed, where two overlap once.
    assert_eq!(metric(&found, "copy_time", None), Some(170.0));
    assert_eq!(metric(&found, "copy_exposed", None), Some(110.0));
    assert_eq!(
        metric(&found, "copy_time", Some("memcpy HtoD")),
        Some(160.0)
    );
    // Three of the four MiB whose memory is known.
    assert_eq!(metric(&found, "pageable_share", None), Some(0.75));
}

#[test]
fn the_share_of_the_link_needs_the_link() {
    let mut session = session();
    session.add_fact("smi.xml", "gpu 0", "maximum PCIe generation", "3");
    session.add_fact("smi.xml", "gpu 0", "maximum PCIe width", "16x");
    let found = show(&SECTION, &session);
    let Cell::Float(share) = column(dataset(&found, "copies"), "link_share")[1] else {
        panic!()
    };
    // 1 048 576 B in 60 ns against 16 · 8 GT/s · 128 / 130 / 8 = 15.754 GB/s.
    assert!((share - 1_048_576.0 / 60.0 * 1e9 / 15.753_846e9).abs() < 1e-3 * share);
}

#[test]
fn groups_are_by_size_and_range_without_memsets() {
    let found = show(&SECTION, &session());
    let groups = dataset(&found, "copy_groups");
    assert_eq!(column(groups, "total_ns"), [100, 60, 10].map(Cell::Int));
    assert_eq!(
        column(groups, "range"),
        [Cell::Missing, Cell::Missing, Cell::Missing]
    );
}
