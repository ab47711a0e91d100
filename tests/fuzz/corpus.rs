//! What mutations begin with: pieces of fixtures, and small files of all formats.

use std::io::Read;
use std::path::Path;

use rusqlite::Connection;

/// Inputs that once did harm, by target: a metric that is the name of its engine alone.
pub(crate) const HARMFUL: &[(&str, &[u8])] =
    &[("serve-report", b"vllm:num_requests_running 8.0\nvllm 1.0\n")];

/// Bytes of a fixture that are taken: mutations of more are slow, and find no more.
const PIECE: u64 = 24 << 10;

const WORKLOAD: &[u8] = b"batch = 8\nprompt_tokens = 1024\nwarmup = 1\nconfig = \"config.json\"\n\n[[stages]]\nname = \"decode\"\nmatch = \"decode.*\"\nkind = \"decode\"\n\n[passes.nsys]\noutput_tokens = 8\n";

const MANIFEST: &[u8] = br#"{"version":1,"name":"b","tool":{"name":"rooflens-capture","version":"1"},
"passes":[{"id":"torch","kind":"operators","command":["python3","x.py"]}],
"artifacts":[{"path":"trace.json","kind":"torch_trace","pass":"torch","rank":0,"sha256":"00","bytes":1}]}"#;

const CUBLAS: &[u8] = b"I! cuBLAS (v11.0) function cublasStatus_t cublasGemmEx(...) called:\ni!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)\ni!  m: type=int; val=64\ni!  n: type=int; val=8\ni!  k: type=int; val=32\n";

const SAMPLES: &[u8] = b"timestamp, index, power.draw [W], clocks.current.sm [MHz]\n2024/01/31 12:00:00.250, 0, 38.74 W, 210 MHz\n2024/01/31 12:00:00.500, 0, 39.1 W, 1980 MHz\n";

const SMI: &[u8] = b"<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n<driver_version>550.1</driver_version>\n<gpu id=\"0\"><product_name>NVIDIA H100</product_name><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu>\n</nvidia_smi_log>\n";

const TIMINGS: &[u8] = br#"{"version":1,"batch":8,"prompt_tokens":16,"stages":{"prefill":{"ms":[2.5,2.4]},"decode":{"ms":[1.5,1.25],"steps":4}}}"#;

const ENVIRONMENT: &[u8] = br#"{"version":1,"entries":[{"subject":"gpu 0","key":"name","value":"NVIDIA H100"},{"subject":"a","key":"b","missing_reason":"c"}]}"#;

const JSON_LINES: &[u8] = br#"{"data":["[Unknown]","gemm","cudaLaunchKernel"]}
{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"90","Text":"step","GlobalTid":"72057595329773646","EndTimestamp":"900","DomainId":"0","NsTime":true}}
{"Type":48,"TraceProcessEvent":{"startNs":"100","endNs":"120","correlationId":7,"eventClass":0,"name":"2","globalTid":"72057595329773646"}}
{"Type":79,"CudaEvent":{"startNs":"200","endNs":"260","correlationId":7,"deviceId":0,"streamId":"13","globalPid":"72057595329773568","kernel":{"demangledName":"1","shortName":"1","gridX":4,"blockX":128}}}
{"Type":80,"CudaEvent":{"startNs":"300","endNs":"340","correlationId":8,"deviceId":0,"streamId":"13","globalPid":"72057595329773568","memcpy":{"sizebytes":"64","copyKind":"2","srcKind":2,"dstKind":1}}}
{"type":"ThreadName","globalTid":"72057595329773646","nameId":"1"}
"#;

const QUERIES: [&str; 4] = [
    "select name, sum(duration) from launches group by name order by 2 desc limit 3",
    "select a.id from launches a join ranges b on a.pass = b.pass where a.start between b.start and b.end",
    "select count(*), avg(duration) over (order by start) from launches",
    "select \"table\", name from columns where doc like '%ns%'",
];

