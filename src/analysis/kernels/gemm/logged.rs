//! The products of logs by size, whether or not kernels are known to be theirs.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use crate::findings::{Cell, Column, Dataset};
use crate::model::{Session, StrId};

/// What is one row: artifact, function, M, N, K, batch, type, tile.
type Key = (StrId, StrId, [u64; 4], StrId, Option<(u32, u32)>);

/// One row per (log, function, sizes, type, tile), by artifact and FLOPs; none without calls.
pub(super) fn dataset(session: &Session) -> Option<Dataset> {
    let calls = &session.gemm_calls;
    let mut groups: BTreeMap<Key, u64> = BTreeMap::new();
    for row in 0..calls.len() {
        // Column-major m × n is row-major n × m.
        let sizes = [calls.n[row], calls.m[row], calls.k[row], calls.batch[row]];
        let tile = calls.tile_m[row].zip(calls.tile_n[row]);
        let key = (calls.artifact[row], calls.function[row], sizes, calls.a_type[row], tile);
        *groups.entry(key).or_default() += 1;
    }
    let flops = |[m, n, k, batch]: [u64; 4], count: u64| {
        2.0 * m as f64 * n as f64 * k as f64 * batch as f64 * count as f64
    };
    let mut rows: Vec<(Key, u64)> = groups.into_iter().collect();
    rows.sort_by(|a, b| {
        let work = |row: &(Key, u64)| flops(row.0.2, row.1);
        let artifact = |row: &(Key, u64)| session.text(row.0.0);
        artifact(a).cmp(artifact(b)).then(work(b).total_cmp(&work(a))).then(a.0.cmp(&b.0))
    });
    let row = |((artifact, function, sizes, dtype, tile), count): (Key, u64)| {
        let [m, n, k, batch] = sizes;
        let number = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
        vec![
            Cell::Text(format!("{m} × {n} × {k}")),
            number(m),
            number(n),
            number(k),
            number(batch),
            Cell::Text(session.text(dtype).to_owned()),
            tile.map_or(Cell::Missing, |(m, n)| Cell::Text(format!("{m} × {n}"))),
            number(count),
            Cell::Float(flops(sizes, count)),
            Cell::Name(session.text(function).to_owned()),
            Cell::Name(session.text(artifact).to_owned()),
        ]
    };
    (!rows.is_empty()).then(|| Dataset {
        id: "gemm_log",
        title: "Matrix products in logs".to_owned(),
        columns: vec![
            Column::text("shape", "M × N × K"),
            Column::new("m", "M", Unit::Count),
            Column::new("n", "N", Unit::Count),
            Column::new("k", "K", Unit::Count),
            Column::new("batch", "Batch", Unit::Count),
            Column::text("dtype", "Type"),
            Column::text("tile", "Tile"),
            Column::new("calls", "Calls", Unit::Count),
            Column::new("flops", "FLOPs", Unit::Flop),
            Column::text("function", "Function"),
            Column::text("artifact", "Log"),
        ],
        rows: rows.into_iter().map(row).collect(),
    })
}
