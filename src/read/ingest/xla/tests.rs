#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{import_bytes, sniffs};
use rooflens_session::Ns;

const TRACE: &str = include_str!("../../../../tests/data/seeds/xla.json");

fn import_text(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
    import_bytes(&IMPORTER, "host.trace.json", text)
}

#[test]
fn streams_calls_and_steps_are_read() {
    assert!(sniffs(&IMPORTER, "x", TRACE));
    let (result, session, diagnostics) = import_text(TRACE);
    assert!(result.is_ok(), "{result:?}");
    let launches = &session.launches;
    assert_eq!(
        (launches.len(), launches.start[0], launches.end[0]),
        (1, Ns(10_125), Ns(12_625))
    );
    assert_eq!(
        (launches.stream[0], launches.correlation[0]),
        (14, Some(55))
    );
    assert_eq!(
        (launches.grid[0].x, launches.grid[0].y, launches.block[0].x),
        (4, 2, 128)
    );
    assert_eq!(
        (launches.registers[0], launches.shared_bytes[0]),
        (Some(32), Some(528))
    );
    assert_eq!(session.kernel_name(launches.kernel[0]), "gemm_fusion");
    let copies = &session.copies;
    assert_eq!(
        (copies.kind[0], copies.bytes[0]),
        (CopyKind::HostToDevice, 40)
    );
    assert_eq!(session.text(session.api_calls.name[0]), "cuLaunchKernel");
    let ranges = &session.ranges;
    assert_eq!(
        (ranges.len(), ranges.start[0], ranges.end[0]),
        (1, Ns(1000), Ns(21_000))
    );
    assert_eq!(session.text(ranges.name[0]), "train#step_num=3#");
    assert_eq!(session.gpus.ordinal, [1]);
    assert_eq!(
        diagnostics
            .iter()
            .map(|diagnostic| (diagnostic.code, diagnostic.count))
            .collect::<Vec<_>>(),
        [("xla/event", 1)]
    );
}

#[test]
fn a_trace_that_is_cut_off_or_without_gpus_is_refused() {
    let error = |text: &str| import_text(text).0.unwrap_err().to_string();
    assert!(error(&TRACE[..TRACE.len() / 2]).contains("EOF"));
    assert!(error(&TRACE.replace("/device:GPU:1", "/device:TPU:0")).contains("no GPU"));
    assert!(error("{\"traceEvents\": {}}").contains("list of events"));
    let full =
        Trace::read(TRACE.as_bytes(), size_of::<Row<'_>>() as u64).map_err(|error| error.kind);
    assert!(matches!(full, Err(IngestErrorKind::Budget)));
}