/// The inputs of a target.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "manifest" | "validate" => vec![MANIFEST.to_vec()],
        "serve-report" => files("tests/data/serving"),
        "bench-report" => files("src/studies/microbench/testdata"),
        "workload" => vec![WORKLOAD.to_vec()],
        "query" => QUERIES.map(|query| query.as_bytes().to_vec()).to_vec(),
        "pages" | "redaction" => databases(),
        "archive" => archives(),
        "parquet" => ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "NVTX_EVENTS"]
            .map(table)
            .to_vec(),
        "blocks" => vec![fixture("h100-train/torch/trace.json.zst"), trace()],
        _ => all(),
    }
}

fn all() -> Vec<Vec<u8>> {
    let mut all = vec![trace(), report(), page(), details()];
    all.extend(
        [
            CUBLAS,
            SAMPLES,
            SMI,
            TIMINGS,
            ENVIRONMENT,
            WORKLOAD,
            JSON_LINES,
        ]
        .map(<[u8]>::to_vec),
    );
    all.extend(seeds());
    all.extend(
        found("ncu-rep")
            .into_iter()
            .chain(found("csv"))
            .chain(found("json")),
    );
    all.extend(databases());
    all
}

fn seed(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/seeds")
            .join(name),
    )
    .unwrap()
}

/// All files of a folder of the repository.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| beginning(path)).collect()
}

/// A small file of each format that the fixtures lack.
fn seeds() -> Vec<Vec<u8>> {
    let files = [
        "call_sums.csv",
        "cublaslt.log",
        "gpu_trace.csv",
        "kernel_sums.csv",
        "memory.pickle",
        "ncu_console.txt",
        "sums_console.txt",
        "xla.json",
        "../serving/dcgm.txt",
    ];
    let scripts = [
        &["nsys.sql"][..],
        &["nccl.sql"],
        &["rocpd_info.sql", "rocpd_3.sql"],
        &["rocpd_info.sql", "rocpd_4.sql"],
    ];
    let config = fixture("h200-qwen3-compiled/config.json");
    files
        .map(seed)
        .into_iter()
        .chain(scripts.map(database))
        .chain([config])
        .collect()
}

/// The database that scripts make.
fn database(scripts: &[&str]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let base = Connection::open(file.path()).unwrap();
    for script in scripts {
        base.execute_batch(&String::from_utf8(seed(script)).unwrap())
            .unwrap();
    }
    drop(base);
    std::fs::read(file.path()).unwrap()
}

