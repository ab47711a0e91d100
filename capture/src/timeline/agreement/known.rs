//! Differences that there were once, each with what is right.

use rusqlite::Connection;

use super::super::Timeline;
use super::super::list::list;
use super::{Bundle, Count, Counts};

/// Tables of an export: strings, and those of kernels, calls and ranges.
const TABLES: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'a'), (2, 'b'), (3, 'cudaLaunchKernel'), (4, 'decode');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
        shortName INTEGER, gridX INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
        globalTid INTEGER, textId INTEGER, domainId INTEGER);";

/// Two processes, and two threads of the first.
const FIRST: i64 = 0x0100_0000_0500_0000;
const SECOND: i64 = 0x0100_0000_0600_0000;

/// An export of these statements.
fn export(statements: &[String]) -> Bundle {
    let bundle = Bundle::new(&statements.join("\n"));
    let connection = Connection::open(bundle.export()).expect("SQLite makes a file");
    let sql = format!("{TABLES}\n{}", statements.join(";\n"));
    connection
        .execute_batch(&sql)
        .expect("the statements are right");
    bundle
}

/// A kernel with this name that runs from a start on, for this long, launched by a process.
fn kernel(name: i64, start: i64, duration: i64, process: i64) -> String {
    let end = start + duration;
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
         VALUES ({start}, {end}, 0, 7, {start}, {process}, {name}, {name}, 1)"
    )
}

/// The call of a thread that launches the kernel that starts then.
fn call(start: i64, kernel: i64, thread: i64) -> String {
    let end = start + 1;
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {end}, 0, {thread}, {kernel}, 3)"
    )
}

fn change(column: &str, value: &str, start: i64) -> String {
    format!("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = {value} WHERE start = {start}")
}

/// What both read, and what both say is skipped.
fn notes(bundle: &Bundle) -> Vec<String> {
    assert_eq!(bundle.compare(&[]).of(Count::Read), 1);
    let timeline = Timeline::of_bundle(bundle.folder.path()).expect("it is read");
    timeline.notes().to_vec()
}

/// The reason for which this program refuses the export.
fn refusal(bundle: &Bundle) -> String {
    let read = Timeline::of_bundle(bundle.folder.path());
    read.expect_err("it is refused").to_string()
}

