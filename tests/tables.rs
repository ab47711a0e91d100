//! The tables outside of reports: Parquet files and SQL, on a session made by hand.
#![cfg(feature = "tables")]
#![allow(clippy::unwrap_used)]

use polars_io::SerReader;
use polars_io::parquet::read::ParquetReader;
use rooflens::model::{Dim3, KernelId, Launch, Session};
use rooflens::tables::{Answer, TablesError, Value, parquet, query};
use rooflens_schemas::PassKind;

/// Three launches of two kernels: `gemm` runs 10 and 30 ns, `copy` 5 ns.
fn session() -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/a.sqlite");
    let process = session.process(pass, 7, 42);
    let gpu = session.gpu(pass, 0);
    let (gemm, copy) = (session.kernel("gemm<float>", "gemm"), session.kernel("copy", ""));
    for (start, end, kernel) in [(0, 10, gemm), (10, 15, copy), (20, 50, gemm)] {
        session.launches.push(Launch {
            start,
            end,
            kernel,
            pass,
            gpu,
            process,
            stream: 7,
            correlation: (kernel == gemm).then_some(99),
            grid: Dim3 { x: 4, y: 2, z: 1 },
            block: Dim3 { x: 128, y: 1, z: 1 },
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }
    session
}

/// A session with enough rows for several row groups and threads.
fn large_session() -> Session {
    let mut session = session();
    let row = session.launches.row(rooflens::model::LaunchId(0));
    for index in 0..600_000_i64 {
        let kernel = KernelId(u32::from(index % 3 == 0));
        let start = index * 100;
        session.launches.push(Launch { start, end: start + index % 97, kernel, ..row.clone() });
    }
    session
}

fn ask(sql: &str) -> Answer {
    query(&session(), &[], sql).unwrap()
}

fn csv(sql: &str) -> String {
    ask(sql).csv()
}

#[test]
fn durations_sum_by_kernel_name() {
    // gemm: 10 + 30 = 40; copy: 5.
    let sql = "select name, count(*) as n, sum(duration) as total from launches group by name order by total desc";
    assert_eq!(csv(sql), "name,n,total\ngemm<float>,2,40\ncopy,1,5\n");
}

#[test]
fn groups_without_an_order_are_sorted() {
    assert_eq!(
        csv("select name, max(duration) as m from launches group by name"),
        "name,m\ncopy,5\ngemm<float>,30\n"
    );
}

#[test]
fn ids_join_tables() {
    let sql = "select l.id, k.short_name, g.ordinal from launches l join kernels k on l.kernel = k.id \
               join gpus g on l.gpu = g.id order by l.id";
    assert_eq!(csv(sql), "id,short_name,ordinal\n0,gemm,0\n1,,0\n2,gemm,0\n");
}

#[test]
fn missing_values_stay_missing() {
    let answer = ask("select correlation, registers, grid from launches where id < 2");
    let grid = || Some(Value::Text("4x2x1".into()));
    let expected = [vec![Some(Value::Int(99)), None, grid()], vec![None, None, grid()]];
    assert_eq!(answer.rows, expected);
}

#[test]
fn empty_tables_can_be_asked() {
    assert_eq!(csv("select count(*) as n from operators"), "n\n0\n");
    assert_eq!(csv("select name, duration from api_calls"), "name,duration\n");
}

#[test]
fn the_catalogue_describes_every_column() {
    let sql = "select \"column\", type, description from columns where \"table\" = 'launches' and \"column\" in ('id', 'start', 'duration', 'name')";
    let expected = "column,type,description\n\
        id,i64,Row number; columns of other tables refer to it.\n\
        start,i64,\"Start on the pass's clock, nanoseconds.\"\n\
        name,str,Name of the kernel.\n\
        duration,i64,\"End − start, nanoseconds.\"\n";
    assert_eq!(csv(sql), expected);
    assert_eq!(csv("select count(*) as n from columns where description = ''"), "n\n0\n");
}

#[test]
fn plain_tables_are_joined_in() {
    let classes = Answer {
        columns: vec!["kernel_name".into(), "share".into()],
        rows: vec![
            vec![Some(Value::Text("copy".into())), Some(Value::Float(0.25))],
            vec![Some(Value::Text("gemm<float>".into())), None],
        ],
    };
    let sql = "select l.id, c.share from launches l join classes c on l.name = c.kernel_name order by l.id";
    let answer = query(&session(), &[("classes", classes.clone())], sql).unwrap();
    assert_eq!(answer.csv(), "id,share\n0,\n1,0.25\n2,\n");
    let twice = query(&session(), &[("launches", classes)], sql);
    assert!(matches!(twice, Err(TablesError::Duplicate(name)) if name == "launches"));
}

#[test]
fn unknown_names_list_what_there_is() {
    let error = |sql| query(&session(), &[], sql).unwrap_err().to_string();
    let message = error("select * from kernel");
    assert!(
        message.starts_with("there is no table `kernel`; the tables are api_calls, "),
        "{message}"
    );
    for sql in [
        "select nam from kernels",
        "select k.nam from kernels k",
        "select id from kernels where nam = 'x'",
    ] {
        let message = error(sql);
        assert_eq!(message, "there is no column `nam`; kernels has id, name, short_name", "{sql}");
    }
    assert!(error("select * from kernels k where x.id = 1").contains("there is no table `x`"));
}

#[test]
fn statements_that_cannot_be_run_are_refused() {
    for sql in [
        "",
        "selec 1",
        "select 1; select 2",
        "select nofunction(id) from kernels",
        "insert into kernels values (1)",
        "(((((",
    ] {
        let error = query(&session(), &[], sql).unwrap_err();
        assert!(matches!(error, TablesError::Query(_)), "{sql}: {error}");
    }
}

#[test]
fn queries_that_polars_panics_on_or_nests_deeply_are_refused() {
    let long = format!("select {}1", "1+".repeat(700));
    let longer = format!("select {}1", "1+".repeat(9000));
    let deep = format!("select {}1{}", "(".repeat(8000), ")".repeat(8000));
    assert_eq!(csv(&format!("{long} as n")), "n\n701\n");
    for sql in
        ["select greatest() from kernels", "select columns('(') from kernels", &longer, &deep]
    {
        let error = query(&session(), &[], sql).unwrap_err();
        assert!(matches!(error, TablesError::Query(_)), "{error}");
    }
}

#[test]
fn sql_opens_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.csv");
    std::fs::write(&path, "a\n1\n").unwrap();
    let path = path.to_str().unwrap();
    for function in ["read_csv", "read_parquet", "read_ipc", "read_json", "read_ndjson", "scan_csv"]
    {
        let error =
            query(&session(), &[], &format!("select * from {function}('{path}')")).unwrap_err();
        assert!(error.to_string().contains("not a supported table function"), "{error}");
    }
    for sql in [
        format!("select * from '{path}'"),
        format!("select * from \"{path}\""),
        format!("copy kernels to '{path}.out'"),
        format!("copy kernels from '{path}'"),
        format!("create external table t (a int) stored as csv location '{path}'"),
    ] {
        query(&session(), &[], &sql).unwrap_err();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn parquet_holds_the_rows_of_tables_that_have_some() {
    let files = parquet(&session()).unwrap();
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    let expected = ["gpus", "kernels", "launches", "passes", "processes"];
    assert_eq!(names, expected.map(|name| format!("tables/{name}.parquet")));

    let bytes = std::io::Cursor::new(&files["tables/launches.parquet"]);
    let frame = ParquetReader::new(bytes).finish().unwrap();
    assert_eq!(frame.column("id").unwrap().i64().unwrap().to_vec(), [Some(0), Some(1), Some(2)]);
    assert_eq!(
        frame.column("end").unwrap().i64().unwrap().to_vec(),
        [Some(10), Some(15), Some(50)]
    );
    let correlation = frame.column("correlation").unwrap().i64().unwrap().to_vec();
    assert_eq!(correlation, [Some(99), None, Some(99)]);

    let bytes = std::io::Cursor::new(&files["tables/kernels.parquet"]);
    let frame = ParquetReader::new(bytes).finish().unwrap();
    let names = frame.column("name").unwrap().str().unwrap().clone();
    assert_eq!(names.iter().collect::<Vec<_>>(), [Some("gemm<float>"), Some("copy")]);
}

#[test]
fn parquet_describes_its_columns() {
    let files = parquet(&session()).unwrap();
    let text = String::from_utf8_lossy(&files["tables/launches.parquet"]).into_owned();
    assert!(text.contains("rooflens.column.registers"));
    assert!(text.contains("Registers per thread."));
    assert!(text.contains("Executions of kernels on a GPU."));
}

/// The bytes of all files, in hexadecimal SHA-256.
fn fingerprint() -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for (name, bytes) in parquet(&large_session()).unwrap() {
        hash.update(name);
        hash.update(bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const FINGERPRINT: &str = "parquet fingerprint: ";

/// Prints the fingerprint for [`parquet_bytes_do_not_depend_on_threads`], which runs this in processes of
/// their own because polars fixes its number of threads once a process.
#[test]
#[allow(clippy::print_stdout)]
fn parquet_fingerprint() {
    let first = fingerprint();
    assert_eq!(first, fingerprint());
    println!("{FINGERPRINT}{first}");
}

#[test]
fn parquet_bytes_do_not_depend_on_threads() {
    let run = |threads: &str| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "parquet_fingerprint", "--nocapture"])
            .env("POLARS_MAX_THREADS", threads)
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = text.split_once(FINGERPRINT).unwrap();
        rest.lines().next().unwrap().to_owned()
    };
    let one = run("1");
    assert_eq!(one.len(), 64);
    assert_eq!(one, run("2"));
    assert_eq!(one, run("5"));
}