/// The beginnings of all fixtures whose name ends so, packed or not.
fn found(extension: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let plain = name.strip_suffix(".zst").unwrap_or(&name);
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if plain.ends_with(extension) {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    paths
        .iter()
        .step_by(4)
        .map(|path| beginning(path))
        .collect()
}

fn fixture(path: &str) -> Vec<u8> {
    beginning(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(path),
    )
}

/// A table of a Parquet export.
fn table(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report_pqtdir");
    std::fs::read(folder.join(name).with_extension("parquet")).unwrap()
}

fn beginning(path: &Path) -> Vec<u8> {
    let Ok(file) = std::fs::File::open(path) else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    let packed = path.extension().is_some_and(|extension| extension == "zst");
    if packed {
        zstd::Decoder::new(file)
            .unwrap()
            .take(PIECE)
            .read_to_end(&mut bytes)
            .unwrap();
    } else {
        file.take(PIECE).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

fn trace() -> Vec<u8> {
    let mut events = Vec::new();
    for at in 0..20 {
        let (start, lane) = (10 * at, r#""pid":1,"tid":1"#);
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"step","ts":{start},"dur":9,{lane}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":{start}.5,"dur":8,{lane},"args":{{"External id":{at},"Input Dims":[[8,8],[8,{at}]],"Input type":["float","float"]}}}}"#
        ));
        events.push(format!(r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":{start}.6,"dur":1,{lane},"args":{{"correlation":{at}}}}}"#));
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"sgemm_{at}","ts":{start}.9,"dur":5,"pid":0,"tid":7,"args":{{"device":0,"stream":7,"correlation":{at},"grid":[1,2,3],"block":[32,1,1]}}}}"#
        ));
        events.push(format!(r#"{{"ph":"i","s":"t","name":"[memory]","ts":{start}.7,{lane},"args":{{"Bytes":512,"Addr":{at},"Device Id":0,"Total Allocated":512}}}}"#));
    }
    format!("{{\"schemaVersion\":1,\"deviceProperties\":[{{\"id\":0,\"name\":\"NVIDIA H100\"}}],\"traceEvents\":[\n{}\n]}}", events.join(",\n")).into_bytes()
}

/// A report of Nsight Compute: one block with two launches.
fn report() -> Vec<u8> {
    let field = |number: u8, body: &[u8]| [&[number << 3 | 2, body.len() as u8], body].concat();
    let launch = [
        field(7, b"kernel"),
        field(10, b"\x08\x02"),
        field(13, b"\x08\x00\x12\x02\x20\x07"),
    ]
    .concat();
    let sized = |body: &[u8]| [&(body.len() as u32).to_le_bytes()[..], body].concat();
    let payload = sized(&launch).repeat(2);
    let names = field(4, &field(1, b"gpu__time_duration.sum"));
    let header = [
        &[0x10, 2][..],
        &names,
        &[0x28, payload.len() as u8],
        &field(6, b"\x08\x07"),
    ]
    .concat();
    [
        b"NVR\0".to_vec(),
        sized(b"\x08\x07"),
        sized(&header),
        payload,
    ]
    .concat()
}

fn page() -> Vec<u8> {
    b"\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"Device\",\"CC\",\"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\"\n\"\",\"\",\"\",\"\",\"\",\"\",\"us\",\"%\"\n\"0\",\"7\",\"p\",\"k(int)\",\"0\",\"9.0\",\"1,234.50\",\"50.1\"\n\"1\",\"7\",\"p\",\"k2\",\"0\",\"9.0\",\"3\",\"9\"\n".to_vec()
}

fn details() -> Vec<u8> {
    b"\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\"\n\"0\",\"7\",\"p\",\"k\",\"0\",\"9.0\",\"GPU Speed Of Light\",\"Duration\",\"us\",\"12.5\",\"\",\"\",\"\"\n\"0\",\"7\",\"p\",\"k\",\"0\",\"9.0\",\"Occupancy\",\"\",\"\",\"\",\"Tail\",\"OPT\",\"Use more blocks.\"\n".to_vec()
}

/// Exports of Nsight Systems on small pages, so that a tree has levels, with free pages and long rows.
fn databases() -> Vec<Vec<u8>> {
    let make = |page: u32| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.sqlite");
        let base = Connection::open(&path).unwrap();
        base.execute_batch(&format!(
            "PRAGMA page_size = {page};
            CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
                globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
            CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, domainId INTEGER);
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
            INSERT INTO StringIds SELECT i, CASE WHEN i = 9 THEN hex(zeroblob(900)) ELSE 'cudaLaunchKernel' || i END FROM n;
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT id * 100, id * 100 + 50, 0, 7, id, 72057594155171840, id, id FROM StringIds;
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT id * 100 - 20, id * 100 - 5, 0, 72057594155171847, id, id, 0 FROM StringIds;
            INSERT INTO NVTX_EVENTS SELECT id * 100 - 30, id * 100 + 40, 59 + id % 2, 'step', 72057594155171847, 0 FROM StringIds;
            DELETE FROM NVTX_EVENTS WHERE start % 700 = 70;"
        ))
        .unwrap();
        drop(base);
        std::fs::read(&path).unwrap()
    };
    [512, 1024, 4096].map(make).to_vec()
}

fn archives() -> Vec<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in [
        ("b/workload.toml", WORKLOAD.to_vec()),
        ("b/torch/trace.json", trace()),
        ("b/env.json", ENVIRONMENT.to_vec()),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, &*data).unwrap();
    }
    let plain = builder.into_inner().unwrap();
    let packed = zstd::encode_all(&*plain, 3).unwrap();
    vec![plain, packed, seed("bundle.zip")]
}
