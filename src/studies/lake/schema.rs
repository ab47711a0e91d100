//! The tables of results: one declaration, from which the Parquet files, `docs/data.md` and
//! `schemas/results.v1.schema.json` come.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// Version of the tables. Within a version, tables only gain columns.
pub const VERSION: u32 = 1;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// 64-bit integer.
    Int,
    /// Double.
    Float,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name, with the unit as suffix where there is one.
    pub name: &'static str,
    /// Type of its values; each may be null.
    pub kind: Kind,
    /// Unit of its numbers; empty for texts and plain numbers.
    pub unit: &'static str,
    /// What it says.
    pub doc: &'static str,
}

/// A table of results.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Name: `kernels` is in `kernels.parquet`.
    pub name: &'static str,
    /// Data set of the report that has its rows; the columns have the same names in both.
    pub dataset: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// Columns that follow [`KEY`].
    pub columns: &'static [Column],
}

impl Table {
    /// All columns: those of the capture first.
    pub fn all_columns(&self) -> impl Iterator<Item = &'static Column> {
        KEY.iter().chain(self.columns)
    }
}

/// Columns from lines `name: kind "unit" "meaning"`.
macro_rules! columns {
    ($($name:ident: $kind:ident $unit:literal $doc:literal,)*) => {
        &[$(Column { name: stringify!($name), kind: Kind::$kind, unit: $unit, doc: $doc }),*]
    };
}

/// Columns that each row of each table begins with: whose result it is.
pub const KEY: &[Column] = columns! {
    capture: Text "" "SHA-256 that identifies the capture by its content",
    run: Text "" "name of the bundle",
    time: Text "" "time of the capture, RFC 3339, UTC",
    commit: Text "" "commit of the program, where the environment states it",
    gpu: Text "" "product name of the GPUs that ran something",
    gpus: Int "" "number of GPUs that ran something",
    driver: Text "" "version of the GPU driver",
    model: Text "" "family of the model, else name of the workload",
    workload: Text "" "data type and sizes as the workload states them: dtype=bf16,batch=8,prompt=1024,output=16",
    labels: Text "" "environment facts of the subject `label`, as key=value with commas between them",
};

