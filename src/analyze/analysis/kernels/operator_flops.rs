//! FLOPs of framework operators from the shapes that a trace recorded.
//!
//! A product of M×K by K×N is 2·M·N·K. Attention is its two products per pair of query and key, with as many
//! heads as the query has: grouped keys and values are read more often, not multiplied less. Its backward
//! pass is five products, because the scores are computed again (Dao et al., FlashAttention, 2022). Bias,
//! softmax, normalization and elementwise work count 0.

use serde_json::Value;

use crate::kernels::matmul::{Attention as AttentionShape, Gemm, Shape};
use rooflens_units::Flops;

/// FLOPs of one operator call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperatorFlops {
    /// Attention over all pairs of query and key.
    pub full: Flops,
    /// Attention over the pairs that a causal mask leaves, where the call names one; otherwise as `full`.
    pub masked: Flops,
}

/// FLOPs of a call of operator `name`, from its input shapes and concrete inputs as JSON texts.
///
/// None for operators without a formula and for shapes that do not fit it.
pub fn flops(name: &str, shapes: &str, inputs: &str) -> Option<OperatorFlops> {
    let shape = shape(name, shapes, inputs)?;
    let flops = OperatorFlops {
        full: shape.flops_full(),
        masked: shape.flops(),
    };
    Some(flops).filter(|flops| flops.full.is_finite())
}

/// What a call of operator `name` computes, if it is a product, a convolution or attention.
pub fn shape(name: &str, shapes: &str, inputs: &str) -> Option<Shape> {
    let formula = Formula::of(name)?;
    let shapes: Value = serde_json::from_str(shapes).ok()?;
    let call = Call {
        shapes,
        inputs: serde_json::from_str(inputs).unwrap_or(Value::Null),
    };
    match formula {
        Formula::Product { first } => call.product(first).map(Shape::Gemm),
        Formula::Grouped => call.grouped().map(Shape::Gemm),
        Formula::Linear => call.linear().map(Shape::Gemm),
        Formula::MatMul => call.matmul().map(Shape::Gemm),
        Formula::Convolution => call.convolution().and_then(convolution),
        Formula::ConvolutionBackward => call.convolution_backward().and_then(convolution),
        Formula::Attention(attention) => call.attention(attention).map(Shape::Attention),
    }
}

/// Position of the operands in the inputs of an operator: the first of them has the type of the work.
pub fn first_operand(name: &str) -> usize {
    match Formula::of(name) {
        Some(Formula::Product { first }) => first,
        Some(Formula::Attention(attention)) => attention.query,
        _ => 0,
    }
}

fn convolution(flops: Flops) -> Option<Shape> {
    (flops >= Flops::ZERO && flops.is_finite()).then_some(Shape::Convolution {
        flops: flops.0 as u64,
    })
}

/// How an operator's FLOPs follow from its inputs.
#[derive(Clone, Copy)]
enum Formula {
    /// Two matrices, or two batches of them, from input `first` on.
    Product {
        first: usize,
    },
    /// Rows, or columns, of which groups meet a matrix each.
    Grouped,
    /// Input and weight [out, in].
    Linear,
    /// Two operands of any rank, broadcast over the leading dimensions.
    MatMul,
    Convolution,
    ConvolutionBackward,
    Attention(Attention),
}

/// Where an attention operator has what.
#[derive(Clone, Copy)]
struct Attention {
    /// Position of the query; key and value follow it.
    query: usize,
    /// [batch, sequence, heads, head size] rather than [batch, heads, sequence, head size].
    sequence_first: bool,
    /// Position of the causal flag, if there is one.
    causal: Option<usize>,
    backward: bool,
}

