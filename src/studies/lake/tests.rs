use std::fs;
use std::path::Path;

use rooflens_diagnostic::Diagnostics;
use rooflens_document::dataset::Column as Head;
use rooflens_document::report::{Meta, Report, Subject};
use rooflens_document::{Catalogue, Cell, Dataset};
use rooflens_query::{Database, Value};
use rooflens_schemas::Unit;
use rooflens_units::Time;
use tempfile::TempDir;

use super::files::read;
use super::lake::texts;
use super::present::day_number;
use super::schema::{Column, KEY, TABLES, table};
use super::{Added, Fleet, Lake, LakeError, Unread, results};

/// A report of one kernel.
fn report(number: u32, time: &str) -> Report {
    let kernels = Dataset {
        id: "kernels",
        title: String::new(),
        columns: vec![
            Head::text("short", ""),
            Head::new("total_ns", "", Unit::Nanoseconds),
        ],
        rows: vec![vec![Cell::from("gemm"), Cell::Int(i64::from(number))]],
    };
    Report {
        meta: Meta {
            bundle: format!("run {number}"),
            bundle_id: format!("{number:064x}"),
            captured_at: Some(time.to_owned()).filter(|time| !time.is_empty()),
            subject: Subject {
                gpu: "NVIDIA H200".to_owned(),
                gpus: 8,
                ..Subject::default()
            },
            ..Meta::default()
        },
        datasets: vec![kernels],
        ..Report::default()
    }
}

fn add(lake: &Lake, report: &Report) -> Vec<Added> {
    let staged = lake.stage(&results(report).unwrap()).unwrap();
    lake.publish(vec![staged]).unwrap()
}

fn columns(name: &str) -> Vec<&'static Column> {
    table(name).unwrap().all_columns().collect()
}

/// The captures of the kernels of all folders, sorted.
fn captures(root: &Path) -> Vec<String> {
    let lake = Lake::open(root).unwrap();
    let mut captures = Vec::new();
    for batch in lake.batches().unwrap() {
        let frame = read(&batch.path.join("kernels.parquet"), &columns("kernels")).unwrap();
        captures.extend(texts(&frame, "capture"));
    }
    captures.sort();
    captures
}

#[test]
fn a_row_has_the_key_of_its_capture_and_the_cells_of_its_data_set() {
    let folder = TempDir::new().unwrap();
    let files = results(&report(1, "2026-11-21T01:06:27Z")).unwrap();
    let names: Vec<&String> = files.keys().collect();
    assert_eq!(
        names,
        ["results/captures.parquet", "results/kernels.parquet"]
    );
    let path = folder.path().join("kernels.parquet");
    fs::write(&path, &files["results/kernels.parquet"]).unwrap();
    let frame = read(&path, &columns("kernels")).unwrap();
    assert_eq!(texts(&frame, "run"), ["run 1"]);
    assert_eq!(texts(&frame, "gpu"), ["NVIDIA H200"]);
    assert_eq!(texts(&frame, "short"), ["gemm"]);
    let number = |name: &str| frame.column(name).unwrap().get(0).unwrap().to_string();
    assert_eq!(
        (number("gpus"), number("total_ns")),
        ("8".into(), "1.0".into())
    );
    // What is not known is missing, not empty and not zero.
    for name in ["model", "commit", "name", "count"] {
        assert!(
            frame.column(name).unwrap().get(0).unwrap().is_null(),
            "{name}"
        );
    }
}

#[test]
fn a_report_of_no_capture_has_no_results() {
    let mut report = report(1, "");
    report.meta.bundle_id = "../../etc".to_owned();
    assert!(matches!(results(&report), Err(LakeError::NoCapture)));
}

#[test]
fn a_capture_is_added_once_whoever_adds_it_and_when() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::create(folder.path()).unwrap();
    let other = Lake::create(folder.path()).unwrap();
    let first = report(1, "2026-11-21T01:06:27Z");
    let staged = [&lake, &other].map(|lake| lake.stage(&results(&first).unwrap()).unwrap());
    let [one, two] = staged;
    assert_eq!(lake.publish(vec![one]).unwrap(), [Added::New]);
    assert_eq!(other.publish(vec![two]).unwrap(), [Added::Known]);
    assert_eq!(add(&lake, &report(2, "")), [Added::New]);
    assert!(folder.path().join("month=unknown").is_dir());
    assert!(matches!(
        Lake::compact(folder.path()),
        Err(LakeError::Busy { .. })
    ));
    drop((lake, other));
    assert_eq!(
        captures(folder.path()),
        [1, 2].map(|number| format!("{number:064x}"))
    );
}

