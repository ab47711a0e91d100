//! Sizes from logs of cuBLASLt: a stage instance is found in the log by the order of its tiles.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Gemm, Layer, Matrix, Product, Products, Shape, Source, dtype, innermost_first};
use crate::analysis::classify::KernelClass;
use crate::analysis::facts::{Facts, OpIndex};
use crate::model::{Session, StrId};

/// Products of an instance below which an order of tiles tells nothing.
const MIN_LENGTH: usize = 4;

/// Places in a log that are compared with one another.
const MAX_PLACES: usize = 512;

/// What a log and a kernel's name both tell of a product: rows and columns of the tile, and whether k is split.
type Key = (u32, u32, bool);

/// The calls of one process in one log.
#[derive(Default)]
struct Stream {
    keys: Vec<Key>,
    products: Vec<Product>,
}

pub(super) fn find(session: &Session, facts: &Facts, products: &mut Products) {
    let streams = streams(session);
    if streams.is_empty() {
        return;
    }
    products.logged = vec![0; facts.ops.len()];
    let matrix = Matrix::new(session, facts);
    let mut known: FxHashMap<Vec<Key>, Vec<Option<Product>>> = FxHashMap::default();
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
            let keys: Vec<Key> =
                gemms.iter().filter(|(_, main, _)| *main).map(|(.., key)| *key).collect();
            let found = known.entry(keys).or_insert_with_key(|keys| look_up(&streams, keys));
            give(&gemms, found, products);
        }
    }
}

/// Helpers compute what the product before them does.
fn give(gemms: &[(OpIndex, bool, Key)], found: &[Option<Product>], products: &mut Products) {
    let mut found = found.iter();
    let mut last = None;
    for (op, main, _) in gemms {
        if *main {
            last = found.next().copied().flatten();
        }
        if let Some(product) = last {
            let product = Product { main: *main, ..product };
            products.set(Layer::Log, *op, product);
            products.set(Layer::Best, *op, product);
        }
    }
}

fn streams(session: &Session) -> Vec<Stream> {
    let calls = &session.gemm_calls;
    let mut streams: BTreeMap<(StrId, i64), Stream> = BTreeMap::new();
    for row in 0..calls.len() {
        let (Some(m), Some(n)) = (calls.tile_m[row], calls.tile_n[row]) else { continue };
        let stream = streams.entry((calls.artifact[row], calls.process[row])).or_default();
        stream.keys.push((m, n, calls.split_k[row].is_some_and(|parts| parts > 1)));
        // Column-major m × n is row-major n × m.
        let shape = Shape::Gemm(Gemm {
            m: calls.n[row],
            n: calls.m[row],
            k: calls.k[row],
            batch: calls.batch[row],
        });
        stream.products.push(Product {
            shape,
            operand: dtype(session.text(calls.a_type[row])),
            output: dtype(session.text(calls.d_type[row])),
            source: Source::Log,
            main: true,
        });
    }
    streams.into_values().collect()
}

/// The products of a sequence of tiles: those on which all places of the logs that have this sequence agree.
fn look_up(streams: &[Stream], keys: &[Key]) -> Vec<Option<Product>> {
    let mut found: Option<Vec<Option<Product>>> = None;
    if keys.len() < MIN_LENGTH {
        return vec![None; keys.len()];
    }
    let mut places = 0;
    for stream in streams {
        for place in occurrences(&stream.keys, keys) {
            places += 1;
            if places > MAX_PLACES {
                break;
            }
            let here = &stream.products[place..place + keys.len()];
            match &mut found {
                None => found = Some(here.iter().copied().map(Some).collect()),
                Some(found) => {
                    for (slot, product) in found.iter_mut().zip(here) {
                        *slot = slot.filter(|known| known == product);
                    }
                }
            }
        }
    }
    found.unwrap_or_else(|| vec![None; keys.len()])
}

/// Where `needle` begins in `text`, overlaps included (Knuth, Morris, Pratt, 1977).
fn occurrences(text: &[Key], needle: &[Key]) -> Vec<usize> {
    let mut border = vec![0; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[at] != needle[length] {
            length = border[length - 1];
        }
        length += usize::from(needle[at] == needle[length]);
        border[at] = length;
    }
    let mut found = Vec::new();
    let mut matched = 0;
    for (at, key) in text.iter().enumerate() {
        while matched > 0 && (matched == needle.len() || needle[matched] != *key) {
            matched = border[matched - 1];
        }
        matched += usize::from(needle.first().is_some() && needle[matched] == *key);
        if matched == needle.len() {
            found.push(at + 1 - matched);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_overlap() {
        let keys =
            |text: &str| -> Vec<Key> { text.bytes().map(|b| (u32::from(b), 0, false)).collect() };
        let at = |text, needle| occurrences(&keys(text), &keys(needle));
        assert_eq!(at("ababa", "aba"), [0, 2]);
        assert_eq!(at("aaaa", "aa"), [0, 1, 2]);
        assert_eq!(at("abcabd", "abd"), [3]);
        assert!(at("ab", "abc").is_empty() && at("", "a").is_empty());
    }

    #[test]
    fn places_that_disagree_leave_the_product_unknown() {
        let product = |m| Product {
            shape: Shape::Gemm(Gemm { m, n: 1, k: 1, batch: 1 }),
            operand: "bf16",
            output: "bf16",
            source: Source::Log,
            main: true,
        };
        // Two places of four equal tiles each; the last of the four differs in size.
        let split = (1, 1, true);
        let tile = (1, 1, false);
        let stream = Stream {
            keys: vec![tile, tile, tile, tile, split, tile, tile, tile, tile],
            products: [1, 2, 3, 4, 9, 1, 2, 3, 5].map(product).to_vec(),
        };
        let found = look_up(&[stream], &[tile; 4]);
        assert_eq!(found, [Some(product(1)), Some(product(2)), Some(product(3)), None]);
    }
}
