//! The data sets of kernels and of their libraries.

use crate::Context;
use rooflens_analysis::engine::classify::{KernelIdentity, Tile};
use rooflens_analysis::kernels::kernel_sums::{KernelSum, LibrarySum, PassKernels};
use rooflens_document::{Catalogue, Dataset, Table};
use rooflens_session::{KernelId, Session};

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
    let depth = if tile.k > 0 {
        format!("x{}", tile.k)
    } else {
        String::new()
    };
    format!("{}x{}{depth}", tile.m, tile.n)
}

/// One row per (pass, kernel), by (pass, total descending, name).
pub fn kernels(
    text: &'static Catalogue,
    session: &Session,
    identities: &[KernelIdentity],
    passes: &[PassKernels],
) -> Dataset {
    let identity = |sum: &KernelSum| &identities[sum.kernel.index()];
    let rows = passes
        .iter()
        .flat_map(|pass| pass.sums.iter().map(move |sum| (pass, sum)));
    Table::<(&PassKernels, &KernelSum)>::new(text, "kernels")
        .name("short", |(_, sum)| identity(sum).short.clone())
        .count("number", |(_, sum)| number(sum.kernel))
        .text("pass", |(pass, _)| session.pass_name(pass.pass))
        .text("class", |(_, sum)| identity(sum).class.label())
        .text("library", |(_, sum)| known(identity(sum).library))
        .text("dtype", |(_, sum)| known(identity(sum).dtype))
        .text("tile", |(_, sum)| identity(sum).tile.map(tile))
        .text("tensor_cores", |(_, sum)| identity(sum).tensor_cores)
        .count("count", |(_, sum)| sum.count)
        .time("total_ns", |(_, sum)| sum.total)
        .share("share", |(pass, sum)| pass.share(sum.total))
        .time("mean_ns", |(_, sum)| sum.mean())
        .time("median_ns", |(_, sum)| sum.median)
        .time("min_ns", |(_, sum)| sum.min)
        .time("max_ns", |(_, sum)| sum.max)
        .time("std_ns", |(_, sum)| sum.std)
        .name("name", |(_, sum)| session.kernel_name(sum.kernel))
        .rows(&rows.collect::<Vec<_>>())
}

/// One row per (pass, library), by (pass, total descending, name).
pub(super) fn libraries(context: &Context<'_>, passes: &[PassKernels]) -> Dataset {
    let session = context.session;
    let rows = passes
        .iter()
        .flat_map(|pass| pass.libraries.iter().map(move |library| (pass, library)));
    Table::<(&PassKernels, &LibrarySum)>::new(context.text, "kernel_libraries")
        .text("library", |(_, one)| known(one.library))
        .text("pass", |(pass, _)| session.pass_name(pass.pass))
        .count("kernels", |(_, one)| one.kernels)
        .count("count", |(_, one)| one.launches)
        .time("total_ns", |(_, one)| one.total)
        .share("share", |(pass, one)| pass.share(one.total))
        .rows(&rows.collect::<Vec<_>>())
}
