//! Sizes from logs of cuBLASLt: a stage instance is found in the log by the order of its tiles.

use std::collections::BTreeMap;

use super::search::{Searches, Stream};
use super::{Gemm, Layer, Matrix, Product, Products, Shape, Source, dtype, innermost_first};
use crate::engine::classify::KernelClass;
use crate::engine::facts::{Facts, OpIndex};
use rooflens_session::{Session, StrId};

/// What a log and a kernel's name both tell of a product: rows and columns of the tile, and whether k is split.
type Key = (u32, u32, bool);

pub(super) fn find(session: &Session, facts: &Facts, matrix: &Matrix, products: &mut Products) {
    let streams = streams(session);
    if streams.is_empty() {
        return;
    }
    products.logged = vec![0; facts.ops.len()];
    let mut searches = Searches::new(&streams);
    for stage in innermost_first(facts) {
        for instance in facts.instances_of(&facts.stages[stage]) {
            let gemms = matrix
                .of(session, facts, instance)
                .filter(|(_, kernel)| matrix.class(*kernel) == Some(KernelClass::Gemm));
            let gemms: Vec<(OpIndex, bool, Key)> = gemms
                .map(|(op, kernel)| {
                    let tile = facts.identities[kernel.index()].tile;
                    let (m, n) = tile.map_or((0, 0), |tile| (tile.m, tile.n));
                    let name = session.kernel_name(kernel).to_lowercase();
                    (op, matrix.is_main(kernel), (m, n, name.contains("splitk")))
                })
                .collect();
            let keys: Vec<Key> = gemms
                .iter()
                .filter(|(_, main, _)| *main)
                .map(|(.., key)| *key)
                .collect();
            give(&gemms, &searches.find(&keys, None), products);
        }
    }
}

/// Helpers compute what the product before them does.
fn give(gemms: &[(OpIndex, bool, Key)], logged: &[Option<Product>], products: &mut Products) {
    let mut logged = logged.iter();
    let mut last = None;
    for (op, main, _) in gemms {
        if *main {
            last = logged.next().copied().flatten();
        }
        if let Some(product) = last {
            let product = Product {
                main: *main,
                ..product
            };
            products.set(Layer::Log, *op, product);
            products.set(Layer::Best, *op, product);
        }
    }
}

fn streams(session: &Session) -> Vec<(Option<u32>, Stream<Key>)> {
    let calls = &session.gemm_calls;
    let mut streams: BTreeMap<(StrId, i64), Stream<Key>> = BTreeMap::new();
    for row in 0..calls.len() {
        let (Some(m), Some(n)) = (calls.tile_m[row], calls.tile_n[row]) else {
            continue;
        };
        let stream = streams
            .entry((calls.artifact[row], calls.process[row]))
            .or_insert_with(|| Stream {
                keys: Vec::new(),
                products: Vec::new(),
            });
        stream
            .keys
            .push((m, n, calls.split_k[row].is_some_and(|parts| parts > 1)));
        // Column-major m × n is row-major n × m.
        let shape = Shape::Gemm(Gemm {
            m: calls.n[row],
            n: calls.m[row],
            k: calls.k[row],
            batch: calls.batch[row],
        });
        stream.products.push(Some(Product {
            shape,
            operand: dtype(session.text(calls.a_type[row])),
            output: dtype(session.text(calls.d_type[row])),
            source: Source::Log,
            main: true,
        }));
    }
    streams.into_values().map(|stream| (None, stream)).collect()
}
