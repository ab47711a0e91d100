//! Sums over the fixtures against the sums that SQL gives over the raw tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rooflens::bundle::ArtifactFile;
use rusqlite::Connection;

use super::read;

/// Exports among the fixtures, unpacked by `visit` one after another.
fn for_each_fixture(mut visit: impl FnMut(&Path, &str)) {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")];
    let mut packed = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".sqlite.zst") {
                packed.push(path);
            }
        }
    }
    assert!(packed.len() >= 7, "the fixtures are there");
    for path in packed {
        let shown = path.to_string_lossy().into_owned();
        let file = ArtifactFile {
            location: path,
            ..ArtifactFile::default()
        };
        let plain = file.content().and_then(|content| content.plain_file());
        visit(&plain.expect("the fixture unpacks").path, &shown);
    }
}

/// Count and time of each kernel name, as SQL sums them over the raw tables.
fn sums_by_sql(path: &Path) -> BTreeMap<String, (i64, i64)> {
    let database = Connection::open(path).expect("it opens");
    let sql = "SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL
        JOIN StringIds ON id = demangledName GROUP BY value";
    // A capture of whole graphs has no kernel table.
    let Ok(mut statement) = database.prepare(sql) else {
        return BTreeMap::new();
    };
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
    rows.and_then(Iterator::collect)
        .expect("the tables are sound")
}

#[test]
fn kernel_time_by_name_is_what_sql_says() {
    let mut kernels = 0;
    for_each_fixture(|path, name| {
        let session = read(path).expect("fixtures are sound").session;
        let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        let launches = &session.launches;
        for row in 0..launches.len() {
            let sum = sums
                .entry(session.kernel_name(launches.kernel[row]).to_owned())
                .or_default();
            *sum = (
                sum.0 + 1,
                sum.1 + (launches.end[row] - launches.start[row]).0,
            );
        }
        assert_eq!(sums, sums_by_sql(path), "{name}");
        kernels += launches.len();
    });
    assert!(kernels > 84_868, "the largest fixture alone has as many");
}