impl Formula {
    /// The formula of an operator. Positions are those of PyTorch's `native_functions.yaml`.
    fn of(name: &str) -> Option<Self> {
        let attention = |query, sequence_first, causal| {
            let backward = query == 1;
            Self::Attention(Attention {
                query,
                sequence_first,
                causal,
                backward,
            })
        };
        Some(match name {
            "aten::mm"
            | "aten::bmm"
            | "aten::_scaled_mm"
            | "aten::_scaled_mm_v2"
            | "aten::_int_mm" => Self::Product { first: 0 },
            "aten::_grouped_mm" | "aten::_scaled_grouped_mm" | "aten::_scaled_grouped_mm_v2" => {
                Self::Grouped
            }
            "aten::addmm" | "aten::baddbmm" | "aten::_addmm_activation" => {
                Self::Product { first: 1 }
            }
            "aten::linear" => Self::Linear,
            "aten::matmul" => Self::MatMul,
            "aten::convolution" | "aten::_convolution" => Self::Convolution,
            "aten::convolution_backward" => Self::ConvolutionBackward,
            "aten::scaled_dot_product_attention"
            | "aten::_scaled_dot_product_fused_attention_overrideable" => {
                attention(0, false, Some(5))
            }
            "aten::_scaled_dot_product_flash_attention" => attention(0, false, Some(4)),
            "aten::_scaled_dot_product_efficient_attention"
            | "aten::_scaled_dot_product_cudnn_attention" => attention(0, false, Some(6)),
            "aten::_cudnn_attention_forward" => attention(0, false, Some(10)),
            "aten::_flash_attention_forward" => attention(0, true, Some(8)),
            "aten::_efficient_attention_forward" => attention(0, true, None),
            "flash_attn::_flash_attn_forward" => attention(0, true, Some(5)),
            "aten::_scaled_dot_product_flash_attention_backward"
            | "aten::_scaled_dot_product_efficient_attention_backward" => {
                attention(1, false, Some(11))
            }
            "aten::_scaled_dot_product_cudnn_attention_backward"
            | "aten::_cudnn_attention_backward" => attention(1, false, Some(14)),
            "aten::_flash_attention_backward" => attention(1, true, Some(11)),
            "aten::_efficient_attention_backward" => attention(1, true, None),
            "flash_attn::_flash_attn_backward" => attention(1, true, Some(11)),
            _ => return None,
        })
    }
}

/// Inputs of a call.
struct Call {
    shapes: Value,
    inputs: Value,
}

impl Call {
    /// Dimensions of tensor input `index`; none for scalars and lists of tensors.
    fn dims(&self, index: usize) -> Option<Vec<u64>> {
        let dims = self.shapes.get(index)?.as_array()?;
        let dims: Option<Vec<u64>> = dims.iter().map(Value::as_u64).collect();
        dims.filter(|dims| !dims.is_empty())
    }

    fn floats(&self, index: usize) -> Option<Vec<f64>> {
        Some(
            self.dims(index)?
                .into_iter()
                .map(|dim| dim as f64)
                .collect(),
        )
    }

    /// A recorded scalar input: `True`, `[1, 1]`.
    fn input(&self, index: usize) -> Option<&str> {
        self.inputs
            .get(index)?
            .as_str()
            .filter(|text| !text.is_empty())
    }

    fn product(&self, first: usize) -> Option<Gemm> {
        let (a, b) = (self.dims(first)?, self.dims(first + 1)?);
        let batch = match (a.as_slice(), b.as_slice()) {
            ([_, _], [_, _]) => 1,
            ([batch, _, _], [other, _, _]) if batch == other => *batch,
            _ => return None,
        };
        let gemm = Gemm {
            m: last(&a, 2)?,
            n: last(&b, 1)?,
            k: last(&a, 1)?,
            batch,
        };
        (last(&a, 1) == last(&b, 2)).then_some(gemm)
    }

    /// Groups share the rows of a matrix, its columns or the depth: FLOPs are those of all rows at once. Where they
    /// share rows evenly it is a product a group, which reads each matrix; else at least one is read.
    fn grouped(&self) -> Option<Gemm> {
        let (a, b) = (self.dims(0)?, self.dims(1)?);
        match (a.as_slice(), b.as_slice()) {
            ([_, _, _], [_, _, _]) | ([_, _], [_, _]) => self.product(0),
            ([m, k], [groups, depth, n]) if k == depth => {
                let even = *groups > 0 && m.is_multiple_of(*groups);
                let (m, batch) = if even { (m / groups, *groups) } else { (*m, 1) };
                Some(Gemm {
                    m,
                    n: *n,
                    k: *k,
                    batch,
                })
            }
            ([groups, m, k], [depth, n]) if k == depth => {
                let even = *groups > 0 && n.is_multiple_of(*groups);
                let (n, batch) = if even { (n / groups, *groups) } else { (*n, 1) };
                Some(Gemm {
                    m: *m,
                    n,
                    k: *k,
                    batch,
                })
            }
            _ => None,
        }
    }

