//! The data sets of kernels and of their libraries.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::pass_name;
use super::sums::KernelSum;
use crate::analysis::Context;
use crate::analysis::engine::classify::KernelIdentity;
use crate::findings::{Cell, Column, Dataset};
use crate::model::{KernelId, Ns, PassId};

/// Number by which tables and the appendix name a kernel.
pub(super) fn number(kernel: KernelId) -> i64 {
    i64::from(kernel.0) + 1
}

/// Kernel time of sums, nanoseconds.
pub(super) fn total(sums: &[KernelSum]) -> Ns {
    sums.iter().fold(0, |total: Ns, sum| total.saturating_add(sum.total))
}

/// `part / whole`, if there is a whole.
pub(super) fn share(part: Ns, whole: Ns) -> Cell {
    Cell::maybe((whole > 0).then(|| part as f64 / whole as f64))
}

/// A text that may be unknown.
pub(super) fn known(text: &str) -> Cell {
    if text.is_empty() { Cell::Missing } else { Cell::Text(text.to_owned()) }
}

/// One row per (pass, kernel), by (pass, total descending, name).
pub(super) fn kernels(context: &Context<'_>, sums: &[KernelSum]) -> Dataset {
    let columns = vec![
        Column::text("short", "Kernel"),
        Column::new("number", "No.", Unit::Count),
        Column::text("pass", "Pass"),
        Column::text("class", "Class"),
        Column::text("library", "Library"),
        Column::text("dtype", "Type"),
        Column::text("tile", "Tile"),
        Column::text("tensor_cores", "Tensor cores"),
        Column::new("count", "Launches", Unit::Count),
        Column::new("total_ns", "Total", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
        Column::new("mean_ns", "Mean", Unit::Nanoseconds),
        Column::new("median_ns", "Median", Unit::Nanoseconds),
        Column::new("min_ns", "Min", Unit::Nanoseconds),
        Column::new("max_ns", "Max", Unit::Nanoseconds),
        Column::new("std_ns", "Std. dev.", Unit::Nanoseconds),
        Column::text("name", "Whole name"),
    ];
    let mut rows = Vec::with_capacity(sums.len());
    for of_pass in sums.chunk_by(|a, b| a.pass == b.pass) {
        let whole = total(of_pass);
        rows.extend(of_pass.iter().map(|sum| kernel_row(context, sum, whole)));
    }
    Dataset { id: "kernels", title: "Kernels by pass".to_owned(), columns, rows }
}

fn kernel_row(context: &Context<'_>, sum: &KernelSum, whole: Ns) -> Vec<Cell> {
    let session = context.session;
    let unknown = KernelIdentity::default();
    let identity = context.facts.identities.get(sum.kernel.index()).unwrap_or(&unknown);
    let tile = identity.tile.map_or(Cell::Missing, |tile| {
        let depth = if tile.k > 0 { format!("x{}", tile.k) } else { String::new() };
        Cell::Text(format!("{}x{}{depth}", tile.m, tile.n))
    });
    let tensor_cores = match identity.tensor_cores {
        Some(true) => Cell::Text("yes".to_owned()),
        Some(false) => Cell::Text("no".to_owned()),
        None => Cell::Missing,
    };
    vec![
        Cell::Name(identity.short.clone()),
        Cell::Int(number(sum.kernel)),
        Cell::Text(pass_name(session, sum.pass).to_owned()),
        Cell::Text(identity.class.label().to_owned()),
        known(identity.library),
        known(identity.dtype),
        tile,
        tensor_cores,
        count(sum.count),
        Cell::Int(sum.total),
        share(sum.total, whole),
        Cell::maybe(sum.mean()),
        Cell::maybe(sum.median),
        Cell::Int(sum.min),
        Cell::Int(sum.max),
        Cell::maybe(sum.std),
        Cell::Name(session.kernel_name(sum.kernel).to_owned()),
    ]
}

/// A count, which fits in practice; a hostile one is shown as large as can be.
pub(super) fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Kernels, launches and time of one library in one pass.
#[derive(Default)]
struct LibrarySum {
    kernels: u64,
    launches: u64,
    total: Ns,
}

/// One row per (pass, library), by (pass, total descending, name).
pub(super) fn libraries(context: &Context<'_>, sums: &[KernelSum]) -> Dataset {
    let columns = vec![
        Column::text("library", "Library"),
        Column::text("pass", "Pass"),
        Column::new("kernels", "Kernels", Unit::Count),
        Column::new("count", "Launches", Unit::Count),
        Column::new("total_ns", "Total", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
    ];
    let mut by_library: BTreeMap<(PassId, &str), LibrarySum> = BTreeMap::new();
    for sum in sums {
        let identity = context.facts.identities.get(sum.kernel.index());
        let library = identity.map_or("", |identity| identity.library);
        let row = by_library.entry((sum.pass, library)).or_default();
        row.kernels += 1;
        row.launches = row.launches.saturating_add(sum.count);
        row.total = row.total.saturating_add(sum.total);
    }
    let mut list: Vec<_> = by_library.into_iter().collect();
    list.sort_by_key(|((pass, library), sum)| (*pass, std::cmp::Reverse(sum.total), *library));
    let mut rows = Vec::with_capacity(list.len());
    for of_pass in list.chunk_by(|a, b| a.0.0 == b.0.0) {
        let whole = of_pass.iter().fold(0, |whole: Ns, row| whole.saturating_add(row.1.total));
        rows.extend(of_pass.iter().map(|((pass, library), sum)| {
            vec![
                known(library),
                Cell::Text(pass_name(context.session, *pass).to_owned()),
                count(sum.kernels),
                count(sum.launches),
                Cell::Int(sum.total),
                share(sum.total, whole),
            ]
        }));
    }
    Dataset { id: "kernel_libraries", title: "Kernel time by library".to_owned(), columns, rows }
}