#[test]
fn compaction_keeps_every_row_and_what_was_added_stays_known() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    let lake = Lake::create(root).unwrap();
    for number in 1..=5 {
        add(&lake, &report(number, "2026-10-01T00:00:00Z"));
    }
    add(&lake, &report(6, "2026-11-01T00:00:00Z"));
    // What a killed writer leaves.
    fs::create_dir(root.join("_staging/add-left")).unwrap();
    drop(lake);
    let before = captures(root);
    let compacted = Lake::compact(root).unwrap();
    assert_eq!((compacted.folders, compacted.errors.len()), (5, 0));
    assert!(!root.join("_staging/add-left").exists());
    assert_eq!(captures(root), before);
    let lake = Lake::create(root).unwrap();
    assert_eq!(lake.batches().unwrap().len(), 2);
    let known: Vec<String> = lake.captures().unwrap().into_iter().collect();
    assert_eq!(known, before);
    add(&lake, &report(7, "2026-10-02T00:00:00Z"));
    drop(lake);
    assert_eq!(Lake::compact(root).unwrap().folders, 2);
    assert_eq!(captures(root).len(), 7);
}

#[test]
fn a_damaged_file_is_named_and_costs_its_month_the_compaction_and_no_row() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    let lake = Lake::create(root).unwrap();
    for number in 1..=2 {
        add(&lake, &report(number, "2026-10-01T00:00:00Z"));
        add(&lake, &report(number + 2, "2026-11-01T00:00:00Z"));
    }
    let damaged = lake.batches().unwrap()[0].path.join("kernels.parquet");
    fs::write(&damaged, b"PAR1 and no footer").unwrap();
    drop(lake);
    let compacted = Lake::compact(root).unwrap();
    assert_eq!(compacted.folders, 2);
    let [error] = &compacted.errors[..] else {
        panic!("{:?}", compacted.errors);
    };
    assert!(error.to_string().contains("kernels.parquet"), "{error}");
    assert_eq!(Lake::open(root).unwrap().captures().unwrap().len(), 4);
}

#[test]
fn a_statement_has_the_rows_that_can_be_read_and_the_file_that_cannot() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::create(folder.path()).unwrap();
    for number in 1..=3 {
        add(&lake, &report(number, "2026-10-01T00:00:00Z"));
    }
    let damaged = lake.batches().unwrap()[1].path.join("kernels.parquet");
    fs::write(&damaged, b"PAR1 and no footer").unwrap();
    let unread = Unread::default();
    let sql = "select short, total_ns, gpus from kernels order by total_ns";
    let tables = lake.copied(sql, &unread).unwrap();
    let database = Database::of_rows(tables, 1 << 30, || false).unwrap();
    let answers = database.ask(sql, 10).unwrap();
    let row = |time: f64| {
        let name = Value::Text("gemm".to_owned());
        vec![Some(name), Some(Value::Float(time)), Some(Value::Int(8))]
    };
    assert_eq!(answers[0].rows, [row(1.0), row(3.0)]);
    let unread = unread.into_inner();
    assert_eq!(unread.keys().collect::<Vec<_>>(), [&damaged]);
}

/// Three captures with the rows of [`report`] and more: kernels without a name, without a time, and with long names.
fn lake_of_kernels(root: &Path) -> Lake {
    let lake = Lake::create(root).unwrap();
    for number in 1..=3 {
        let mut report = report(number, "2026-10-01T00:00:00Z");
        let kernels = &mut report.datasets[0];
        kernels.columns.push(Head::text("class", ""));
        kernels.columns.push(Head::new("count", "", Unit::Count));
        kernels.rows.clear();
        let rows = [
            ("gemm_of_a_long_name", Some(1.5), "gemm", Some(4)),
            ("gemm_of_a_long_name", None, "", Some(-1)),
            ("", Some(0.25), "copy", None),
            ("copy", Some(f64::NAN), "copy", Some(i64::from(number))),
        ];
        for (name, time, class, count) in rows {
            let text = |text: &str| match text {
                "" => Cell::Missing,
                text => Cell::from(text),
            };
            let time = time.map_or(Cell::Missing, Cell::Float);
            let count = count.map_or(Cell::Missing, Cell::Int);
            kernels
                .rows
                .push(vec![text(name), time, text(class), count]);
        }
        add(&lake, &report);
    }
    lake
}

