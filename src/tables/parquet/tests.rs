//! The tables as Parquet files, on a session made by hand.
use super::{parquet, parquet_of_answer};
use polars_io::SerReader;
use polars_io::parquet::read::ParquetReader;
use rooflens_query::{Answer, Value};
use rooflens_schemas::PassKind;
use rooflens_session::{ApiCall, ApiLevel, Dim3, KernelId, Launch, Ns, Session, StrId};

/// Three launches of two kernels: `gemm` runs 10 and 30 ns, `copy` 5 ns; a call that is nested.
fn session() -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/a.sqlite");
    let process = session.process(pass, 7, 42);
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
            correlation: (kernel == gemm).then_some(99),
            grid: Dim3 { x: 4, y: 2, z: 1 },
            block: Dim3 { x: 128, y: 1, z: 1 },
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        });
    }
    let thread = session.thread(process, 42);
    session.api_calls.push(ApiCall {
        start: Ns::ZERO,
        end: Ns(1),
        name: StrId::default(),
        level: ApiLevel::Driver,
        nested: true,
        pass,
        process,
        thread,
        correlation: None,
    });
    session
}

/// A session with enough rows for several row groups and threads.
fn large_session() -> Session {
    let mut session = session();
    let row = session.launches.row(rooflens_session::LaunchId(0));
    for index in 0..600_000_i64 {
        let kernel = KernelId(u32::from(index % 3 == 0));
        let start = index * 100;
        session.launches.push(Launch {
            start: Ns(start),
            end: Ns(start + index % 97),
            kernel,
            ..row.clone()
        });
    }
    session
}

#[test]
fn parquet_holds_the_rows_of_tables_that_have_some() {
    let files = parquet(&session()).unwrap();
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    let expected = [
        "api_calls",
        "gpus",
        "kernels",
        "launches",
        "passes",
        "processes",
        "threads",
    ];
    assert_eq!(names, expected.map(|name| format!("tables/{name}.parquet")));

    let bytes = std::io::Cursor::new(&files["tables/launches.parquet"]);
    let frame = ParquetReader::new(bytes).finish().unwrap();
    assert_eq!(
        frame.column("id").unwrap().i64().unwrap().to_vec(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(
        frame.column("end").unwrap().i64().unwrap().to_vec(),
        [Some(10), Some(15), Some(50)]
    );
    let correlation = frame.column("correlation").unwrap().i64().unwrap().to_vec();
    assert_eq!(correlation, [Some(99), None, Some(99)]);

    let ints = |name: &str| frame.column(name).unwrap().i64().unwrap().to_vec();
    assert_eq!(ints("duration"), [Some(10), Some(5), Some(30)]);
    assert_eq!(
        (ints("grid_x")[0], ints("grid_y")[0], ints("block_x")[0]),
        (Some(4), Some(2), Some(128))
    );
    let names = frame.column("name").unwrap().str().unwrap().clone();
    assert_eq!(names.get(1), Some("copy"));

    let bytes = std::io::Cursor::new(&files["tables/api_calls.parquet"]);
    let frame = ParquetReader::new(bytes).finish().unwrap();
    assert_eq!(
        frame.column("nested").unwrap().bool().unwrap().get(0),
        Some(true)
    );
    assert_eq!(
        frame.column("level").unwrap().str().unwrap().get(0),
        Some("driver")
    );

    let bytes = std::io::Cursor::new(&files["tables/kernels.parquet"]);
    let frame = ParquetReader::new(bytes).finish().unwrap();
    let names = frame.column("name").unwrap().str().unwrap().clone();
    assert_eq!(
        names.iter().collect::<Vec<_>>(),
        [Some("gemm<float>"), Some("copy")]
    );
}

#[test]
fn parquet_describes_its_columns() {
    let files = parquet(&session()).unwrap();
    let text = String::from_utf8_lossy(&files["tables/launches.parquet"]).into_owned();
    assert!(text.contains("rooflens.column.registers"));
    assert!(text.contains("Registers per thread."));
    assert!(text.contains("Executions of kernels on a GPU."));
    assert!(text.contains("rooflens.unit.duration"));
}

#[test]
fn answers_keep_their_types_in_parquet() {
    let (text, missing) = (|text: &str| Some(Value::Text(text.to_owned())), || None);
    let answer = Answer {
        columns: ["name", "n", "share", "holds", "none"]
            .map(String::from)
            .to_vec(),
        rows: vec![
            vec![
                text("a"),
                Some(Value::Int(2)),
                Some(Value::Float(0.5)),
                Some(Value::Bool(true)),
                missing(),
            ],
            vec![
                missing(),
                missing(),
                Some(Value::Int(1)),
                missing(),
                missing(),
            ],
        ],
        cut: false,
    };
    let bytes = std::io::Cursor::new(parquet_of_answer(&answer).unwrap());
    let frame = ParquetReader::new(bytes).finish().unwrap();
    assert_eq!(
        frame.column("n").unwrap().i64().unwrap().to_vec(),
        [Some(2), None]
    );
    assert_eq!(
        frame.column("share").unwrap().f64().unwrap().to_vec(),
        [Some(0.5), Some(1.0)]
    );
    let holds = frame.column("holds").unwrap().bool().unwrap();
    assert_eq!((holds.get(0), holds.get(1)), (Some(true), None));
    assert_eq!(frame.column("name").unwrap().str().unwrap().get(1), None);
}

/// The bytes of all files, in hexadecimal SHA-256.
fn fingerprint() -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for (name, bytes) in parquet(&large_session()).unwrap() {
        hash.update(name);
        hash.update(bytes);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
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
            .args(["--exact", "tests::parquet_fingerprint", "--nocapture"])
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
