#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::import_bytes;

const TRACE: &str = r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"args":{"name":"/device:GPU:1"},"name":"process_name","ph":"M","pid":1},
{"args":{"sort_index":1},"name":"process_sort_index","ph":"M","pid":1},
{"args":{"name":"Stream #14(Compute)"},"name":"thread_name","ph":"M","pid":1,"tid":3},
{"args":{"name":"XLA Ops"},"name":"thread_name","ph":"M","pid":1,"tid":9},
{"args":{"name":"/host:CPU"},"name":"process_name","ph":"M","pid":701},
{"args":{"correlation_id":"55","hlo_op":"dot.3","kernel_details":"regs:32 static_shared:16 dynamic_shared:512 grid:4,2,1 block:128,1,1 occ_pct:50"},"dur":2.5,"name":"gemm_fusion","ph":"X","pid":1,"tid":3,"ts":10.125},
{"args":{"kernel_details":"regs:32"},"dur":2.5,"name":"dot.3","ph":"X","pid":1,"tid":9,"ts":10.125},
{"args":{"correlation_id":"54","memcpy_details":"kind_src:pageable kind_dst:device size:40 dest:0 async:1"},"dur":1,"name":"MemcpyH2D","ph":"X","pid":1,"tid":3,"ts":2},
{"args":{"correlation_id":55},"dur":0.5,"name":"cuLaunchKernel","ph":"X","pid":701,"tid":7,"ts":8},
{"args":{"step_num":"3"},"dur":20,"name":"train","ph":"X","pid":701,"tid":7,"ts":1},
{"args":{"step_num":"4"},"dur":-1,"name":"train","ph":"X","pid":701,"tid":7,"ts":30},
{}]}"#;

fn import_text(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
    import_bytes(&IMPORTER, "host.trace.json", text)
}

#[test]
fn streams_calls_and_steps_are_read() {
    assert!(sniff(&Prefix { name: "x", bytes: TRACE.as_bytes(), complete: true }));
    let (result, session, diagnostics) = import_text(TRACE);
    assert!(result.is_ok(), "{result:?}");
    let launches = &session.launches;
    assert_eq!((launches.len(), launches.start[0], launches.end[0]), (1, 10_125, 12_625));
    assert_eq!((launches.stream[0], launches.correlation[0]), (14, Some(55)));
    assert_eq!((launches.grid[0].x, launches.grid[0].y, launches.block[0].x), (4, 2, 128));
    assert_eq!((launches.registers[0], launches.shared_bytes[0]), (Some(32), Some(528)));
    assert_eq!(session.kernel_name(launches.kernel[0]), "gemm_fusion");
    let copies = &session.copies;
    assert_eq!((copies.kind[0], copies.bytes[0]), (CopyKind::HostToDevice, 40));
    assert_eq!(session.text(session.api_calls.name[0]), "cuLaunchKernel");
    let ranges = &session.ranges;
    assert_eq!((ranges.len(), ranges.start[0], ranges.end[0]), (1, 1000, 21_000));
    assert_eq!(session.text(ranges.name[0]), "train#step_num=3#");
    assert_eq!(session.gpus.ordinal, [1]);
    assert_eq!(
        diagnostics.iter().map(|one| (one.code, one.count)).collect::<Vec<_>>(),
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
