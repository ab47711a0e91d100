//! Databases made by the published schema, cut to the columns that are read; expectations by hand.
#![allow(clippy::unwrap_used)]

use rusqlite::Connection;
use tempfile::NamedTempFile;

use super::*;
use crate::testing::import_bytes;
use rooflens_model::{ApiLevel, CopyKind};

const INFO: &str = r#"
CREATE TABLE "rocpd_metadata_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" TEXT NOT NULL, "value" TEXT NOT NULL);
CREATE TABLE "rocpd_string_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT "g" NOT NULL, "string" TEXT NOT NULL UNIQUE ON CONFLICT ABORT);
CREATE TABLE "rocpd_info_process_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT "g" NOT NULL, "nid" INTEGER NOT NULL, "pid" INTEGER NOT NULL, "command" TEXT);
CREATE TABLE "rocpd_info_thread_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "nid" INTEGER NOT NULL, "pid" INTEGER NOT NULL, "tid" INTEGER NOT NULL, "name" TEXT);
CREATE TABLE "rocpd_info_agent_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "nid" INTEGER NOT NULL, "pid" INTEGER NOT NULL, "type" TEXT, "absolute_index" INTEGER, "logical_index" INTEGER, "type_index" INTEGER, "name" TEXT, "model_name" TEXT, "product_name" TEXT);
CREATE TABLE "rocpd_info_kernel_symbol_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "kernel_name" TEXT, "display_name" TEXT, "arch_vgpr_count" INTEGER, "accum_vgpr_count" INTEGER);
CREATE TABLE "rocpd_event_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "category_id" INTEGER, "stack_id" INTEGER);
INSERT INTO "rocpd_string_u1" (id, string) VALUES (1, 'hipLaunchKernel'), (2, 'HIP_RUNTIME_API'), (3, 'roctxRangePushA'), (4, 'MARKER_CORE_RANGE_API'), (5, 'MEMORY_COPY_HOST_TO_DEVICE'), (6, 'KERNEL_DISPATCH');
INSERT INTO "rocpd_info_process_u1" (id, nid, pid, command) VALUES (5, 1, 4242, 'train');
INSERT INTO "rocpd_info_thread_u1" (id, nid, pid, tid, name) VALUES (6, 1, 5, 77, 'main');
INSERT INTO "rocpd_info_agent_u1" VALUES (1, 1, 5, 'CPU', 0, 0, 0, 'EPYC', '', ''), (3, 1, 5, 'GPU', 1, 1, 0, 'gfx942', '', 'AMD Instinct MI300X');
INSERT INTO "rocpd_info_kernel_symbol_u1" VALUES (9, '_Z1fi.kd', 'f(int)', 24, 8);
INSERT INTO "rocpd_event_u1" VALUES (1, 2, 1000), (2, 6, 1000), (3, 4, 1001), (4, NULL, 0);
"#;

const WORK_3: &str = r#"
INSERT INTO "rocpd_metadata_u1" (tag, value) VALUES ('schema_version', '3');
CREATE TABLE "rocpd_kernel_dispatch_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT "g" NOT NULL, "pid" INTEGER NOT NULL, "tid" INTEGER, "agent_id" INTEGER NOT NULL, "kernel_id" INTEGER NOT NULL, "queue_id" INTEGER NOT NULL, "stream_id" INTEGER NOT NULL, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "group_segment_size" INTEGER, "workgroup_size_x" INTEGER, "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER, "grid_size_x" INTEGER, "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER);
INSERT INTO "rocpd_kernel_dispatch_u1" VALUES (1, 'g', 5, 6, 3, 9, 2, 0, 200, 260, 512, 64, 1, 1, 1000, 2, 1, 2);
CREATE TABLE "rocpd_memory_copy_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "pid" INTEGER NOT NULL, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "name_id" INTEGER NOT NULL, "dst_agent_id" INTEGER, "src_agent_id" INTEGER, "size" INTEGER NOT NULL, "stream_id" INTEGER, "event_id" INTEGER);
INSERT INTO "rocpd_memory_copy_u1" VALUES (1, 5, 100, 130, 5, 3, 1, 4096, 4, 4);
CREATE TABLE "rocpd_region_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "pid" INTEGER NOT NULL, "tid" INTEGER NOT NULL, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "name_id" INTEGER NOT NULL, "event_id" INTEGER, "extdata" JSONB DEFAULT "{}" NOT NULL);
INSERT INTO "rocpd_region_u1" VALUES (1, 5, 6, 150, 160, 1, 1, '{}'), (2, 5, 6, 90, 300, 3, 3, '{"message": "forward"}'), (3, 5, 6, 1, 2, 6, 2, '{}');
"#;