    fn linear(&self) -> Option<Gemm> {
        let (input, weight) = (self.dims(0)?, self.dims(1)?);
        let [n, k] = weight[..] else { return None };
        let (depth, rows) = input.split_last()?;
        (*depth == k).then_some(Gemm {
            m: volume(rows)?,
            n,
            k,
            batch: 1,
        })
    }

    fn matmul(&self) -> Option<Gemm> {
        let (a, b) = (self.dims(0)?, self.dims(1)?);
        // A vector is a matrix with one row, or one column on the right.
        let (k, m) = (last(&a, 1)?, last(&a, 2).unwrap_or(1));
        let n = if b.len() == 1 { 1 } else { last(&b, 1)? };
        if k != last(&b, 2).unwrap_or(b[0]) {
            return None;
        }
        let leading = |dims: &[u64], index: usize| last(dims, index).unwrap_or(1);
        let batch: Vec<u64> = (3..=a.len().max(b.len()))
            .map(|index| leading(&a, index).max(leading(&b, index)))
            .collect();
        Some(Gemm {
            m,
            n,
            k,
            batch: volume(&batch)?,
        })
    }

    /// 2 · outputs · kernel volume · input channels of a group; of a transposed one, inputs · output channels.
    fn convolution(&self) -> Option<Flops> {
        let (input, weight) = (self.floats(0)?, self.floats(1)?);
        let spatial = input.len().checked_sub(2)?;
        if weight.len() != input.len() {
            return None;
        }
        let per_point = weight[1..].iter().product::<f64>();
        if flag(self.input(6)?)? {
            return Some(Flops(2.0 * input.iter().product::<f64>() * per_point));
        }
        let (stride, padding, dilation) = (
            self.list(3, spatial)?,
            self.list(4, spatial)?,
            self.list(5, spatial)?,
        );
        let outputs = (0..spatial).map(|d| {
            let reach = dilation[d] * (weight[d + 2] - 1.0) + 1.0;
            let steps = (input[d + 2] + 2.0 * padding[d] - reach) / stride[d];
            steps.floor().max(-1.0) + 1.0
        });
        let outputs = outputs.product::<f64>();
        Some(Flops(2.0 * input[0] * weight[0] * outputs * per_point))
    }

    /// Each gradient that is asked for, of input and of weight, costs as much as the forward pass.
    fn convolution_backward(&self) -> Option<Flops> {
        let (gradient, input, weight) = (self.floats(0)?, self.floats(1)?, self.floats(2)?);
        let points = if flag(self.input(7)?)? {
            input
        } else {
            gradient
        };
        let forward =
            2.0 * points.iter().product::<f64>() * weight.get(1..)?.iter().product::<f64>();
        let wanted = self.input(10)?.trim_matches(['[', ']']).split(',').take(2);
        let gradients = wanted
            .filter(|text| flag(text.trim()) == Some(true))
            .count();
        Some(Flops(forward * gradients as f64))
    }

    fn attention(&self, at: Attention) -> Option<AttentionShape> {
        let [q, k, v] = [0, 1, 2].map(|offset| self.dims(at.query + offset));
        let order = |dims: Vec<u64>| match dims[..] {
            [batch, sequence, heads, size] if at.sequence_first => {
                Some([batch, heads, sequence, size])
            }
            [batch, heads, sequence, size] => Some([batch, heads, sequence, size]),
            _ => None,
        };
        let [batch, heads, queries, size] = order(q?)?;
        let [_, kv_heads, keys, _] = order(k?)?;
        let [_, _, _, value_size] = order(v?)?;
        let causal = at.causal.and_then(|index| self.input(index)).and_then(flag) == Some(true);
        let backward = at.backward;
        Some(AttentionShape {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            size,
            value_size,
            causal,
            backward,
        })
    }

