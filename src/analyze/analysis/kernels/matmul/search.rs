//! A sequence of kernels in longer ones whose sizes are recorded.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::Product;

/// Products of an instance below which an order tells nothing.
const MIN_LENGTH: usize = 4;

/// Places that are compared with one another.
const MAX_PLACES: usize = 128;

/// Distinct sequences that are looked up; more are left without sizes.
const MAX_SEARCHES: usize = 256;

/// Kernels in the order in which they ran, with what each computes.
pub(super) struct Stream<K> {
    pub(super) keys: Vec<K>,
    pub(super) products: Vec<Option<Product>>,
}

/// What each kernel of a sequence computes.
pub(super) type Found = Vec<Option<Product>>;

/// Sequences that were looked up, by the rank of their process: stages repeat the same ones.
pub(super) struct Searches<'a, K> {
    streams: &'a [(Option<u32>, Stream<K>)],
    known: FxHashMap<(Option<u32>, Vec<K>), Found>,
}

impl<'a, K: Eq + Hash + Clone> Searches<'a, K> {
    pub(super) fn new(streams: &'a [(Option<u32>, Stream<K>)]) -> Self {
        Self {
            streams,
            known: FxHashMap::default(),
        }
    }

    /// What the kernels of a sequence compute, by the streams of their rank and those of none.
    pub(super) fn find(&mut self, keys: &[K], rank: Option<u32>) -> Found {
        let key = (rank, keys.to_vec());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MAX_SEARCHES {
            return vec![None; keys.len()];
        }
        let of_stage = self
            .streams
            .iter()
            .filter(|(its, _)| its.is_none() || rank.is_none() || *its == rank);
        let products = agreed(of_stage.map(|(_, stream)| stream), keys);
        self.known.insert(key, products.clone());
        products
    }
}

/// The products of a sequence: those on which all places of the streams that have this sequence agree.
fn agreed<'a, K: PartialEq + 'a>(
    streams: impl Iterator<Item = &'a Stream<K>>,
    keys: &[K],
) -> Found {
    let none = || vec![None; keys.len()];
    if keys.len() < MIN_LENGTH {
        return none();
    }
    let places = streams.flat_map(|stream| {
        occurrences(&stream.keys, keys)
            .into_iter()
            .map(move |start| (stream, start))
    });
    let mut agreed_products: Option<Found> = None;
    for (stream, start) in places.take(MAX_PLACES) {
        let candidate = &stream.products[start..start + keys.len()];
        match &mut agreed_products {
            None => agreed_products = Some(candidate.to_vec()),
            Some(agreed_products) => {
                for (slot, product) in agreed_products.iter_mut().zip(candidate) {
                    *slot = slot.filter(|slot_product| Some(*slot_product) == *product);
                }
            }
        }
    }
    agreed_products.unwrap_or_else(none)
}

/// Where `needle` begins in `text`, overlaps included (Knuth, Morris, Pratt, 1977).
fn occurrences<K: PartialEq>(text: &[K], needle: &[K]) -> Vec<usize> {
    let mut border = vec![0; needle.len()];
    let mut length = 0;
    for index in 1..needle.len() {
        while length > 0 && needle[index] != needle[length] {
            length = border[length - 1];
        }
        length += usize::from(needle[index] == needle[length]);
        border[index] = length;
    }
    let mut starts = Vec::new();
    let mut matched = 0;
    for (index, key) in text.iter().enumerate() {
        while matched > 0 && (matched == needle.len() || needle[matched] != *key) {
            matched = border[matched - 1];
        }
        matched += usize::from(!needle.is_empty() && needle[matched] == *key);
        if matched == needle.len() {
            starts.push(index + 1 - matched);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matmul::{Gemm, Shape, Source};

    #[test]
    fn occurrences_overlap() {
        let at = |text: &str, needle: &str| occurrences(text.as_bytes(), needle.as_bytes());
        assert_eq!(at("ababa", "aba"), [0, 2]);
        assert_eq!(at("aaaa", "aa"), [0, 1, 2]);
        assert_eq!(at("abcabd", "abd"), [3]);
        assert!(at("ab", "abc").is_empty() && at("", "a").is_empty());
    }

    #[test]
    fn places_that_disagree_leave_the_product_unknown() {
        let product = |m| {
            Some(Product {
                shape: Shape::Gemm(Gemm {
                    m,
                    n: 1,
                    k: 1,
                    batch: 1,
                }),
                operand: "bf16",
                output: "bf16",
                source: Source::Log,
                main: true,
            })
        };
        // Two places of four equal tiles each; the last of the four differs in size.
        let stream = Stream {
            keys: b"aaaabaaaa".to_vec(),
            products: [1, 2, 3, 4, 9, 1, 2, 3, 5].map(product).to_vec(),
        };
        let found = agreed([stream].iter(), b"aaaa");
        assert_eq!(found, [product(1), product(2), product(3), None]);
    }
}