/// The rows that SQL gets of a table, and the answer to a statement.
fn answered(lake: &Lake, sql: &str) -> (usize, Vec<Vec<Option<Value>>>) {
    let unread = Unread::default();
    let tables = lake.copied(sql, &unread).unwrap();
    let database = Database::of_rows(tables, 1 << 30, || false).unwrap();
    let rows = database.tables().iter().map(|table| table.rows).sum();
    (rows, database.ask(sql, 100).unwrap().remove(0).rows)
}

#[test]
fn sums_are_of_all_rows_and_fewer_rows_are_stored() {
    let folder = TempDir::new().unwrap();
    let lake = lake_of_kernels(folder.path());
    let sql = "select short, sum(total_ns), sum(count), max(class) from kernels group by short order by short";
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let expected = [
        vec![None, Some(Value::Float(0.75)), None, text("copy")],
        vec![text("copy"), None, Some(Value::Int(6)), text("copy")],
        vec![
            text("gemm_of_a_long_name"),
            Some(Value::Float(4.5)),
            Some(Value::Int(9)),
            text("gemm"),
        ],
    ];
    assert_eq!(answered(&lake, sql), (3, expected.to_vec()));
}

#[test]
fn a_statement_has_the_same_answer_from_sums_and_from_rows() {
    let folder = TempDir::new().unwrap();
    let lake = lake_of_kernels(folder.path());
    for sums in [
        "select sum(count) from kernels",
        "select sum(count), min(short), max(total_ns) from kernels where class = 'copy'",
        "select short, class, sum(count) from kernels where class <> 'copy' group by short, class order by short, class",
        "select min(total_ns), max(class), sum(count) from kernels where short is null",
        "select capture, gpus, max(count) as most from kernels group by capture, gpus order by most desc, capture",
        "select short, sum(count) from kernels group by short having sum(count) > 6",
        "select max(count), short from kernels where short = 'none'",
    ] {
        // A number of rows is refused, and says nothing here.
        let rows = sums.replacen("select ", "select count(*), ", 1);
        let (few, of_sums) = answered(&lake, sums);
        let (all, of_rows) = answered(&lake, &rows);
        let of_rows: Vec<_> = of_rows.iter().map(|row| row[1..].to_vec()).collect();
        assert_eq!((of_sums, all), (of_rows, 12), "{sums}");
        assert!(few < all || sums.contains("capture"), "{sums}: {few} rows");
    }
}

#[test]
fn a_sum_that_no_integer_holds_is_an_error_from_sums_too() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::create(folder.path()).unwrap();
    let mut report = report(1, "");
    let kernels = &mut report.datasets[0];
    kernels.columns[1] = Head::new("count", "", Unit::Count);
    kernels.rows = vec![vec![Cell::from("gemm"), Cell::Int(i64::MAX)]; 3];
    add(&lake, &report);
    let sql = "select sum(count) from kernels";
    let unread = Unread::default();
    let tables = lake.copied(sql, &unread).unwrap();
    let database = Database::of_rows(tables, 1 << 30, || false).unwrap();
    let error = database.ask(sql, 1).unwrap_err();
    assert!(error.to_string().contains("overflow"), "{error}");
    assert_eq!(
        answered(&lake, "select max(count) from kernels").1,
        [[Some(Value::Int(i64::MAX))]]
    );
}