/// The tables, by name.
pub const TABLES: &[Table] = &[
    Table {
        name: "account",
        dataset: "account",
        doc: "A part of the captured time, which its children divide.",
        columns: columns! {
            id: Int "" "number of the part within the capture",
            parent: Int "" "number of the part that contains it; null at the root",
            kind: Text "" "what it is: pass, stage, idle cause and others",
            label: Text "" "name",
            ns: Int "ns" "time",
            captured_share: Float "1" "share of all captured time",
        },
    },
    Table {
        name: "captures",
        dataset: "",
        doc: "A capture.",
        columns: columns! {
            schema: Int "" "version of the tables",
            generator: Text "" "version of Rooflens that wrote the rows",
        },
    },
    Table {
        name: "communication",
        dataset: "collectives",
        doc: "Collectives of one operation, rank, size and group.",
        columns: columns! {
            operation: Text "" "operation",
            pass: Text "" "pass",
            rank: Text "" "rank",
            dtype: Text "" "data type",
            algorithm: Text "" "algorithm of NCCL",
            protocol: Text "" "protocol of NCCL",
            group_size: Int "" "ranks of the group",
            bytes: Float "B" "size of one message",
            count: Int "" "number of collectives",
            total_ns: Float "ns" "time of all of them",
            median_ns: Float "ns" "median time of one",
            transfer_ns: Float "ns" "part of the time during which all ranks were in it",
            wait_ns: Float "ns" "part of the time that waited for another rank",
            bus_bandwidth: Float "B/s" "bus bandwidth",
        },
    },
    Table {
        name: "environment",
        dataset: "environment",
        doc: "A recorded fact of the machine and its software.",
        columns: columns! {
            subject: Text "" "what it is about, such as `driver` or `gpu 0`",
            key: Text "" "setting",
            value: Text "" "value",
            artifact: Text "" "file that states it",
        },
    },
    Table {
        name: "findings",
        dataset: "findings",
        doc: "A finding of a rule, with the upper bound of what it could save. Bounds overlap: do not add those of one capture.",
        columns: columns! {
            rule: Text "" "rule that made it",
            severity: Text "" "note, warning or critical",
            pass: Text "" "pass",
            stage: Text "" "stage",
            rank: Int "" "rank",
            saved_ns: Float "ns" "upper bound of the saving",
            of_ns: Float "ns" "time that the saving is a part of",
            share: Float "1" "saved_ns of of_ns",
            weight_ns: Float "ns" "upper bound, or time that it is about, over the whole run",
            statement: Text "" "statement, in the language of the report",
            advice: Text "" "what to do",
        },
    },
    Table {
        name: "gemms",
        dataset: "gemms",
        doc: "A GEMM of one kernel and shape, per iteration of its stage.",
        columns: columns! {
            kernel: Text "" "short name of the kernel",
            stage: Text "" "stage",
            pass: Text "" "pass",
            m: Int "" "rows of the result",
            n: Int "" "columns of the result",
            k: Int "" "length of the sum",
            batch: Int "" "products of one launch",
            dtype: Text "" "data type of the inputs",
            source: Text "" "where the shape comes from",
            launches: Float "" "launches",
            time_ns: Float "ns" "time",
            share: Float "1" "share of the stage's kernel time",
            flops: Float "" "floating-point operations",
            flop_per_second: Float "FLOP/s" "rate",
            of_peak: Float "1" "rate over the peak of its data type",
            bound: Text "" "resource that bounds it by the roofline",
            of_roofline: Float "1" "roofline time over measured time",
            recoverable_ns: Float "ns" "time above the roofline",
        },
    },
    Table {
        name: "headline",
        dataset: "headline",
        doc: "Key figures of an outermost stage.",
        columns: columns! {
            stage: Text "" "stage",
            unprofiled_ns: Float "ns" "median time of an iteration without a profiler",
            profiled_ns: Float "ns" "median time of an iteration under the profiler",
            busy_share: Float "1" "share of the time in which the GPU is busy",
            mfu: Float "1" "model FLOPs utilization",
            mbu: Float "1" "model bandwidth utilization",
            operator_utilization: Float "1" "utilization by the FLOPs of operators",
            tokens_per_second: Float "1/s" "tokens a second",
            images_per_second: Float "1/s" "images a second",
        },
    },
    Table {
        name: "idle",
        dataset: "idle",
        doc: "Idle GPU time of a stage by cause, over all counted iterations.",
        columns: columns! {
            stage: Text "" "stage",
            pass: Text "" "pass",
            cause: Text "" "cause",
            gaps: Int "" "number of gaps",
            total_ns: Float "ns" "idle time",
            idle_share: Float "1" "share of the stage's idle time",
            longest_ns: Float "ns" "longest gap",
            median_ns: Float "ns" "median idle time of an iteration",
            stage_share: Float "1" "share of the stage's time",
            instances: Int "" "counted iterations",
        },
    },
    Table {
        name: "kernels",
        dataset: "kernels",
        doc: "All launches of a kernel in a pass.",
        columns: columns! {
            short: Text "" "short name",
            name: Text "" "full name",
            pass: Text "" "pass",
            class: Text "" "class, such as gemm",
            library: Text "" "library that it comes from",
            dtype: Text "" "data type",
            counted: Int "" "1 in the run with the most kernel time of the capture, all of its ranks, else 0: sums over runs count time twice",
            once: Int "" "1 in one counted row of each kernel of the capture, else 0: the sum over captures is their number",
            count: Int "" "launches",
            total_ns: Float "ns" "time of all launches",
            share: Float "1" "share of the pass's kernel time",
            mean_ns: Float "ns" "mean time of a launch",
            median_ns: Float "ns" "median time of a launch",
            min_ns: Float "ns" "shortest launch",
            max_ns: Float "ns" "longest launch",
            std_ns: Float "ns" "standard deviation",
        },
    },
    Table {
        name: "load_tests",
        dataset: "serving_runs",
        doc: "A load test of a server.",
        columns: columns! {
            format: Text "" "tool that wrote the result",
            file: Text "" "file of the result",
            started: Text "" "when it started, as the file states it",
            load: Text "" "offered load",
            offered_requests_per_second: Float "1/s" "offered requests a second",
            concurrency: Int "" "requests at a time",
            completed: Int "" "completed requests",
            failed: Int "" "failed requests",
            duration_ns: Float "ns" "duration",
            requests_per_second: Float "1/s" "completed requests a second",
            output_tokens_per_second: Float "1/s" "generated tokens a second",
            total_tokens_per_second: Float "1/s" "tokens a second with those of prompts",
        },
    },
    Table {
        name: "metrics",
        dataset: "",
        doc: "A metric of metrics.json that is available.",
        columns: columns! {
            metric: Text "" "stable name, as docs/methodology.md lists it",
            pass: Text "" "pass",
            stage: Text "" "stage",
            device: Int "" "GPU, as the pass numbers it",
            rank: Int "" "rank",
            class: Text "" "kernel class",
            value: Float "" "value in the unit of the row",
            unit: Text "" "unit, as metrics.json names it",
            polarity: Text "" "which direction is better",
        },
    },
    Table {
        name: "stages",
        dataset: "stages",
        doc: "A stage of a pass.",
        columns: columns! {
            stage: Text "" "stage",
            pass: Text "" "pass",
            instances: Text "" "counted iterations, of how many if some are excluded",
            time_ns: Float "ns" "median time of an iteration",
            time_min_ns: Float "ns" "shortest iteration",
            time_max_ns: Float "ns" "longest iteration",
            host_ns: Float "ns" "median time of the CPU range",
            busy_share: Float "1" "share of the time in which the GPU is busy",
            operations: Int "" "GPU operations of an iteration",
        },
    },
];