/// Names in the list of a stage.
fn listed(bundle: &Bundle, stage: Option<&str>) -> Vec<String> {
    assert_eq!(bundle.compare(&[]).of(Count::Read), 1);
    let timeline = Timeline::of_bundle(bundle.folder.path()).expect("it is read");
    let listed = list(&timeline, stage, false, 20).expect("there are kernels");
    listed.names.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_kernel_without_device_or_stream_is_skipped() {
    for column in ["deviceId", "streamId"] {
        let kernels = [kernel(1, 10, 5, FIRST), kernel(2, 20, 5, FIRST)];
        let bundle = export(&[&kernels[..], &[change(column, "NULL", 20)]].concat());
        let skipped = format!(
            "rows of CUPTI_ACTIVITY_KIND_KERNEL that make no sense are skipped; the first: row 2, \
             {column} is NULL (1 in all)"
        );
        assert_eq!(notes(&bundle), [skipped]);
        assert_eq!(listed(&bundle, None), ["a"]);
    }
}

#[test]
fn an_export_without_devices_or_streams_is_refused() {
    for column in ["deviceId", "streamId"] {
        let drop = format!("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}");
        let bundle = export(&[kernel(1, 10, 5, FIRST), drop]);
        assert_eq!(bundle.compare(&[]).of(Count::Refused), 1);
        let reason = format!("column {column} of CUPTI_ACTIVITY_KIND_KERNEL is missing");
        assert_eq!(refusal(&bundle), reason);
    }
}

#[test]
fn a_kernel_with_an_impossible_grid_is_skipped() {
    for (grid, shown) in [
        ("-1", "-1"),
        ("1 << 32", "4294967296"),
        ("'x'", "the text \"x\""),
    ] {
        let kernels = [kernel(1, 10, 5, FIRST), kernel(2, 20, 5, FIRST)];
        let bundle = export(&[&kernels[..], &[change("gridX", grid, 20)]].concat());
        let reason = format!("row 2, gridX is {shown} (1 in all)");
        assert!(notes(&bundle)[0].ends_with(&reason), "{:?}", notes(&bundle));
        assert_eq!(listed(&bundle, None), ["a"]);
    }
}

#[test]
fn a_skipped_kernel_takes_no_id() {
    // The second process and kernel b come first in a row that is skipped. Both kernels take 10.
    let kernels = [
        kernel(2, 10, 5, SECOND),
        kernel(1, 20, 10, FIRST),
        kernel(2, 40, 10, FIRST),
        kernel(1, 60, 50, SECOND),
    ];
    let bundle = export(&[&kernels[..], &[change("streamId", "NULL", 10)]].concat());
    assert_eq!(listed(&bundle, None), ["a", "b"]);
}

#[test]
fn characters_that_act_on_a_terminal_are_escaped() {
    let name = "UPDATE StringIds SET value = 'x' || char(127, 155, 8238) WHERE id = 1".to_owned();
    let bundle = export(&[kernel(1, 10, 5, FIRST), name]);
    assert_eq!(bundle.compare(&[]).of(Count::Lists), 2);
    let timeline = Timeline::of_bundle(bundle.folder.path()).expect("it is read");
    let listed = list(&timeline, None, false, 1).expect("there is a kernel");
    let line = r#"  - name: "x\u007f\u009b\u202e""#;
    assert_eq!(listed.yaml.lines().nth(2), Some(line));
    let kernels = crate::kernels::Kernels::parse(&listed.yaml).expect("it is a list");
    assert_eq!(kernels.kernels[0].name, "x\u{7f}\u{9b}\u{202e}");
}

#[test]
fn two_hundred_stages_are_read_and_one_more_is_not() {
    let range = format!("INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, NULL, {FIRST}, 4, NULL)");
    let bundle = export(&[kernel(1, 10, 5, FIRST), call(5, 10, FIRST), range]);
    let stages = |count: usize| {
        let others = (1..count).map(|at| format!("[[stages]]\nname = \"s{at}\"\n"));
        let first = "[[stages]]\nname = \"generate\"\nmatch = \"decode\"\n".to_owned();
        first + &others.collect::<String>()
    };
    bundle.describe(stages(200));
    assert_eq!(notes(&bundle), [""; 0]);
    assert_eq!(listed(&bundle, Some("generate")), ["a"]);
    bundle.describe(stages(201));
    let reason = "workload.toml is not used: the number of stages is 201, expected at most 200";
    assert_eq!(notes(&bundle), [reason]);
    // The built-in stage.
    assert_eq!(listed(&bundle, Some("decode")), ["a"]);
}

#[test]
fn a_description_that_is_no_toml_is_not_used_and_one_with_a_mark_is() {
    let bundle = export(&[kernel(1, 10, 5, FIRST)]);
    bundle.describe("stages = 3");
    assert!(notes(&bundle)[0].starts_with("workload.toml is not used: "));
    bundle.describe(b"\xff");
    assert!(notes(&bundle)[0].starts_with("workload.toml is not used: "));
    bundle.describe("\u{feff}warmup = 1");
    assert_eq!(notes(&bundle), [""; 0]);
}

#[test]
fn an_unclosed_range_of_negative_times_ends_with_the_capture() {
    let range = format!("INSERT INTO NVTX_EVENTS VALUES (-200, NULL, 59, NULL, {FIRST}, 4, NULL)");
    let bundle = export(&[kernel(1, -100, 30, FIRST), call(-110, -100, FIRST), range]);
    assert_eq!(listed(&bundle, Some("decode")), ["a"]);
    let timeline = Timeline::of_bundle(bundle.folder.path()).expect("it is read");
    let ends: Vec<i64> = timeline
        .session
        .ranges
        .end
        .iter()
        .map(|end| end.0)
        .collect();
    assert_eq!(ends, [-70]);
}

#[test]
fn of_threads_with_as_many_updates_the_first_by_its_calls_tells_the_steps() {
    // Thread 2 comes first in the graph's nodes, which the analyzer alone reads, and thread 1 in the calls.
    let (one, two) = (FIRST | 1, FIRST | 2);
    let mut statements = vec![
        "CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, globalTid INTEGER, graphNodeId INTEGER)"
            .to_owned(),
        format!("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (0, {two}, 1)"),
        call(15, 1000, one),
        kernel(1, 1000, 5, FIRST),
        call(118, 2000, two),
        kernel(2, 2000, 5, FIRST),
    ];
    for end in [10, 20, 30] {
        for (thread, end) in [(one, end), (two, 100 + end)] {
            let start = end - 1;
            statements.push(format!(
                "INSERT INTO NVTX_EVENTS VALUES ({start}, {end}, 59, 'Optimizer.step#Adam.step', {thread}, NULL, 0)"
            ));
        }
    }
    // From 10 to 20 and to 30: the first step launches a, and the second one nothing.
    assert_eq!(listed(&export(&statements), Some("train_step")), ["a"]);
}

#[test]
fn a_call_without_a_name_is_skipped() {
    let range = format!("INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, NULL, {FIRST}, 4, NULL)");
    let statements = [
        kernel(1, 10, 5, FIRST),
        call(5, 10, FIRST),
        kernel(2, 30, 5, FIRST),
        call(25, 30, FIRST),
        range,
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = NULL WHERE start = 25".to_owned(),
    ];
    let bundle = export(&statements);
    assert!(notes(&bundle)[0].ends_with("row 2, nameId is NULL (1 in all)"));
    assert_eq!(listed(&bundle, Some("decode")), ["a"]);
}

#[test]
fn numbers_that_are_stored_as_reals_are_numbers() {
    let statements = [
        "CREATE TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL".to_owned(),
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL".to_owned(),
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, demangledName)"
            .to_owned(),
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10.0, 15, 0, 7, 1.0), (20, 25.5, 0, 7, 2)"
            .to_owned(),
    ];
    let bundle = export(&statements);
    assert!(notes(&bundle)[0].ends_with("row 2, end is 25.5 (1 in all)"));
    assert_eq!(listed(&bundle, None), ["a"]);
}

