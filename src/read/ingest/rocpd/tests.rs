//! Databases made by the published schema, cut to the columns that are read; expectations by hand.
#![allow(clippy::unwrap_used)]

use rusqlite::Connection;
use tempfile::NamedTempFile;

use super::*;
use crate::testing::{import_bytes, sniffs};
use rooflens_session::{ApiLevel, CopyKind};

const INFO: &str = include_str!("../../../../tests/data/seeds/rocpd_info.sql");

const WORK_3: &str = include_str!("../../../../tests/data/seeds/rocpd_3.sql");

const WORK_4: &str = include_str!("../../../../tests/data/seeds/rocpd_4.sql");

fn import_sql(scripts: &[&str]) -> (Result<(), IngestError>, Session, Diagnostics) {
    let file = NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    scripts
        .iter()
        .for_each(|script| connection.execute_batch(script).unwrap());
    drop(connection);
    let bytes = std::fs::read(file.path()).unwrap();
    assert!(sniffs(&IMPORTER, "a.db", &bytes[..bytes.len().min(65536)]));
    import_bytes(&IMPORTER, "a.db", bytes)
}

#[test]
fn schema_3_is_a_timeline() {
    let (result, session, diagnostics) = import_sql(&[INFO, WORK_3]);
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(diagnostics.iter().count(), 0);
    let launches = &session.launches;
    assert_eq!(
        (launches.start[0], launches.end[0], launches.correlation[0]),
        (Ns(200), Ns(260), Some(1000))
    );
    assert_eq!(session.kernel_name(launches.kernel[0]), "f(int)");
    // 1000 work-items in groups of 64; no stream, so the queue.
    let (grid, block) = (launches.grid[0], launches.block[0]);
    assert_eq!(
        (grid.x, grid.y, block.x, launches.stream[0]),
        (16, 2, 64, 2)
    );
    assert_eq!(
        (launches.registers[0], launches.shared_bytes[0]),
        (Some(32), Some(512))
    );
    let copies = &session.copies;
    assert_eq!(
        (copies.kind[0], copies.bytes[0]),
        (CopyKind::HostToDevice, 4096)
    );
    assert_eq!((copies.stream[0], copies.correlation[0]), (4, None));
    let calls = &session.api_calls;
    assert_eq!(
        (calls.len(), calls.level[0], calls.correlation[0]),
        (1, ApiLevel::Runtime, Some(1000))
    );
    assert_eq!(session.text(calls.name[0]), "hipLaunchKernel");
    assert_eq!(
        (
            session.ranges.start[0],
            session.text(session.ranges.name[0])
        ),
        (Ns(90), "forward")
    );
    assert_eq!(session.gpus.ordinal, [0]);
    assert_eq!(session.text(session.gpus.name[0]), "AMD Instinct MI300X");
    assert_eq!(
        (session.processes.pid[0], session.threads.tid[0]),
        (4242, 77)
    );
    assert_eq!(
        session.text(session.passes.producer[0]),
        "rocprofv3, rocpd schema 3"
    );
}

#[test]
fn schema_4_points_to_times_and_tracks_and_bad_rows_cost_themselves() {
    let (result, session, diagnostics) = import_sql(&[INFO, WORK_4]);
    assert!(result.is_ok(), "{result:?}");
    let launches = &session.launches;
    assert_eq!(
        (launches.len(), launches.start[0], launches.end[0]),
        (1, Ns(200), Ns(260))
    );
    assert_eq!(
        (launches.stream[0], launches.correlation[0]),
        (8, Some(1000))
    );
    assert_eq!(session.api_calls.len(), 1);
    let told: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, diagnostic.count))
        .collect();
    assert_eq!(told, [("rocpd/bad-rows", 1)]);
}

#[test]
fn a_database_without_kernels_says_so_and_one_without_columns_is_refused() {
    let (result, _, diagnostics) = import_sql(&[INFO]);
    assert!(result.is_ok());
    assert_eq!(
        diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect::<Vec<_>>(),
        ["rocpd/no-kernels"]
    );
    let broken = r#"CREATE TABLE "rocpd_kernel_dispatch_u1" ("id" INTEGER PRIMARY KEY);"#;
    let (result, ..) = import_sql(&[INFO, broken]);
    assert!(result.unwrap_err().to_string().contains("kernel_id"));
}