/// The table of that name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

/// The tables as a part of `docs/data.md`.
pub fn markdown() -> String {
    let mut text = "| column | type | unit | meaning |\n|---|---|---|---|\n".to_owned();
    rows(&mut text, KEY);
    for table in TABLES {
        let _ = write!(text, "\n**`{}.parquet`**: {}\n\n", table.name, table.doc);
        text.push_str("| column | type | unit | meaning |\n|---|---|---|---|\n");
        rows(&mut text, table.columns);
    }
    text
}

fn rows(text: &mut String, columns: &[Column]) {
    for Column {
        name,
        kind,
        unit,
        doc,
    } in columns
    {
        let kind = match kind {
            Kind::Text => "text",
            Kind::Int => "integer",
            Kind::Float => "number",
        };
        let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {doc} |");
    }
}

/// The tables as a JSON Schema: an object with the rows of each table.
pub fn json_schema() -> Value {
    let mut tables = Map::new();
    for table in TABLES {
        let mut columns = Map::new();
        for column in table.all_columns() {
            let kind = match column.kind {
                Kind::Text => "string",
                Kind::Int => "integer",
                Kind::Float => "number",
            };
            let mut about = json!({"type": [kind, "null"], "description": column.doc});
            if !column.unit.is_empty() {
                about["unit"] = column.unit.into();
            }
            columns.insert(column.name.to_owned(), about);
        }
        let row = json!({"type": "object", "properties": columns, "required": ["capture"]});
        let table_schema = json!({"type": "array", "description": table.doc, "items": row});
        tables.insert(table.name.to_owned(), table_schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:rooflens:results.v{VERSION}"),
        "title": "Results",
        "description": "Rows of the Parquet files of `rooflens report --format results`, by table.",
        "type": "object",
        "properties": tables,
    })
}
