//! Speed of reading PyTorch profiler traces, with the floors below which no JSON reader gets.
//!
//! `TORCH_BENCH_MB` sets the size of the trace that is made (default 200).
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use rooflens::bundle::ArtifactFile;
use rooflens::diagnostic::Diagnostics;
use rooflens::ingest::torch::IMPORTER;
use rooflens::session::Session;
use serde::de::IgnoredAny;
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// One decoder layer's worth of events, in the profiler's own layout; `at` counts nanoseconds.
fn layer(text: &mut String, at: &mut u64, id: &mut u64) {
    let micros = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    for (index, operator) in [
        "aten::linear",
        "aten::matmul",
        "aten::mul",
        "aten::_to_copy",
    ]
    .iter()
    .enumerate()
    {
        (*at, *id) = (*at + 9_731, *id + 3);
        let (start, launch, kernel) = (micros(*at), micros(*at + 2_013), micros(*at + 6_117));
        let features = 1024 << index;
        let _ = write!(
            text,
            r#"
  {{
    "ph": "X", "cat": "cpu_op", "name": "{operator}", "pid": 548, "tid": 548,
    "ts": {start}, "dur": 8.337,
    "args": {{
      "External id": {id},"Record function id": 0, "Concrete Inputs": ["", "[8192, {features}]", "False"], "Input type": ["c10::BFloat16", "ScalarList", "Scalar"], "Input Strides": [[{features}, 1], [], []], "Input Dims": [[8, 1024, {features}], [], []], "Ev Idx": {id}
    }}
  }},
  {{
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
    "pid": 548, "tid": 548,
    "ts": {start},
    "args": {{
      "Total Reserved": 18714984448, "Total Allocated": 16161252864, "Bytes": 67108864, "Device Id": 0, "Device Type": 1, "Addr": 140291281518592, "finished": false, "Ev Idx": {id}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 548, "tid": 548,
    "ts": {launch}, "dur": 3.153,
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 548, "tid": 548, "ts": {launch},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, {features}ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, {features}ul>)", "pid": 0, "tid": 7,
    "ts": {kernel}, "dur": 4.992,
    "args": {{
      "External id": {id},      "queued": 0, "device": 0, "context": 1,      "stream": 7, "correlation": {id},      "registers per thread": 34,      "shared memory": 0,      "blocks per SM": 0.060606,      "warps per SM": 0.242424,      "grid": [{features}, 2, 1],      "block": [128, 1, 1],      "est. achieved occupancy %": 0
    }}
  }},
  {{
    "ph": "f", "id": {id}, "pid": 0, "tid": 7, "ts": {kernel},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},"#
        );
    }
}

/// Writes a trace of about `bytes` to `path`.
fn write_trace(path: &Path, bytes: usize) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    write!(
        file,
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \
         \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": ["
    )?;
    let (mut at, mut id, mut written) = (4_366_746_849_752_164, 1, 0);
    let mut text = String::new();
    while written < bytes {
        text.clear();
        layer(&mut text, &mut at, &mut id);
        file.write_all(text.as_bytes())?;
        written += text.len();
    }
    write!(
        file,
        "\n  {{\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \
         \"pid\": \"\", \"tid\": \"\", \"ts\": {at}\n  }}\n  ],\n  \"traceName\": \"bench.json\"\n}}\n"
    )?;
    file.flush()
}

/// The trace, plain and packed.
struct Trace {
    folder: TempDir,
    bytes: usize,
}

impl Trace {
    fn file(&self, name: &str) -> ArtifactFile {
        ArtifactFile {
            path: name.to_owned(),
            location: self.folder.path().join(name),
            pass: "torch".to_owned(),
            ..ArtifactFile::default()
        }
    }
}

fn trace() -> &'static Trace {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    TRACE.get_or_init(|| {
        let megabytes = std::env::var("TORCH_BENCH_MB")
            .ok()
            .and_then(|text| text.parse().ok());
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let plain = folder.path().join("trace.json");
        write_trace(&plain, megabytes.unwrap_or(200_usize) << 20)
            .expect("the trace can be written");
        let text = fs::read(&plain).expect("the trace can be read");
        let gzip =
            fs::File::create(folder.path().join("trace.json.gz")).expect("a file can be made");
        let mut gzip = flate2::write::GzEncoder::new(gzip, flate2::Compression::fast());
        gzip.write_all(&text)
            .and_then(|()| gzip.finish().map(drop))
            .expect("the trace can be packed");
        Trace {
            folder,
            bytes: text.len(),
        }
    })
}

/// Reads the trace with `threads` parsing threads, next to the one that reads and cuts.
fn import(bencher: Bencher<'_, '_>, name: &str, threads: usize) {
    let trace = trace();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("threads can be started");
    let file = trace.file(name);
    bencher.counter(BytesCount::new(trace.bytes)).bench(|| {
        let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
        pool.install(|| (IMPORTER.import)(&file, &mut session, &mut diagnostics))
            .expect("the trace is sound");
        session
    });
}

#[divan::bench(args = [1, 2], sample_count = 5)]
fn plain(bencher: Bencher<'_, '_>, threads: usize) {
    import(bencher, "trace.json", threads);
}

#[divan::bench(args = [1, 2], sample_count = 5)]
fn gzip(bencher: Bencher<'_, '_>, threads: usize) {
    import(bencher, "trace.json.gz", threads);
}

#[divan::bench(sample_count = 5)]
fn floor_utf8(bencher: Bencher<'_, '_>) {
    let text = fs::read(trace().folder.path().join("trace.json")).expect("the trace can be read");
    bencher
        .counter(BytesCount::new(text.len()))
        .bench(|| simdutf8::basic::from_utf8(black_box(&text)).is_ok());
}

#[divan::bench(sample_count = 5)]
fn floor_ignored(bencher: Bencher<'_, '_>) {
    let text = fs::read(trace().folder.path().join("trace.json")).expect("the trace can be read");
    bencher
        .counter(BytesCount::new(text.len()))
        .bench(|| serde_json::from_slice::<IgnoredAny>(black_box(&text)).is_ok());
}