#[test]
fn all_ranks_of_the_longest_run_count_and_a_kernel_counts_once() {
    let mut report = report(1, "");
    let columns = ["short", "name", "pass"].map(|id| Head::text(id, ""));
    let mut kernels = Dataset {
        id: "kernels",
        title: String::new(),
        columns: columns.to_vec(),
        rows: Vec::new(),
    };
    kernels
        .columns
        .push(Head::new("total_ns", "", Unit::Nanoseconds));
    // The first run takes less time than both ranks of the second together, and more than one.
    let rows = [
        ("nsys", "gemm", 5),
        ("torch · rank 0", "gemm", 3),
        ("torch · rank 1", "gemm", 3),
        ("torch · rank 1", "copy", 1),
    ];
    for (pass, name, time) in rows {
        let texts = ["", name, pass].map(Cell::from);
        kernels
            .rows
            .push(texts.into_iter().chain([Cell::Int(time)]).collect());
    }
    report.datasets = vec![kernels];
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kernels.parquet");
    fs::write(&path, &results(&report).unwrap()["results/kernels.parquet"]).unwrap();
    let frame = read(&path, &self::columns("kernels")).unwrap();
    let numbers = |name: &str| -> Vec<Option<i64>> {
        frame.column(name).unwrap().i64().unwrap().iter().collect()
    };
    assert_eq!(numbers("counted"), [0, 1, 1, 1].map(Some));
    assert_eq!(numbers("once"), [0, 1, 0, 1].map(Some));
}

/// A data set with a text or a number a cell: numbers are whole.
fn dataset(id: &'static str, columns: &[&'static str], rows: &[&[&str]]) -> Dataset {
    let cell = |text: &&str| match text.parse() {
        Ok(number) => Cell::Int(number),
        Err(_) => Cell::from(*text),
    };
    Dataset {
        id,
        title: String::new(),
        columns: columns.iter().map(|id| Head::text(id, "")).collect(),
        rows: rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect(),
    }
}

fn account(rows: &[&[&str]]) -> Dataset {
    dataset("account", &["kind", "label", "ns"], rows)
}

fn bounds(rows: &[&[&str]]) -> Dataset {
    dataset("findings", &["rule", "saved_ns", "weight_ns"], rows)
}

fn fleet(reports: &[Report]) -> Fleet {
    let folder = TempDir::new().unwrap();
    let lake = Lake::create(folder.path()).unwrap();
    for report in reports {
        add(&lake, report);
    }
    let unread = Unread::default();
    let fleet = Fleet::read(&lake, &unread).unwrap();
    assert!(unread.into_inner().is_empty());
    fleet
}

/// 60 ns within stages on 8 GPUs; a rule with bounds of 5 and 4 ns, and a finding without one.
fn in_stages() -> Report {
    let mut report = report(1, "2026-11-21T01:06:27Z");
    report.datasets = vec![
        account(&[
            &["pass", "nsys", "160"],
            &["before stages", "", "100"],
            &["no operation", "", "100"],
            &["stage", "decode", "60"],
            &["measured iterations", "decode", "60"],
            &["busy", "", "40"],
            &["kernel class", "gemm", "30"],
            &["operation", "nvjet", "30"],
            &["kernel class", "communication", "10"],
            &["idle cause", "host code", "20"],
        ]),
        bounds(&[
            &["launch-bound", "1", "5"],
            &["launch-bound", "1", "4"],
            &["stage-busy", "", "7"],
        ]),
    ];
    let saved = &mut report.datasets[1].rows[2][1];
    *saved = Cell::Missing;
    report
}

#[test]
fn gpu_time_is_that_of_stages_and_a_rule_counts_once_a_capture() {
    let fleet = fleet(&[in_stages()]);
    let all = fleet.groups(|capture| std::slice::from_ref(&capture.gpu));
    assert_eq!((all.len(), fleet.time()), (1, Time(60.0)));
    assert_eq!(all[0].parts(), [30.0, 10.0, 20.0].map(Time));
    // 5 ns of all 8 GPUs.
    assert_eq!(all[0].largest(), Some(("launch-bound", Time(40.0))));
    assert_eq!(fleet.bounds().len(), 1);
    let text = Catalogue::keys_and_arguments();
    let report = super::report(&fleet, "lake", text, &Diagnostics::default());
    assert_eq!(
        report.meta.title,
        "fleet.conclusion{idle=33.3 %, bound=66.7 %, cause=launch_bound.cause}"
    );
    assert!(matches!(results(&report), Err(LakeError::NoCapture)));
}

