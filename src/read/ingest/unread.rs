//! Formats that are not read, by their first bytes: what each is, and what to give instead.

use super::Prefix;
use super::stats_tables::tables;

/// A format that is not read.
struct Unread {
    is: fn(&Prefix<'_>) -> bool,
    what: &'static str,
    instead: &'static str,
}

/// What a file of no known kind is, and what to give instead; none if that is not known either.
pub(super) fn name(prefix: &Prefix<'_>) -> Option<(&'static str, &'static str)> {
    UNREAD
        .iter()
        .find(|format| (format.is)(prefix))
        .map(|format| (format.what, format.instead))
}

const UNREAD: &[Unread] = &[
    Unread {
        is: |file| ends(file, &[".qdstrm"]),
        what: "an unfinished capture of Nsight Systems (QDSTRM)",
        instead: "turn it into a report with QdstrmImporter -i FILE.qdstrm, then: nsys export --type sqlite FILE.nsys-rep",
    },
    Unread {
        is: |file| ends(file, &[".nsight-cuprof-report"]),
        what: "a report of Nsight Compute 2019 or 2020",
        instead: "print it with that version: nv-nsight-cu-cli --import FILE --csv --page raw > raw.csv",
    },
    Unread {
        is: |file| ends(file, &[".nvvp", ".nvprof"]) && !file.bytes.starts_with(b"SQLite"),
        what: "a session of the NVIDIA Visual Profiler",
        instead: NSYS,
    },
    Unread {
        is: |file| {
            starts_json(file)
                && file.contains("\"schema\"")
                && file.contains("\"nodes\"")
                && !file.contains("\"traceEvents\"")
        },
        what: "an execution trace of PyTorch (Chakra): operators and tensors, without GPU times",
        instead: "record the run with torch.profiler.profile(activities=[CPU, CUDA]) and export_chrome_trace, and give that trace",
    },
    Unread {
        is: |file| {
            starts_json(file)
                && file.contains("\"Results\"")
                && file.contains("perf_analyzer_config")
        },
        what: "a checkpoint of genai-perf analyze",
        instead: "give its result: analyze_export_genai_perf.csv, or profile_export_genai_perf.json",
    },
    Unread {
        is: |file| file.bytes.starts_with(b"PAR1") && is_table_of_nsys(file.name),
        what: "a table of a Parquet export of Nsight Systems (parquetdir)",
        instead: "give the folder in which it lies next to StringIds.parquet and all others, or export the report as SQLite: nsys export --type sqlite FILE.nsys-rep",
    },
    Unread {
        is: |file| is_memory_sum(&file.text()),
        what: "a summary of memory operations by nsys stats",
        instead: "give the trace, which has each transfer: nsys stats --report cuda_gpu_trace --format csv FILE.nsys-rep",
    },
    Unread {
        is: |file| matches!(file.bytes, [0x80, 2..=5, ..]),
        what: "a Python pickle",
        instead: "a memory snapshot comes from torch.cuda.memory._dump_snapshot; other data as JSON or CSV",
    },
    Unread {
        is: |file| ends(file, &[".xplane.pb"]),
        what: "an XSpace protobuf of JAX or TensorFlow",
        instead: "give the trace.json.gz that lies next to it",
    },
    Unread {
        is: |file| {
            ends(file, &[".perfetto-trace", ".pftrace", ".perfetto"])
                && file.bytes.starts_with(b"\n")
        },
        what: "a trace of Perfetto in protobuf",
        instead: "convert it: traceconv json FILE trace.json",
    },
    Unread {
        is: |file| file.contains("| NVIDIA-SMI "),
        what: "the table that nvidia-smi prints, which is rounded and has no fixed layout",
        instead: "give its XML: nvidia-smi -q -x > smi.xml",
    },
    Unread {
        is: |file| file.contains("List of valid properties to query for the switch"),
        what: "the help text of nvidia-smi",
        instead: "sample instead: nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,clocks.sm,memory.used --format=csv -l 1",
    },
    Unread {
        is: |file| file.contains("DCGM_FI_") && file.contains("gauge,"),
        what: "a list of the DCGM fields that an exporter gives: it holds no measurement",
        instead: "save what the exporter gives during the run: curl -s HOST:9400/metrics > dcgm.txt",
    },
    Unread {
        is: |file| {
            file.contains("INFO")
                && (file.contains("Benchmark") || file.contains("Performance Tester"))
        },
        what: "the console log of a load test: what it prints is rounded",
        instead: "give the result file that the same run wrote: --save-result (vLLM), --output-file (SGLang), profile_export_aiperf.json, trace_replay/detailed_results.csv",
    },
    Unread {
        is: |file| file.bytes.starts_with(&[0, 5, 0x16, 7]),
        what: "a resource file that macOS puts next to a file (AppleDouble)",
        instead: "give the file of the same name without ._ before it",
    },
    Unread {
        is: |file| file.bytes.starts_with(b"PK\x03\x04"),
        what: "a zip archive inside of an archive or folder",
        instead: "unpack it, and give the folder",
    },
];

/// What to do with profiles of tools that Nsight Systems replaced.
pub(crate) const NSYS: &str =
    "profile with Nsight Systems: nsys profile -t cuda,nvtx,osrt, then nsys export --type sqlite";

/// Other tools' SQLite files: a table of each, what it is, and what to give instead.
const DATABASES: &[(&str, &str, &str)] = &[
    (
        "StringTable",
        "an SQLite file of nvprof or the NVIDIA Visual Profiler",
        NSYS,
    ),
    ("read_only_model_info", "a database of DLProf", NSYS),
    (
        "rocpd_metadata",
        "a database of rocprofv3 (rocpd)",
        "give a PyTorch trace of the run",
    ),
];

/// The same for an SQLite file that has a table of none of the known kinds.
pub(crate) fn database(has: impl Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    let database = DATABASES.iter().find(|(table, ..)| has(table));
    database.map(|(_, what, instead)| (*what, *instead))
}

/// The tables that nsys exports have names of these forms.
fn is_table_of_nsys(name: &str) -> bool {
    let starts = [
        "CUPTI_",
        "NVTX_",
        "TARGET_INFO_",
        "META_DATA_",
        "ENUM_",
        "StringIds",
        "ThreadNames",
    ];
    name.ends_with(".parquet") && starts.iter().any(|start| name.starts_with(start))
}

/// Sums of the time or size of transfers, as CSV or on the console.
fn is_memory_sum(text: &str) -> bool {
    tables(text).any(|table| {
        table.position(&["Operation"]).is_some()
            && (table.position(&["Total Time"]).is_some() || table.position(&["Total"]).is_some())
    })
}

fn ends(file: &Prefix<'_>, endings: &[&str]) -> bool {
    endings.iter().any(|ending| file.name.ends_with(ending))
}

fn starts_json(file: &Prefix<'_>) -> bool {
    file.bytes.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named_by_their_first_bytes() {
        let named = |name: &str, bytes: &[u8]| {
            super::name(&Prefix {
                name,
                bytes,
                complete: true,
            })
            .map_or("", |(what, _)| what)
        };
        let cases: [(&str, &[u8], &str); 12] = [
            (
                "a.json",
                b"{\"schema\": \"1.0.3-chakra.0.0.4\", \"nodes\": []}",
                "an execution trace",
            ),
            ("a.pickle", b"\x80\x04\x95", "a Python pickle"),
            ("a.qdstrm", b"x", "an unfinished capture"),
            ("a.pftrace", b"\n\x0f", "a trace of Perfetto"),
            (
                "a.txt",
                b"| NVIDIA-SMI 550.54    Driver Version",
                "the table that nvidia-smi prints",
            ),
            ("._a.json", &[0, 5, 0x16, 7, 0], "a resource file"),
            (
                "CUPTI_ACTIVITY_KIND_KERNEL.parquet",
                b"PAR1\x15",
                "a table of a Parquet export",
            ),
            ("mine.parquet", b"PAR1\x15", ""),
            (
                "a.csv",
                b"Time (%),Total Time (ns),Count,Avg (ns),Operation\n100,5,1,5,[CUDA memset]\n",
                "a summary of memory operations",
            ),
            (
                "a.csv",
                b"Total (MB),Count,Avg (MB),Operation\n1.5,2,0.75,[CUDA memcpy Host-to-Device]\n",
                "a summary of memory operations",
            ),
            ("a.zip", b"PK\x03\x04", "a zip archive"),
            (
                "a.json",
                b"{\"schema\": 1, \"nodes\": [], \"traceEvents\": []}",
                "",
            ),
        ];
        for (name, bytes, what) in cases {
            let format = named(name, bytes);
            assert!(
                format.starts_with(what) && format.is_empty() == what.is_empty(),
                "{name}: {format}"
            );
        }
        let format_of = |mark: &str| database(|table| table == mark).map(|(name, _)| name);
        assert_eq!(
            format_of("StringTable"),
            Some("an SQLite file of nvprof or the NVIDIA Visual Profiler")
        );
        assert_eq!(format_of("StringIds"), None);
    }
}
