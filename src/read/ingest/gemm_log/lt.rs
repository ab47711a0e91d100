//! Lines of cuBLASLt logs.

use super::{blank, size};
use rooflens_session::{GemmCall, Session};

/// The content of a line.
pub(super) enum Found {
    Call(Box<GemmCall>),
    /// A line about something else.
    Nothing,
    /// A line about a product that lacks its sizes.
    Damaged,
}

/// The product of a line `[time][cublasLt][pid][Trace][cublasLt…Matmul] A=… Adesc=[type=… rows=… cols=…] …`.
pub(super) fn call(session: &mut Session, line: &str) -> Found {
    let mut heads = line
        .split('[')
        .skip(1)
        .map(|part| part.split(']').next().unwrap_or_default());
    let heads: [&str; 5] = std::array::from_fn(|_| heads.next().unwrap_or_default());
    let [_, _, process, level, function] = heads;
    let is_product = function.ends_with("Matmul") || function.ends_with("_matmul");
    if level != "Trace" || !is_product {
        return Found::Nothing;
    }
    match read(session, line, function, process.parse().unwrap_or(0)) {
        Some(call) => Found::Call(Box::new(call)),
        None => Found::Damaged,
    }
}

fn read(session: &mut Session, line: &str, function: &str, process: i64) -> Option<GemmCall> {
    let (a, b, d) = (
        group(line, " Adesc=[")?,
        group(line, " Bdesc=[")?,
        group(line, " Ddesc=[")?,
    );
    let compute = group(line, " computeDesc=[")?;
    let algorithm = group(line, " algo=[");
    let is_transposed = |key: &str| field(compute, key).is_some_and(|op| op != "OP_N");
    let (transpose_a, transpose_b) = (is_transposed("transa"), is_transposed("transb"));
    let number = |layout: &str, key: &str| field(layout, key).and_then(size);
    let k = number(a, if transpose_a { "rows" } else { "cols" })?;
    let k_of_b = number(b, if transpose_b { "cols" } else { "rows" })?;
    if k != k_of_b {
        return None;
    }
    let tile = algorithm
        .and_then(|text| field(text, "tile"))
        .and_then(tile);
    let mut named = |part: &str, key: &str, prefix: &str| {
        let text = field(part, key).unwrap_or_default();
        session.intern(text.strip_prefix(prefix).unwrap_or(text))
    };
    let (a_type, b_type, d_type) = (
        named(a, "type", ""),
        named(b, "type", ""),
        named(d, "type", ""),
    );
    let (order, computed) = (named(a, "order", ""), named(compute, "computeType", ""));
    let epilogue = named(compute, "epilogue", "");
    let plan = algorithm.unwrap_or_default();
    let stages = named(plan, "stages", "MATMUL_STAGES_");
    let cluster = named(plan, "clusterShape", "CLUSTER_SHAPE_");
    let parts = field(plan, "numSplitsK").and_then(|text| text.parse().ok());
    Some(GemmCall {
        process,
        m: number(d, "rows")?,
        n: number(d, "cols")?,
        k,
        batch: number(a, "batchCount")
            .or_else(|| number(d, "batchCount"))
            .unwrap_or(1),
        a_type,
        b_type,
        d_type,
        compute: computed,
        transpose_a,
        transpose_b,
        order,
        algorithm: field(plan, "algoId").and_then(|text| text.parse().ok()),
        tile_m: tile.map(|tile| tile.0),
        tile_n: tile.map(|tile| tile.1),
        stages,
        split_k: algorithm.map(|_| parts.unwrap_or(1).max(1)),
        cluster,
        epilogue,
        ..blank(session, function)
    })
}

/// The text between `start` and the next bracket.
fn group<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(start)?;
    rest.split_once(']').map(|(inside, _)| inside)
}

/// The value of `key=value` in a group, whatever the case of the key.
fn field<'a>(group: &'a str, key: &str) -> Option<&'a str> {
    let pairs = group.split(' ').filter_map(|pair| pair.split_once('='));
    pairs
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(key))
        .map(|(_, value)| value)
}

/// `MATMUL_TILE_256x128`.
fn tile(text: &str) -> Option<(u32, u32)> {
    let (m, n) = text.rsplit('_').next()?.split_once('x')?;
    Some((m.parse().ok()?, n.parse().ok()?))
}
