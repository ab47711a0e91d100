//! Sizes of GEMMs and attention, and the FLOPs and bytes that follow from them.

use std::fmt;

use rooflens_units::{Bytes, Count, Flops};

/// A product of M×K by K×N, row-major: M are the rows of the output as frameworks see it (tokens, in a model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gemm {
    /// Rows of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
    /// Products in the batch.
    pub batch: u64,
}

/// Attention of queries to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attention {
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Queries of a sequence and head.
    pub queries: u64,
    /// Keys of a sequence and head.
    pub keys: u64,
    /// Size of a head of queries and keys.
    pub size: u64,
    /// Size of a head of values.
    pub value_size: u64,
    /// Query i attends keys 1 to i.
    pub causal: bool,
    /// The backward pass.
    pub backward: bool,
}

/// What a kernel computes, as far as it counts FLOPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// A GEMM.
    Gemm(Gemm),
    /// Attention.
    Attention(Attention),
    /// A convolution, of which only the FLOPs are kept.
    Convolution {
        /// Operations.
        flops: u64,
    },
}

/// `8192 × 4096 × 14336`, a batch of several before it.
impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, batch } = self;
        if *batch > 1 {
            write!(f, "{batch} × ")?;
        }
        write!(f, "{m} × {n} × {k}")
    }
}

impl Gemm {
    /// 2·M·N·K a product.
    pub fn flops(&self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64)
    }

    /// Bytes that must move at least: both operands read once, the output written once. The arguments are the sizes of
    /// an element.
    pub fn bytes(&self, operand: Bytes, output: Bytes) -> Bytes {
        let [m, n, k] = [self.m, self.n, self.k].map(|size| size as f64);
        self.batch as f64 * ((m * k + k * n) * operand + m * n * output)
    }
}

impl Attention {
    /// FLOPs of all pairs of query and key: two products a pair and head; five in the backward pass, because the
    /// scores are computed again.
    pub fn flops_full(&self) -> Flops {
        self.flops_of(self.pairs())
    }

    /// FLOPs of the pairs that the mask leaves.
    pub fn flops(&self) -> Flops {
        self.flops_of(if self.causal {
            causal_pairs(self.queries, self.keys)
        } else {
            self.pairs()
        })
    }

    const fn pairs(&self) -> Count {
        Count(self.queries as f64 * self.keys as f64)
    }

    fn flops_of(&self, pairs: Count) -> Flops {
        let (size, value) = (self.size as f64, self.value_size as f64);
        // Forward: scores and output. Backward: scores again and gradients of q, k; gradients of v, weights.
        let per_pair = match self.backward {
            false => 2.0 * (size + value),
            true => 2.0 * (3.0 * size + 2.0 * value),
        };
        Flops(self.batch as f64 * self.heads as f64 * pairs.0 * per_pair)
    }

    /// Bytes that must move at least: queries, keys and values read once, the output written once; in the backward
    /// pass the output and its gradient read as well, and three gradients written.
    pub fn bytes(&self, element: Bytes) -> Bytes {
        let [b, h, g, q, k, d, v] = [
            self.batch,
            self.heads,
            self.kv_heads,
            self.queries,
            self.keys,
            self.size,
            self.value_size,
        ]
        .map(|size| size as f64);
        let (queries, keys, values, output) = (h * q * d, g * k * d, g * k * v, h * q * v);
        let elements = match self.backward {
            false => queries + keys + values + output,
            true => 2.0 * (queries + keys + values + output),
        };
        b * elements * element
    }
}

impl Shape {
    /// Whether both are the same work; a product and its transpose are.
    pub fn is_same_work(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gemm(one), Self::Gemm(other)) => {
                let sides =
                    |gemm: &Gemm| (gemm.m.min(gemm.n), gemm.m.max(gemm.n), gemm.k, gemm.batch);
                sides(one) == sides(other)
            }
            _ => self == other,
        }
    }

    /// FLOPs, of attention those under its mask.
    pub fn flops(&self) -> Flops {
        match self {
            Self::Gemm(gemm) => gemm.flops(),
            Self::Attention(attention) => attention.flops(),
            Self::Convolution { flops } => Flops(*flops as f64),
        }
    }

    /// FLOPs, of attention those of all pairs of query and key.
    pub fn flops_full(&self) -> Flops {
        match self {
            Self::Attention(attention) => attention.flops_full(),
            other => other.flops(),
        }
    }
}

/// Query i attends keys 1 to i, as PyTorch's mask has it: Σ min(i, keys).
fn causal_pairs(queries: u64, keys: u64) -> Count {
    let (queries, keys) = (queries as f64, keys as f64);
    let within = queries.min(keys);
    Count(within * (within + 1.0) / 2.0 + (queries - within) * keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_attends_the_keys_up_to_its_own_place() {
        assert_eq!(causal_pairs(4, 4), Count(10.0));
        // 3 queries of 5 keys: 1 + 2 + 3; 5 queries of 3 keys: 1 + 2 + 3 + 3 + 3.
        assert_eq!(causal_pairs(3, 5), Count(6.0));
        assert_eq!(causal_pairs(5, 3), Count(12.0));
    }

    #[test]
    fn bytes_are_operands_once_and_output_once() {
        // 2 · (2·4 + 4·3) read, 4 · 2·3 written, twice.
        let gemm = Gemm {
            m: 2,
            n: 3,
            k: 4,
            batch: 2,
        };
        assert_eq!(gemm.flops(), Flops(96.0));
        assert_eq!(gemm.bytes(Bytes(2.0), Bytes(4.0)), Bytes(128.0));
        let attention = Attention {
            batch: 1,
            heads: 8,
            kv_heads: 2,
            queries: 3,
            keys: 5,
            size: 4,
            value_size: 4,
            causal: false,
            backward: false,
        };
        // 8·3·4 = 96 for queries and for output, 2·5·4 = 40 for keys and for values.
        let bytes = Bytes(2.0 * (96.0 + 96.0 + 40.0 + 40.0));
        assert_eq!(attention.bytes(Bytes(2.0)), bytes);
        // 15 pairs, 8 heads, 2·(4 + 4) each.
        assert_eq!(attention.flops(), Flops(15.0 * 8.0 * 16.0));
    }
}