#[test]
fn a_capture_counts_with_the_hours_that_its_label_states() {
    let mut other = report(2, "");
    let labels = [["label", "gpu_hours", "2"], ["label", "team", "vision"]];
    let labels: Vec<&[&str]> = labels.iter().map(|label| &label[..]).collect();
    other.datasets = vec![
        dataset("environment", &["subject", "key", "value"], &labels),
        // Without stages, all of it counts.
        account(&[
            &["before stages", "", "100"],
            &["kernel class", "gemm", "25"],
            &["idle cause", "launching", "75"],
        ]),
        bounds(&[&["launch-bound", "900", "900"]]),
    ];
    let fleet = fleet(&[in_stages(), other]);
    let hours = 7.2e12;
    assert_eq!(fleet.time(), Time(60.0 + hours));
    let teams = fleet.groups(|capture| &capture.labels);
    let [team] = &teams[..] else {
        panic!("{teams:?}");
    };
    assert_eq!(team.name, "team=vision");
    assert_eq!(team.parts(), [0.25 * hours, 0.0, 0.75 * hours].map(Time));
    // A bound is at most the GPU time, and the capture with the largest one is first.
    let bounds = &fleet.bounds()[0].captures;
    let bounds: Vec<Time> = bounds.iter().map(|(_, time)| *time).collect();
    assert_eq!(bounds, [Time(hours), Time(40.0)]);
}

#[test]
fn a_stage_that_takes_longer_from_a_day_on_is_a_trend_and_noise_is_none() {
    let noise = [
        1000, 1020, 990, 1010, 980, 1000, 1010, 990, 1020, 1000, 1010, 985,
    ];
    let times = |factor: f64| noise.map(|time| (f64::from(time) * factor) as i64);
    let reports = |days: &[i64]| {
        let mut reports = Vec::new();
        for (number, time) in days.iter().enumerate() {
            let day = format!("2026-03-{:02}T10:00:00Z", number + 1);
            let mut report = report(number as u32, &day);
            let row = ["decode", &time.to_string()].map(str::to_owned);
            let row: Vec<&str> = row.iter().map(String::as_str).collect();
            report.datasets = vec![dataset("headline", &["stage", "unprofiled_ns"], &[&row])];
            reports.push(report);
        }
        reports
    };
    let same = [times(1.0), times(1.0)].concat();
    assert!(fleet(&reports(&same)).changed.is_empty());
    let slower = fleet(&reports(&[times(1.0), times(1.5)].concat()));
    let [series] = &slower.changed[..] else {
        panic!("{:?}", slower.changed);
    };
    let [change] = &series.changes[..] else {
        panic!("{:?}", series.changes);
    };
    assert_eq!(series.points[change.at].day, "2026-03-13");
    assert!((change.ratio.0 - 1.5).abs() < 0.02, "{change:?}");
}

#[test]
fn days_are_counted_as_calendars_do() {
    let days = ["1970-01-01", "2000-02-29", "2026-11-29", "2026-03"].map(day_number);
    // Python: (date.fromisoformat(day) - date(1970, 1, 1)).days
    assert_eq!(days, [0, 11_016, 20_786, 20_513]);
}

#[test]
fn columns_are_named_once_and_by_their_unit() {
    for table in TABLES {
        let mut names: Vec<&str> = table.all_columns().map(|column| column.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", table.name);
        for column in table.columns {
            let is_time = column.name.ends_with("_ns") || column.name == "ns";
            assert_eq!(
                is_time,
                column.unit == "ns",
                "{}.{}",
                table.name,
                column.name
            );
        }
    }
    assert!(TABLES.is_sorted_by_key(|table| table.name));
    assert_eq!(KEY[0].name, "capture");
}

#[test]
fn a_folder_without_a_lake_is_named() {
    let folder = TempDir::new().unwrap();
    for root in [folder.path().join("missing"), folder.path().to_owned()] {
        let errors = [Lake::open(&root).err(), Lake::compact(&root).err()];
        for error in errors {
            assert!(matches!(error, Some(LakeError::Missing { path }) if path == root));
        }
    }
}