const WORK_4: &str = r#"
INSERT INTO "rocpd_metadata_u1" (tag, value) VALUES ('schema_version', '4.0.0');
CREATE TABLE "rocpd_info_category_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "name" TEXT NOT NULL);
INSERT INTO "rocpd_info_category_u1" VALUES (2, 'HIP_RUNTIME_API_EXT');
CREATE TABLE "rocpd_track_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "nid" INTEGER NOT NULL, "pid" INTEGER, "tid" INTEGER, "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER);
INSERT INTO "rocpd_track_u1" VALUES (1, 1, 5, 6, 3, 2, 8), (2, 1, 5, 6, NULL, NULL, NULL);
CREATE TABLE "rocpd_timestamp_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "value" BIGINT NOT NULL, "track_id" INTEGER);
INSERT INTO "rocpd_timestamp_u1" VALUES (1, 200, 1), (2, 260, 1), (3, 150, 2), (4, 160, 2);
CREATE TABLE "rocpd_kernel_dispatch_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "track_id" INTEGER NOT NULL, "kernel_id" INTEGER NOT NULL, "start_id" INTEGER NOT NULL, "end_id" INTEGER NOT NULL, "group_segment_size" INTEGER, "workgroup_size_x" INTEGER, "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER, "grid_size_x" INTEGER, "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER);
INSERT INTO "rocpd_kernel_dispatch_u1" VALUES (1, 1, 9, 1, 2, 512, 64, 1, 1, 1000, 2, 1, 2), (2, 1, 9, 1, 99, 512, 64, 1, 1, 1000, 2, 1, 2);
CREATE TABLE "rocpd_region_u1" ("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "track_id" INTEGER NOT NULL, "name_id" INTEGER NOT NULL, "start_id" INTEGER NOT NULL, "end_id" INTEGER NOT NULL, "event_id" INTEGER);
INSERT INTO "rocpd_region_u1" VALUES (1, 2, 1, 3, 4, 1);
"#;

fn import_sql(scripts: &[&str]) -> (Result<(), IngestError>, Session, Diagnostics) {
    let file = NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    scripts.iter().for_each(|script| connection.execute_batch(script).unwrap());
    drop(connection);
    let bytes = std::fs::read(file.path()).unwrap();
    assert!(sniff(&Prefix {
        name: "a.db",
        bytes: &bytes[..bytes.len().min(65536)],
        complete: true
    }));
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
        (200, 260, Some(1000))
    );
    assert_eq!(session.kernel_name(launches.kernel[0]), "f(int)");
    // 1000 work-items in groups of 64; no stream, so the queue.
    let (grid, block) = (launches.grid[0], launches.block[0]);
    assert_eq!((grid.x, grid.y, block.x, launches.stream[0]), (16, 2, 64, 2));
    assert_eq!((launches.registers[0], launches.shared_bytes[0]), (Some(32), Some(512)));
    let copies = &session.copies;
    assert_eq!((copies.kind[0], copies.bytes[0]), (CopyKind::HostToDevice, 4096));
    assert_eq!((copies.stream[0], copies.correlation[0]), (4, None));
    let calls = &session.api_calls;
    assert_eq!(
        (calls.len(), calls.level[0], calls.correlation[0]),
        (1, ApiLevel::Runtime, Some(1000))
    );
    assert_eq!(session.text(calls.name[0]), "hipLaunchKernel");
    assert_eq!((session.ranges.start[0], session.text(session.ranges.name[0])), (90, "forward"));
    assert_eq!(session.gpus.ordinal, [0]);
    assert_eq!(session.text(session.gpus.name[0]), "AMD Instinct MI300X");
    assert_eq!((session.processes.pid[0], session.threads.tid[0]), (4242, 77));
    assert_eq!(session.text(session.passes.producer[0]), "rocprofv3, rocpd schema 3");
}

#[test]
fn schema_4_points_to_times_and_tracks_and_bad_rows_cost_themselves() {
    let (result, session, diagnostics) = import_sql(&[INFO, WORK_4]);
    assert!(result.is_ok(), "{result:?}");
    let launches = &session.launches;
    assert_eq!((launches.len(), launches.start[0], launches.end[0]), (1, 200, 260));
    assert_eq!((launches.stream[0], launches.correlation[0]), (8, Some(1000)));
    assert_eq!(session.api_calls.len(), 1);
    let told: Vec<_> = diagnostics.iter().map(|one| (one.code, one.count)).collect();
    assert_eq!(told, [("rocpd/bad-rows", 1)]);
}

#[test]
fn a_database_without_kernels_says_so_and_one_without_columns_is_refused() {
    let (result, _, diagnostics) = import_sql(&[INFO]);
    assert!(result.is_ok());
    assert_eq!(diagnostics.iter().map(|one| one.code).collect::<Vec<_>>(), ["rocpd/no-kernels"]);
    let broken = r#"CREATE TABLE "rocpd_kernel_dispatch_u1" ("id" INTEGER PRIMARY KEY);"#;
    let (result, ..) = import_sql(&[INFO, broken]);
    assert!(result.unwrap_err().to_string().contains("kernel_id"));
}
