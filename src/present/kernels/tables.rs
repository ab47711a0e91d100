//! The data sets of kernels and of their libraries.

use rooflens_analysis::engine::classify::{KernelIdentity, Tile};
use rooflens_analysis::kernels::kernel_sums::{KernelSum, LibrarySum, PassKernels};
use rooflens_findings::{Dataset, Table};
use rooflens_model::{KernelId, Session};

/// Number by which tables and the appendix name a kernel.
pub(super) const fn number(kernel: KernelId) -> i64 {
    kernel.0 as i64 + 1
}

/// A text that may be unknown.
fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// `128x64x11`, without the depth where the name does not tell it.
fn tile(tile: Tile) -> String {
    let depth = if tile.k > 0 { format!("x{}", tile.k) } else { String::new() };
    format!("{}x{}{depth}", tile.m, tile.n)
}

/// One row per (pass, kernel), by (pass, total descending, name).
pub fn kernels(
    session: &Session,
    identities: &[KernelIdentity],
    passes: &[PassKernels],
) -> Dataset {
    let of = |sum: &KernelSum| &identities[sum.kernel.index()];
    let rows = passes.iter().flat_map(|pass| pass.sums.iter().map(move |sum| (pass, sum)));
    Table::<(&PassKernels, &KernelSum)>::new("kernels", "Kernels by pass")
        .name("short", "Kernel", |(_, sum)| of(sum).short.clone())
        .count("number", "No.", |(_, sum)| number(sum.kernel))
        .text("pass", "Pass", |(pass, _)| session.pass_name(pass.pass))
        .text("class", "Class", |(_, sum)| of(sum).class.label())
        .text("library", "Library", |(_, sum)| known(of(sum).library))
        .text("dtype", "Type", |(_, sum)| known(of(sum).dtype))
        .text("tile", "Tile", |(_, sum)| of(sum).tile.map(tile))
        .text("tensor_cores", "Tensor cores", |(_, sum)| of(sum).tensor_cores)
        .count("count", "Launches", |(_, sum)| sum.count)
        .time("total_ns", "Total", |(_, sum)| sum.total)
        .share("share", "Share", |(pass, sum)| pass.share(sum.total))
        .time("mean_ns", "Mean", |(_, sum)| sum.mean())
        .time("median_ns", "Median", |(_, sum)| sum.median)
        .time("min_ns", "Min", |(_, sum)| sum.min)
        .time("max_ns", "Max", |(_, sum)| sum.max)
        .time("std_ns", "Std. dev.", |(_, sum)| sum.std)
        .name("name", "Whole name", |(_, sum)| session.kernel_name(sum.kernel))
        .rows(&rows.collect::<Vec<_>>())
}

/// One row per (pass, library), by (pass, total descending, name).
pub(super) fn libraries(session: &Session, passes: &[PassKernels]) -> Dataset {
    let rows = passes.iter().flat_map(|pass| pass.libraries.iter().map(move |one| (pass, one)));
    Table::<(&PassKernels, &LibrarySum)>::new("kernel_libraries", "Kernel time by library")
        .text("library", "Library", |(_, one)| known(one.library))
        .text("pass", "Pass", |(pass, _)| session.pass_name(pass.pass))
        .count("kernels", "Kernels", |(_, one)| one.kernels)
        .count("count", "Launches", |(_, one)| one.launches)
        .time("total_ns", "Total", |(_, one)| one.total)
        .share("share", "Share", |(pass, one)| pass.share(one.total))
        .rows(&rows.collect::<Vec<_>>())
}
