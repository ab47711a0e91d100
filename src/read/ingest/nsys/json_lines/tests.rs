#![allow(clippy::unwrap_used)]

use rooflens_diagnostic::{Diagnostics, Severity};
use rooflens_session::{ApiLevel, CopyKind, Dim3, MemoryKind, Ns, RangeKind, Session};

use crate::testing::import_bytes;
use crate::{IngestError, IngestErrorKind, Prefix};

/// Process 0x4d (77) and its thread 0x4e (78) in global ids.
const PROCESS: &str = "72057595329773568";
const THREAD: &str = "72057595329773646";

/// A step in which a kernel and a copy run, with the spelling of numbers that such exports have.
const STEP: &str = r#"{"data":["[Unknown]","gemm","void gemm<float>(int)","cudaLaunchKernel_v7000","poll","cudaStreamSynchronize_v3020"]}
{"Type":75,"NvtxEvent":{"Type":75,"Timestamp":"5","Text":"own","GlobalTid":"THREAD","DomainId":"3","NsTime":true}}
{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"90","Text":"step","GlobalTid":"THREAD","EndTimestamp":"900","DomainId":"0","NsTime":true}}
{"Type":60,"NvtxEvent":{"Type":60,"Timestamp":"-10","TextId":1,"GlobalTid":"THREAD","EndTimestamp":"950","DomainId":"3","NsTime":true}}
{"Type":48,"TraceProcessEvent":{"startNs":"100","endNs":"120","correlationId":7,"eventClass":0,"name":"3","returnValue32":0,"globalTid":"THREAD"}}
{"Type":85,"TraceProcessEvent":{"startNs":"130","endNs":"135","correlationId":0,"eventClass":27,"name":"4","globalTid":"THREAD"}}
{"Type":86,"TraceProcessEvent":{"startNs":"130","endNs":"135","correlationId":0,"eventClass":28,"name":"4","globalTid":"THREAD"}}
{"Type":79,"CudaEvent":{"startNs":"200","endNs":"260","correlationId":7,"deviceId":1,"contextId":"1","streamId":"13","eventClass":3,"globalPid":"PROCESS","greenContextId":"0","kernel":{"demangledName":"2","shortName":"1","gridX":4,"gridY":2,"gridZ":1,"blockX":128,"blockY":1,"blockZ":1,"staticSharedMemory":16,"dynamicSharedMemory":48,"registersPerThread":32}}}

{"Type":80,"CudaEvent":{"startNs":"300","endNs":"340","correlationId":8,"deviceId":1,"streamId":"43","eventClass":1,"globalPid":"PROCESS","memcpy":{"sizebytes":"58720256","copyKind":"2","srcKind":2,"dstKind":1,"copyCount":"1"}}}
{"Type":80,"CudaEvent":{"startNs":"350","endNs":"351","deviceId":1,"streamId":"43","eventClass":2,"globalPid":"PROCESS","memset":{"sizebytes":"64"}}}
{"Type":106,"CudaEvent":{"startNs":"345","endNs":"360","correlationId":9,"deviceId":0,"streamId":"4294967295","eventClass":5,"globalPid":"PROCESS","sync":{"eventId":4294967295,"syncType":"SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE"}}}
{"Type":127,"CudaEvent":{"startNs":"0","endNs":"0","correlationId":10,"deviceId":1,"streamId":"43","eventClass":6,"globalPid":"PROCESS","cudaEventRecord":{"eventId":8823}}}
{"Type":41,"SchedEvent":{"Cpu":1}}
{"Type":41,"SchedEvent":{"Cpu":2}}
"#;

fn import(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
    let text = text.replace("THREAD", THREAD).replace("PROCESS", PROCESS);
    import_bytes(&super::super::IMPORTER, "nsys/timeline.jsonl", text)
}

fn told(diagnostics: &Diagnostics) -> Vec<(&'static str, Severity, u64)> {
    diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, diagnostic.severity, diagnostic.count))
        .collect()
}