#[test]
fn a_column_of_another_case_is_another_column() {
    let rename = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO StreamID";
    let bundle = export(&[kernel(1, 10, 5, FIRST), rename.to_owned()]);
    assert_eq!(bundle.compare(&[]).of(Count::Refused), 1);
}

#[test]
fn a_damaged_table_that_decides_no_stage_costs_only_itself() {
    for table in [
        "OSRT_API (start INTEGER)",
        "TARGET_INFO_CUDA_DEVICE (gpuId INTEGER)",
        "META_DATA_EXPORT (value TEXT)",
        "NVTX_PAYLOAD_SCHEMA_ENTRIES (name TEXT)",
        "TARGET_INFO_SESSION_START_TIME (utcTime TEXT)",
    ] {
        let bundle = export(&[kernel(1, 10, 5, FIRST), format!("CREATE TABLE {table}")]);
        assert_eq!(listed(&bundle, None), ["a"], "{table}");
    }
}

#[test]
fn more_processes_than_a_machine_runs_are_refused() {
    let kernels = |count: i64| {
        let kernels = (0..count).map(|at| kernel(1, 10, 5, FIRST + (at << 24)));
        export(&kernels.collect::<Vec<_>>())
    };
    assert_eq!(kernels(256).compare(&[]).of(Count::Read), 1);
    let many = kernels(257);
    assert_eq!(many.compare(&[]).of(Count::Refused), 1);
    assert_eq!(
        refusal(&many),
        "the number of processes is 257, expected at most 256"
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let bundle = export(&["CREATE TABLE StringTable (id INTEGER)".to_owned()]);
    assert_eq!(bundle.compare(&[]).of(Count::Refused), 1);
}

/// The analyzer reads these with SQLite, which this program does without.
#[test]
fn what_only_sqlite_can_read_is_refused_with_the_reason() {
    let copies = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER,";
    for columns in [
        "bytes INTEGER DEFAULT 7)",
        "bytes INTEGER, twice INTEGER AS (2 * bytes))",
        "bytes INTEGER PRIMARY KEY) WITHOUT ROWID",
        "bytes INTEGER PRIMARY KEY DESC)",
        "bytes INTEGER, PRIMARY KEY (bytes))",
    ] {
        let bundle = export(&[kernel(1, 10, 5, FIRST), format!("{copies} {columns}")]);
        let reason = "CUPTI_ACTIVITY_KIND_MEMCPY is no ordinary table";
        assert_eq!(refusal(&bundle), reason, "{columns}");
    }
    let bundle = export(&[kernel(1, 10, 5, FIRST)]);
    let mut journal = bundle.export().into_os_string();
    journal.push("-wal");
    std::fs::write(journal, "x").expect("writable");
    assert!(refusal(&bundle).contains("a journal (-wal)"));
}

#[test]
fn a_key_is_a_column_of_its_name() {
    for key in ["INTEGER PRIMARY KEY", "integer not null primary key"] {
        let statements = [
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL".to_owned(),
            format!(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (deviceId INTEGER, streamId INTEGER,
                 demangledName INTEGER, start {key}, end INTEGER)"
            ),
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 7, 2, 10, 15)".to_owned(),
        ];
        let bundle = export(&statements);
        assert_eq!(listed(&bundle, None), ["b"], "{key}");
    }
}

#[test]
fn counts_are_of_what_was_compared() {
    let bundle = export(&[kernel(1, 10, 5, FIRST)]);
    // The whole capture, its one stage by name, and a stage that is not there.
    let expected = [
        (Count::Read, 1),
        (Count::Listed, 1),
        (Count::Skipped, 0),
        (Count::Stages, 1),
        (Count::Instances, 1),
        (Count::Excluded, 0),
        (Count::Inferred, 0),
        (Count::Requests, 3),
        (Count::Lists, 2),
    ];
    assert_eq!(bundle.compare(&["nothing"]), Counts(expected.into()));
}
