use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rooflens_document::{Cell, Column};
use rooflens_schemas::{PassKind, Unit};
use rooflens_session::{ApiCall, ApiLevel, Dim3, Launch, Ns, Session};

use super::*;

/// Three launches of two kernels: `gemm` runs 10 and 30 ns, `copy` 5 ns; two calls, one nested.
fn session() -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/a.sqlite");
    let process = session.process(pass, 7, 42);
    let thread = session.thread(process, 42);
    let gpu = session.gpu(pass, 0);
    let (gemm, copy) = (
        session.kernel("gemm<float>", "gemm"),
        session.kernel("copy", ""),
    );
    for (start, end, kernel) in [(0, 10, gemm), (10, 15, copy), (20, 50, gemm)] {
        session.launches.push(Launch {
            start: Ns(start),
            end: Ns(end),
            kernel,
            pass,
            gpu,
            process,
            stream: 7,
            correlation: (kernel == gemm).then_some(start + 99),
            grid: Dim3 { x: 4, y: 2, z: 1 },
            block: Dim3 { x: 128, y: 1, z: 1 },
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }
    let name = session.intern("cudaLaunchKernel");
    for (correlation, nested) in [(99, false), (119, true)] {
        session.api_calls.push(ApiCall {
            start: Ns(correlation - 100),
            end: Ns(correlation - 98),
            name,
            level: ApiLevel::Runtime,
            nested,
            pass,
            process,
            thread,
            correlation: Some(correlation),
        });
    }
    session
}

fn database() -> Database {
    Database::new(&Arc::new(session()), &[], MEMORY, || false).expect("SQLite is set up")
}

/// The cells of an answer, columns divided by `|`, rows by lines.
fn ask(sql: &str) -> String {
    let answers = database()
        .ask(sql, usize::MAX)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let cell = |cell: &Option<Value>| cell.as_ref().map_or("-".to_owned(), Value::to_string);
    let line = |row: &Vec<Option<Value>>| row.iter().map(cell).collect::<Vec<_>>().join("|");
    answers
        .iter()
        .flat_map(|answer| &answer.rows)
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn error(sql: &str) -> String {
    match database().ask(sql, usize::MAX) {
        Ok(answers) => panic!("{sql}: {answers:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn durations_sum_by_kernel_name() {
    // gemm: 10 + 30 = 40; copy: 5.
    let sql = "select name, count(*), sum(duration) from launches group by name order by 3 desc";
    assert_eq!(ask(sql), "gemm<float>|2|40\ncopy|1|5");
}

#[test]
fn joins_subqueries_windows_and_common_table_expressions() {
    let sql = "select l.id, k.short_name, g.ordinal from launches l join kernels k on l.kernel = k.id \
               join gpus g on l.gpu = g.id order by l.id";
    assert_eq!(ask(sql), "0|gemm|0\n1||0\n2|gemm|0");
    // Ends of the launches before: 0 to 10 to 10, 15 to 20.
    let sql = "select start - lag(\"end\") over (order by start) as gap from launches";
    assert_eq!(ask(sql), "-\n0\n5");
    let sql = "with sums as (select kernel, sum(duration) as ns from launches group by kernel) \
               select name, ns from kernels join sums on kernel = id where ns > (select avg(ns) from sums)";
    assert_eq!(ask(sql), "gemm<float>|40");
    let sql = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4) select sum(i) from n";
    assert_eq!(ask(sql), "10");
}

#[test]
fn conditions_find_the_same_rows_by_an_index_as_without() {
    // The unary plus keeps SQLite from asking the table.
    for (condition, rows) in [
        ("correlation = 99", "0"),
        ("correlation = 119.0", "2"),
        ("correlation = 99.5", ""),
        ("correlation = null", ""),
        ("correlation is null", "1"),
        ("start >= 10", "1\n2"),
        ("start > 10", "2"),
        ("start < 10.5", "0\n1"),
        ("start between 1 and 19", "1"),
        ("start > 100 and start < 10", ""),
        ("id = 1", "1"),
        ("id = -1", ""),
        ("id > 0 and id < 9223372036854775807", "1\n2"),
        ("rowid <= 1", "0\n1"),
        ("id in (2, 0, 7)", "0\n2"),
        ("name = 'copy'", "1"),
        ("name = 'COPY'", ""),
        ("name = 'COPY' collate nocase", "1"),
        ("kernel = 0 and start > 5", "2"),
    ] {
        assert_eq!(
            ask(&format!(
                "select id from launches where {condition} order by id"
            )),
            rows,
            "{condition}"
        );
        let (column, rest) = condition.split_once(' ').expect("a column and the rest");
        let plain = format!("select id from launches where +{column} {rest} order by id");
        assert_eq!(ask(&plain), rows, "{plain}");
    }
    assert_eq!(ask("select id from launches where correlation = '99'"), "0");
    assert_eq!(
        ask("select id from api_calls where level = 'runtime' and nested = true"),
        "1"
    );
    let sql = "select l.id, a.id from launches l join api_calls a on l.correlation = a.correlation and l.pass = a.pass";
    assert_eq!(ask(sql), "0|0\n2|1");
}

#[test]
fn truth_is_truth_and_missing_is_missing() {
    let answers = database()
        .ask("select id, nested, correlation > 100 from api_calls", 9)
        .expect("an answer");
    let (bool, int) = (
        |value| Some(Value::Bool(value)),
        |value| Some(Value::Int(value)),
    );
    let expected = [
        vec![int(0), bool(false), int(0)],
        vec![int(1), bool(true), int(1)],
    ];
    assert_eq!(answers[0].rows, expected);
    assert_eq!(
        ask("select correlation, registers, grid_x, block_x from launches where id < 2"),
        "99|-|4|128\n-|-|4|128"
    );
    assert_eq!(ask("select count(*) from operators"), "0");
}

#[test]
fn quantiles_are_those_of_duckdb() {
    // 5, 10, 30: half at 10; 0.9 × 2 = 1.8, so 10 + 0.8 × 20; deviations from 15: √((100 + 25 + 225) ÷ 2).
    let sql = "select median(duration), quantile_cont(duration, 0.9), round(stddev(duration), 6), sqrt(9), median(registers) from launches";
    assert_eq!(ask(sql), "10|26|13.228757|3|-");
    assert_eq!(
        error("select quantile_cont(duration, 2) from launches"),
        "a share of quantile_cont is from 0 to 1"
    );
}

#[test]
fn the_catalogue_describes_every_column() {
    let sql = "select \"column\", type, unit, description from columns where \"table\" = 'launches' and \"column\" in ('duration', 'kernel', 'grid_y')";
    let expected = "kernel|integer||Kernel.\ngrid_y|integer||Blocks in the grid along y.\nduration|integer|ns|End − start, nanoseconds.";
    assert_eq!(ask(sql), expected);
    assert_eq!(
        ask("select count(*) from columns where description = ''"),
        "0"
    );
    assert_eq!(
        ask("select count(*) from sqlite_schema where name = 'launches'"),
        "1"
    );
    assert_eq!(
        ask("select name from pragma_table_info('kernels')"),
        "id\nname\nshort_name"
    );
}

#[test]
fn answers_are_cut_at_the_limit() {
    let cut = |limit| {
        let answer = database()
            .ask("select id from launches", limit)
            .expect("an answer")
            .remove(0);
        (answer.rows.len(), answer.cut)
    };
    assert_eq!((cut(2), cut(3), cut(0)), ((2, true), (3, false), (0, true)));
}

#[test]
fn a_query_is_stopped_when_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let stop = move || counted.fetch_add(1, Ordering::Relaxed) == 3;
    let database =
        Database::new(&Arc::new(session()), &[], MEMORY, stop).expect("SQLite is set up");
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    assert!(matches!(database.ask(endless, 1), Err(QueryError::Stopped)));
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[test]
fn unknown_names_lead_to_near_ones() {
    assert_eq!(
        error("select * from launche"),
        "there is no table `launche`; did you mean launches, graph_launches?"
    );
    for sql in [
        "select nam from kernels",
        "select k.nam from kernels k",
        "select id from kernels where \"nam\" = 'x'",
    ] {
        assert_eq!(
            error(sql),
            "there is no column `nam` in kernels; did you mean name, short_name?",
            "{sql}"
        );
    }
    assert_eq!(
        error("select qqq from kernels"),
        "there is no column `qqq` in kernels; columns: id, name, short_name"
    );
}

#[test]
fn errors_of_syntax_point_at_the_place() {
    assert_eq!(
        error("select id\nfrom launches wher id = 1"),
        "near \"id\": syntax error\nfrom launches wher id = 1\n                   ^"
    );
    assert_eq!(
        error("select foo(id) from kernels"),
        "no such function: foo\nselect foo(id) from kernels\n       ^"
    );
    for sql in [
        "selec 1",
        "(((((",
        "select 'a",
        &format!("select {}1", "1+".repeat(9000)),
    ] {
        assert!(
            matches!(database().ask(sql, 1), Err(QueryError::Sql(_))),
            "{sql}"
        );
    }
}

#[test]
fn statements_only_read() {
    let folder = std::env::temp_dir().join(format!("rooflens-query-{}", std::process::id()));
    let path = folder.display();
    for sql in [
        format!("attach '{path}' as other"),
        format!("vacuum into '{path}'"),
        format!("select load_extension('{path}')"),
        "insert into kernels values (1)".to_owned(),
        "delete from columns".to_owned(),
        "create table t(a)".to_owned(),
        "create temp table t as select 1".to_owned(),
        "create virtual table t using fts5(a)".to_owned(),
        "drop table launches".to_owned(),
        "pragma writable_schema = on".to_owned(),
        "pragma temp_store_directory = '/'".to_owned(),
        "begin".to_owned(),
    ] {
        let error = database().ask(&sql, 1).expect_err(&sql);
        assert!(matches!(error, QueryError::NotRead), "{sql}: {error}");
    }
    assert!(!folder.exists());
    assert!(matches!(
        database().ask("select readfile('/etc/passwd')", 1),
        Err(QueryError::Sql(_))
    ));
    let large = "select hex(zeroblob(60000000))";
    assert!(matches!(database().ask(large, 1), Err(QueryError::Memory)));
}

#[test]
fn several_statements_give_several_answers() {
    let answers = database()
        .ask("select 1; -- one\n select 2 as b;", 9)
        .expect("answers");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].columns, ["b"]);
    let twice = database()
        .ask("select 1 as a, 2 as a, 3 as a", 9)
        .expect("an answer");
    assert_eq!(twice[0].columns, ["a", "a_1", "a_2"]);
    assert!(database().ask("", 9).expect("nothing").is_empty());
}

/// A data set with the name of a table of the session: one row of each kind of cell, and one with cells missing.
#[test]
fn data_sets_of_the_report_are_tables_of_their_own_schema() {
    let columns = vec![
        Column::text("name", "Kernel"),
        Column::new("total_ns", "Time", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
        Column::text("covered", "Covered"),
    ];
    let gemm = [
        Cell::Name("gemm".into()),
        Cell::Int(40),
        Cell::Float(0.8),
        Cell::Flag(true),
    ];
    let copy = [
        Cell::Text("copy".into()),
        Cell::Missing,
        Cell::Missing,
        Cell::Flag(false),
    ];
    let kernels = Dataset {
        id: "kernels",
        title: "Kernels of the report".to_owned(),
        columns,
        rows: vec![gemm.to_vec(), copy.to_vec()],
    };
    let database = Database::new(&Arc::new(session()), &[kernels], MEMORY, || false)
        .expect("SQLite is set up");
    let ask = |sql: &str| database.ask(sql, 10).expect("SQL").remove(0).rows;
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    assert_eq!(
        ask("select * from report.kernels"),
        [
            vec![
                text("gemm"),
                Some(Value::Int(40)),
                Some(Value::Float(0.8)),
                Some(Value::Bool(true))
            ],
            vec![text("copy"), None, None, Some(Value::Bool(false))],
        ]
    );
    // Both kernels of the session ran 45 ns in all: the name alone is its table.
    assert_eq!(ask("select count(*) from kernels"), [[Some(Value::Int(2))]]);
    let described = database
        .tables()
        .iter()
        .find(|table| table.name == "report.kernels");
    let units: Vec<&str> = described
        .expect("listed")
        .columns
        .iter()
        .map(|column| column.unit)
        .collect();
    assert_eq!(units, ["", "ns", "", ""]);
    assert!(matches!(
        database.ask("delete from report.kernels", 1),
        Err(QueryError::NotRead)
    ));
}