    /// A recorded list of `length` integers; one integer represents all.
    fn list(&self, index: usize, length: usize) -> Option<Vec<f64>> {
        let list: Vec<u64> = serde_json::from_str(self.input(index)?).ok()?;
        let list: Vec<f64> = match list[..] {
            [all] => vec![all as f64; length],
            _ => list.iter().map(|n| *n as f64).collect(),
        };
        (list.len() == length).then_some(list)
    }
}

/// The dimension at place `index` from the right, counted from 1.
fn last(dims: &[u64], index: usize) -> Option<u64> {
    dims.len().checked_sub(index).map(|position| dims[position])
}

/// The product of dimensions, 1 of none.
fn volume(dims: &[u64]) -> Option<u64> {
    dims.iter()
        .try_fold(1_u64, |volume, dim| volume.checked_mul(*dim))
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(name: &str, shapes: &str, inputs: &str) -> Option<f64> {
        flops(name, shapes, inputs).map(|flops| flops.full.0)
    }

    #[test]
    fn products_are_two_m_n_k() {
        // 2 · 8 · 16 · 32.
        assert_eq!(full("aten::mm", "[[8,32],[32,16]]", ""), Some(8192.0));
        assert_eq!(
            full("aten::addmm", "[[16],[8,32],[32,16],[],[]]", ""),
            Some(8192.0)
        );
        assert_eq!(
            full("aten::bmm", "[[3,8,32],[3,32,16]]", ""),
            Some(3.0 * 8192.0)
        );
        assert_eq!(
            full("aten::baddbmm", "[[3,8,16],[3,8,32],[3,32,16]]", ""),
            Some(24_576.0)
        );
        assert_eq!(
            full("aten::linear", "[[2,4,32],[16,32],[16]]", ""),
            Some(8192.0)
        );
        assert_eq!(full("aten::matmul", "[[2,4,32],[32,16]]", ""), Some(8192.0));
        assert_eq!(
            full("aten::matmul", "[[2,1,4,32],[3,32,16]]", ""),
            Some(6.0 * 4096.0)
        );
        assert_eq!(full("aten::matmul", "[[4,32],[32]]", ""), Some(256.0));
    }

    #[test]
    fn convolutions_count_outputs_times_kernel() {
        // 8×8 input, 3×3 kernel, padding 1, stride 2: 4×4 outputs. 2 · 2 · 16 · (4·4) · 8 · 9.
        let shapes = "[[2,8,8,8],[16,8,3,3],[],[],[],[],[],[],[]]";
        let inputs = r#"["","","","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1"]"#;
        assert_eq!(full("aten::convolution", shapes, inputs), Some(73_728.0));
        // Transposed, weight [in, out, 3, 3]: 2 · (2·8·8·8) · 16 · 9.
        let shapes = "[[2,8,8,8],[8,16,3,3]]";
        let inputs = r#"["","","","[2]","[1]","[1]","True","[0]","1"]"#;
        assert_eq!(full("aten::convolution", shapes, inputs), Some(294_912.0));
        // Both gradients of the first: twice 73 728; only that of the weight: once.
        let shapes = "[[2,16,4,4],[2,8,8,8],[16,8,3,3]]";
        let backward = |mask: &str| {
            let inputs = format!(
                r#"["","","","","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1","{mask}"]"#
            );
            full("aten::convolution_backward", shapes, &inputs)
        };
        assert_eq!(backward("[True, True, False]"), Some(147_456.0));
        assert_eq!(backward("[False, True, True]"), Some(73_728.0));
    }

    #[test]
    fn attention_counts_query_heads_and_all_pairs_and_names_the_causal_value() {
        // Batch 2, 8 query heads on 2 key heads, 4 queries and keys of size 16: 4·2·8·4·4·16.
        let shapes = "[[2,8,4,16],[2,2,4,16],[2,2,4,16],[],[],[],[],[]]";
        let causal = r#"["","","","","0.","True","0.25","True"]"#;
        let found = flops("aten::scaled_dot_product_attention", shapes, causal);
        // 10 of 16 pairs remain under the mask.
        assert_eq!(
            found,
            Some(OperatorFlops {
                full: Flops(16_384.0),
                masked: Flops(10_240.0)
            })
        );
        let all = r#"["","","","","0.","False","0.25","True"]"#;
        let found = flops("aten::scaled_dot_product_attention", shapes, all);
        assert_eq!(
            found,
            Some(OperatorFlops {
                full: Flops(16_384.0),
                masked: Flops(16_384.0)
            })
        );
    }

    #[test]
    fn groups_of_a_grouped_product_share_rows_columns_or_depth() {
        // 2 · 96 · 16 · 32, whether 96 rows belong to 4 groups or, unevenly, to 5.
        for groups in [4, 5] {
            let shapes = format!("[[96,32],[{groups},32,16],[{groups}]]");
            assert_eq!(full("aten::_grouped_mm", &shapes, ""), Some(98_304.0));
            assert_eq!(
                full("aten::_scaled_grouped_mm", &shapes, ""),
                Some(98_304.0)
            );
        }
        // Weight gradients share the depth: 2 · 32 · 16 · 96.
        assert_eq!(
            full("aten::_grouped_mm", "[[32,96],[96,16],[4]]", ""),
            Some(98_304.0)
        );
        assert_eq!(
            full("aten::_grouped_mm", "[[4,8,32],[32,96],[4]]", ""),
            Some(49_152.0)
        );
        assert_eq!(
            full("aten::_grouped_mm", "[[4,8,32],[4,32,16]]", ""),
            Some(32_768.0)
        );
        assert_eq!(
            full("aten::_grouped_mm", "[[96,31],[4,32,16],[4]]", ""),
            None
        );
        let shape = shape("aten::_grouped_mm", "[[96,32],[4,32,16],[4]]", "");
        assert_eq!(
            shape,
            Some(Shape::Gemm(Gemm {
                m: 24,
                n: 16,
                k: 32,
                batch: 4
            }))
        );
    }

    #[test]
    fn latent_attention_has_values_of_another_size() {
        // Heads of 192 for queries and keys, 128 for values: 2 · 1·16·8·8 · (192 + 128).
        let shapes = "[[1,16,8,192],[1,16,8,192],[1,16,8,128]]";
        assert_eq!(
            full("aten::scaled_dot_product_attention", shapes, ""),
            Some(655_360.0)
        );
    }

    #[test]
    fn attention_backward_is_five_products() {
        // 5 · 2·B·H·S²·D with B 2, H 8, S 4, D 16.
        let shapes = "[[2,8,4,16],[2,8,4,16],[2,8,4,16],[2,8,4,16]]";
        let name = "aten::_scaled_dot_product_flash_attention_backward";
        assert_eq!(full(name, shapes, ""), Some(40_960.0));
        // The same with the sequence before the heads.
        let shapes = "[[2,4,8,16],[2,4,8,16],[2,4,8,16],[2,4,8,16]]";
        assert_eq!(
            full("aten::_flash_attention_backward", shapes, ""),
            Some(40_960.0)
        );
    }

    #[test]
    fn shapes_that_do_not_fit_give_nothing() {
        assert_eq!(full("aten::mm", "[[8,32],[31,16]]", ""), None);
        assert_eq!(full("aten::mm", "[[8,32]]", ""), None);
        assert_eq!(full("aten::mm", "", ""), None);
        assert_eq!(full("aten::mm", "[[8,-1],[32,16]]", ""), None);
        assert_eq!(full("aten::add", "[[8,32],[8,32]]", ""), None);
        assert_eq!(full("aten::convolution", "[[8],[32]]", "[]"), None);
        assert_eq!(
            full(
                "aten::_flash_attention_forward",
                "[[8,4,16],[8,4,16],[8,4,16]]",
                ""
            ),
            None
        );
        assert_eq!(full("aten::matmul", "[[],[]]", ""), None);
        let huge = "[[18446744073709551615,18446744073709551615],[18446744073709551615,1]]";
        assert!(full("aten::mm", huge, "").is_some_and(f64::is_finite));
    }
}
