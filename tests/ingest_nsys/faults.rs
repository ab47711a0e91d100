//! What is missing, broken, or no export at all.

use rooflens::diagnostic::Severity;
use rooflens::ingest::IngestErrorKind;
use rooflens::session::Ns;

use super::*;

#[test]
fn a_needed_column_that_is_missing_is_named() {
    let bare = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, deviceId INTEGER)";
    let error = import_bytes(&database(&[STRINGS, bare]))
        .map(|_| ())
        .expect_err("no end");
    assert_eq!(
        error.to_string(),
        "column end of CUPTI_ACTIVITY_KIND_KERNEL is missing"
    );
}

#[test]
fn what_nsys_says_of_itself_is_passed_on() {
    let table = "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER,
        source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, 1, 'all is well', NULL),
        (0, 1, 1, 2, 'No NVTX events collected.', NULL), (0, 1, 1, 3, 'CUDA events were dropped', NULL)";
    let read = import(&[STRINGS, table, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    let expected = [
        ("nsys/message", Severity::Notice, 1),
        ("nsys/message", Severity::DataLoss, 1),
        ("nsys/no-ranges", Severity::Notice, 1),
    ];
    assert_eq!(read.codes(), expected);
    let messages = read.messages();
    assert_eq!(messages[0], "nsys says: No NVTX events collected.");
    assert_eq!(messages[1], "nsys says: CUDA events were dropped");
}

#[test]
fn that_a_launcher_marks_no_range_is_not_passed_on() {
    let launcher = global(9, 0);
    let worker = global(5, 0);
    let said = |process: i64, text: &str| format!("(0, 1, 1, 2, '{text}', {process})");
    let table = format!(
        "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER,
        source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER);
        INSERT INTO DIAGNOSTIC_EVENT VALUES {}, {}, {}, {}",
        said(
            launcher,
            "No NVTX events collected. Does the process use NVTX?"
        ),
        said(
            launcher,
            "No CUDA events collected. Does the process use CUDA?"
        ),
        said(launcher, "Something else"),
        said(worker, "No OpenGL events collected."),
    );
    let messages = |parts: &[&str]| {
        let read = import(parts);
        let all = read.messages();
        let said = all
            .iter()
            .filter_map(|message| message.strip_prefix("nsys says: "));
        said.map(|message| message.chars().take(9).collect::<String>())
            .collect::<Vec<_>>()
    };
    let kernel = kernel(1, 2, 3, worker);
    let with_work = messages(&[STRINGS, &table, KERNELS_2020, &kernel]);
    assert_eq!(with_work, ["No CUDA e", "Something", "No OpenGL"]);
    // Where nothing ran on a GPU, any process may be the one that matters.
    let without = messages(&[STRINGS, &table]);
    assert_eq!(
        without,
        ["No NVTX e", "No CUDA e", "Something", "No OpenGL"]
    );
}

#[test]
fn rows_of_wrong_types_are_left_out_and_counted() {
    let process = global(5, 0);
    let rows = [
        kernel(10, 20, 1, process),
        kernel(30, 25, 2, process),
        kernel(40, 50, 3, process).replace("(40,", "('soon',"),
        kernel(60, 70, 4, process).replace(" 128,", " 5000000000,"),
        kernel(80, 90, 5, process).replace("(80,", "(80.5,"),
        kernel(100, 110, 6, process).replace("(100,", "(100.0,"),
    ];
    let mut all = vec![STRINGS, KERNELS_2020];
    all.extend(rows.iter().map(String::as_str));
    let read = import(&all);
    // 100.0 is a whole number.
    assert_eq!(read.session.launches.start, [Ns(10), Ns(100)]);
    assert_eq!(read.codes()[0], ("nsys/bad-rows", Severity::DataLoss, 4));
    let message = "rows of CUPTI_ACTIVITY_KIND_KERNEL that make no sense are skipped; \
                   the first: row 2, end 25 lies before start 30";
    assert_eq!(read.messages()[0], message);
    let message = |at: usize| {
        let read = import(&[STRINGS, KERNELS_2020, &rows[at]]);
        read.messages()[0].rsplit(": ").next().map(str::to_owned)
    };
    assert_eq!(
        message(2).as_deref(),
        Some("row 1, start is the text \"soon\"")
    );
    assert_eq!(message(3).as_deref(), Some("row 1, blockX is 5000000000"));
    assert_eq!(message(4).as_deref(), Some("row 1, start is 80.5"));
}

#[test]
fn what_is_no_export_is_refused() {
    let other = database(&["CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT)"]);
    let error = import_bytes(&other)
        .map(|_| ())
        .expect_err("songs are no profile");
    assert!(
        matches!(error.kind, IngestErrorKind::Unsupported(_)),
        "{error}"
    );
    let empty = import_bytes(b"SQLite format 3\0")
        .map(|_| ())
        .expect_err("16 bytes");
    assert!(matches!(empty.kind, IngestErrorKind::Truncated), "{empty}");
}

#[test]
fn an_export_that_is_cut_off_is_refused() {
    let bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    for length in [0, 99, 4096, bytes.len() - 4096, bytes.len() - 1] {
        let error = import_bytes(&bytes[..length])
            .map(|_| ())
            .expect_err("cut off");
        assert!(
            matches!(error.kind, IngestErrorKind::Truncated),
            "{length}: {error}"
        );
    }
}

#[test]
fn a_page_that_is_no_page_is_named() {
    let mut bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    // Page 1 is the schema, 2 the strings, 3 the kernels.
    bytes[2 * 4096] = 0x77;
    let error = import_bytes(&bytes)
        .map(|_| ())
        .expect_err("page 3 is broken");
    assert!(
        matches!(error.kind, IngestErrorKind::MalformedPage { page: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_journal_next_to_the_file_is_mentioned() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("timeline.sqlite");
    let bytes = database(&[STRINGS, KERNELS_2020, &kernel(1, 2, 3, global(5, 0))]);
    std::fs::write(&path, bytes).expect("the file can be written");
    std::fs::write(folder.path().join("timeline.sqlite-wal"), "x").expect("so can the journal");
    let imported = read(&path).expect("the export is read");
    assert_eq!(imported.codes()[0], ("nsys/journal", Severity::Notice, 1));
}