#[test]
fn events_become_the_rows_of_the_sqlite_export() {
    let (result, session, diagnostics) = import(STEP);
    result.unwrap();
    let launches = &session.launches;
    assert_eq!(
        (launches.start[0], launches.end[0], launches.stream[0]),
        (Ns(200), Ns(260), 13)
    );
    assert_eq!(
        session.kernel_name(launches.kernel[0]),
        "void gemm<float>(int)"
    );
    assert_eq!(launches.grid[0], Dim3 { x: 4, y: 2, z: 1 });
    assert_eq!(launches.block[0], Dim3 { x: 128, y: 1, z: 1 });
    assert_eq!(
        (launches.registers[0], launches.shared_bytes[0]),
        (Some(32), Some(64))
    );
    assert_eq!(
        (launches.correlation[0], launches.graph_node[0]),
        (Some(7), None)
    );
    assert_eq!(session.gpus.ordinal[launches.gpu[0].index()], 1);
    assert_eq!(session.processes.pid[launches.process[0].index()], 77);
    let copies = &session.copies;
    assert_eq!(copies.kind, [CopyKind::DeviceToHost, CopyKind::Memset]);
    assert_eq!(copies.bytes, [58_720_256, 64]);
    assert_eq!(
        (copies.source[0], copies.destination[0]),
        (MemoryKind::Device, MemoryKind::Pinned)
    );
    assert_eq!(
        (copies.start[0], copies.end[0], copies.correlation[0]),
        (Ns(300), Ns(340), Some(8))
    );
    let calls = &session.api_calls;
    assert_eq!(
        (calls.start[0], calls.end[0], calls.level[0]),
        (Ns(100), Ns(120), ApiLevel::Runtime)
    );
    assert_eq!(session.text(calls.name[0]), "cudaLaunchKernel");
    assert_eq!(session.threads.tid[calls.thread[0].index()], 78);
    assert_eq!(
        (
            session.os_calls.len(),
            session.text(session.os_calls.name[0])
        ),
        (1, "poll")
    );
    let syncs = &session.synchronizations;
    assert_eq!(
        (syncs.start[0], syncs.end[0], syncs.stream[0]),
        (Ns(345), Ns(360), None)
    );
    assert_eq!(session.text(syncs.kind[0]), "event synchronize");
    let ranges = &session.ranges;
    assert_eq!(
        (&ranges.start[..], &ranges.end[..]),
        (&[Ns(90), Ns(-10)][..], &[Ns(900), Ns(950)][..])
    );
    let names: Vec<&str> = ranges.name.iter().map(|name| session.text(*name)).collect();
    assert_eq!(names, ["step", "gemm"]);
    let domains: Vec<&str> = ranges
        .domain
        .iter()
        .map(|name| session.text(*name))
        .collect();
    assert_eq!(domains, ["", "own"]);
    assert_eq!(ranges.kind, [RangeKind::PushPop, RangeKind::StartEnd]);
    assert_eq!(
        told(&diagnostics),
        [("nsys/json-lines", Severity::Notice, 1)]
    );
    let message = &diagnostics.iter().next().unwrap().message;
    assert!(
        message.ends_with("SchedEvent (2), TraceProcessEvent of class 28 (1)"),
        "{message}"
    );
}

#[test]
fn strings_and_thread_names_may_have_lines_of_their_own() {
    let (result, session, _) = import(
        r#"{"Type":48,"TraceProcessEvent":{"startNs":1,"endNs":2,"eventClass":1,"name":5,"globalTid":THREAD}}
{"type":"String","id":"5","value":"cuLaunch\u004bernel"}
{"type":"String","id":"6","value":"main"}
{"type":"ThreadName","globalTid":"THREAD","nameId":"6","priority":"10"}"#,
    );
    result.unwrap();
    assert_eq!(session.text(session.api_calls.name[0]), "cuLaunchKernel");
    assert_eq!(session.api_calls.level, [ApiLevel::Driver]);
    assert_eq!(session.text(session.threads.name[0]), "main");
}

#[test]
fn what_is_not_understood_is_counted_and_nothing_is_invented() {
    let deep = "[".repeat(100_000);
    let (result, session, diagnostics) = import(&format!(
        r#"{{"Type":79,"CudaEvent":{{"startNs":"1","endNs":"2","deviceId":0,"streamId":"1","globalPid":"PROCESS","kernel":{{"demangledName":"900719925474099"}}}}}}
{{"Type":79,"CudaEvent":{{"startNs":"3","deviceId":0,"streamId":"1","kernel":{{"demangledName":"1"}}}}}}
{{"Type":79,"CudaEvent":{{"startNs":"x","endNs":"2"}}}}
{{"Type":130,"CudaEvent":{{"startNs":"1","endNs":"2","graph":{{"graphId":1}}}}}}
{{"Type":59,"NvtxEvent":{{"Type":59,"Timestamp":"90","Text":"ticks","GlobalTid":"THREAD","EndTimestamp":"900"}}}}
{{"Type":1,"Deep":{deep}
{{"Type":79,"CudaEvent":{{"startNs":"1","endNs":"2","deviceId":0,"streamI"#
    ));
    result.unwrap();
    let launches = &session.launches;
    assert_eq!(
        (&launches.start[..], &launches.end[..]),
        (&[Ns(1)][..], &[Ns(2)][..])
    );
    assert_eq!(
        session.kernel_name(launches.kernel[0]),
        "<string 900719925474099>"
    );
    assert_eq!(
        (launches.registers[0], launches.shared_bytes[0]),
        (None, None)
    );
    assert_eq!(launches.correlation, [None]);
    assert_eq!(session.ranges.len(), 0);
    let expected = [
        ("nsys/bad-rows", Severity::DataLoss, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
        ("nsys/bad-lines", Severity::DataLoss, 3),
        ("nsys/unknown-work", Severity::DataLoss, 1),
        ("nsys/unknown-unit", Severity::DataLoss, 1),
        ("nsys/json-lines", Severity::Notice, 1),
    ];
    assert_eq!(told(&diagnostics), expected);
}

#[test]
fn a_file_without_events_is_refused() {
    let (result, ..) = import("{\"data\":[\"[Unknown]\"]}\n{\"NvtxEvent\":null}\n");
    assert!(matches!(
        result.unwrap_err().kind,
        IngestErrorKind::Empty(_)
    ));
}

#[test]
fn exports_are_known_by_their_beginning() {
    let is = |bytes: &[u8]| {
        super::sniff(&Prefix {
            name: "a.json",
            bytes,
            complete: true,
        })
    };
    assert!(is(STEP.as_bytes()) && is(b"{\"Type\":79,\"CudaEvent\":{}}"));
    assert!(!is(b"{\"traceEvents\":[{\"name\":\"NvtxEvent\"}]}") && !is(b"[\"CudaEvent\"]"));
}
