//! The operations computed plainly on the host, against which the device's results are checked.

use super::operation::Case;

/// D = X · Wᵀ + bias: X is [m, k], W [n, k].
pub(super) fn linear(x: &[f32], w: &[f32], bias: Option<&[f32]>, k: usize) -> Vec<f32> {
    let rows = x.chunks_exact(k).flat_map(|row| {
        w.chunks_exact(k)
            .enumerate()
            .map(move |(column, weights)| dot(row, weights) + bias.map_or(0.0, |bias| bias[column]))
    });
    rows.collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum::<f64>() as f32
}

/// Sizes of attention: `queries` is the number of new tokens, the last of `keys`.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) dim: usize,
}

/// Causal attention: q is [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim].
pub(super) fn attention(q: &[f32], k: &[f32], v: &[f32], sizes: Attention) -> Vec<f32> {
    let Attention {
        heads,
        kv_heads,
        queries,
        keys,
        dim,
    } = sizes;
    let mut out = Vec::with_capacity(q.len());
    for (row, query) in q.chunks_exact(dim).enumerate() {
        let (head, number) = (row / queries, row % queries);
        let kv = head / heads * kv_heads + head % heads / (heads / kv_heads);
        let known = number + keys - queries + 1;
        let at = kv * keys * dim..(kv * keys + known) * dim;
        let scale = 1.0 / (dim as f32).sqrt();
        let scores = k[at.clone()]
            .chunks_exact(dim)
            .map(|key| dot(query, key) * scale);
        let weights = softmax(&scores.collect::<Vec<f32>>(), known);
        let values = &v[at];
        out.extend((0..dim).map(|d| {
            weights
                .iter()
                .enumerate()
                .map(|(key, weight)| weight * values[key * dim + d])
                .sum::<f32>()
        }));
    }
    out
}

/// Softmax of each row.
pub(super) fn softmax(x: &[f32], columns: usize) -> Vec<f32> {
    let row = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = row.iter().map(|x| f64::from((x - most).exp())).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |power| (power / sum) as f32)
    };
    x.chunks_exact(columns).flat_map(row).collect()
}

/// x / √(mean x² + ε) · weight, with ε = 10⁻⁵.
pub(super) fn rms_norm(x: &[f32], weight: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let scale = 1.0 / (dot(row, row) / row.len() as f32 + 1e-5).sqrt();
        row.iter()
            .zip(weight)
            .map(move |(x, w)| x * scale * w)
            .collect::<Vec<f32>>()
    };
    x.chunks_exact(weight.len()).flat_map(row).collect()
}

/// (x − mean) / √(variance + ε) · weight + bias, with ε = 10⁻⁵.
pub(super) fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let centred: Vec<f32> = row.iter().map(|x| x - mean).collect();
        let scale = 1.0 / (dot(&centred, &centred) / row.len() as f32 + 1e-5).sqrt();
        let scaled = centred
            .iter()
            .zip(weight)
            .zip(bias)
            .map(|((x, w), b)| x * scale * w + b);
        scaled.collect::<Vec<f32>>()
    };
    x.chunks_exact(weight.len()).flat_map(row).collect()
}

/// x/2 · (1 + erf(x/√2)).
pub(super) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(f64::from(x) / 2f64.sqrt()) as f32)
}

/// The approximation 7.1.26 of Abramowitz and Stegun: its error is below 1.5 · 10⁻⁷.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let coefficients = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = coefficients.iter().fold(0.0, |sum, c| sum * t + c) * t;
    let power = ((-x * x) as f32).exp();
    (1.0 - sum * f64::from(power)).copysign(x)
}

/// x / (1 + e⁻ˣ).
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// Rotates the halves of each head of `dim` elements; the tables hold `dim / 2` angles a position.
pub(super) fn rotary(
    x: &[f32],
    cosines: &[f32],
    sines: &[f32],
    heads: usize,
    dim: usize,
) -> Vec<f32> {
    let half = dim / 2;
    let positions = cosines.len() / half;
    let mut out = x.to_vec();
    for (row, head) in out.chunks_exact_mut(dim).enumerate() {
        let position = row / heads % positions;
        for d in 0..half {
            let (c, s) = (cosines[position * half + d], sines[position * half + d]);
            let (a, b) = (head[d], head[half + d]);
            head[d] = a * c - b * s;
            head[half + d] = b * c + a * s;
        }
    }
    out
}

/// The convolution of x, which is [batch, height, width, channels], by w, which is [channels_out, kernel, kernel,
/// channels]; the result has its channels last.
pub(super) fn conv2d(x: &[f32], w: &[f32], case: &Case) -> Vec<f32> {
    let [height, width, channels, kernel, stride, padding] = [
        "height",
        "width",
        "channels_in",
        "kernel",
        "stride",
        "padding",
    ]
    .map(|name| case.size(name) as usize);
    let (rows, columns) = case.image();
    let (rows, columns) = (rows as usize, columns as usize);
    let image = height * width * channels;
    let filter = kernel * kernel * channels;
    let mut out = Vec::new();
    for index in 0..x.len() / image * rows * columns {
        let (number, row, column) = (
            index / columns / rows,
            index / columns % rows,
            index % columns,
        );
        for weights in w.chunks_exact(filter) {
            let mut sum = 0.0;
            for (place, weights) in weights.chunks_exact(channels).enumerate() {
                let h = (row * stride + place / kernel).wrapping_sub(padding);
                let w = (column * stride + place % kernel).wrapping_sub(padding);
                if h < height && w < width {
                    let at = number * image + (h * width + w) * channels;
                    sum += dot(&x[at..at + channels], weights);
                }
            }
            out.push(sum);
        }
    }
    out
}

/// The outputs of all steps: x is [sequence, batch, in], the weights [4 · hidden, in] and [4 · hidden, hidden] in the
/// order input, forget, cell, output; state and cell start at zero.
pub(super) fn lstm(x: &[f32], w: &[f32], u: &[f32], batch: usize, hidden: usize) -> Vec<f32> {
    let input = w.len() / (4 * hidden);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let (mut h, mut c) = (vec![0f32; batch * hidden], vec![0f32; batch * hidden]);
    let mut out = Vec::new();
    for step in x.chunks_exact(batch * input) {
        let mut gates = linear(step, w, None, input);
        let recurrent = linear(&h, u, None, hidden);
        gates
            .iter_mut()
            .zip(&recurrent)
            .for_each(|(gate, more)| *gate += more);
        for (i, (h, c)) in h.iter_mut().zip(&mut c).enumerate() {
            let gate = |which: usize| gates[i / hidden * 4 * hidden + which * hidden + i % hidden];
            *c = sigmoid(gate(1)) * *c + sigmoid(gate(0)) * gate(2).tanh();
            *h = sigmoid(gate(3)) * c.tanh();
        }
        out.extend_from_slice(&h);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::operation::Kind;
    use super::*;
    use crate::cuda::Dtype;

    fn close(a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        assert!(
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5),
            "{a:?} {b:?}"
        );
    }

    #[test]
    fn linear_by_hand() {
        // [1 2] · [[3 4], [5 6]]ᵀ + [10 20] = [11 + 10, 17 + 20].
        close(
            &linear(&[1.0, 2.0], &[3.0, 4.0, 5.0, 6.0], Some(&[10.0, 20.0]), 2),
            &[21.0, 37.0],
        );
    }

    #[test]
    fn attention_of_the_first_token_is_its_value() {
        let sizes = Attention {
            heads: 2,
            kv_heads: 1,
            queries: 2,
            keys: 2,
            dim: 1,
        };
        // Head 0: scores 0 and ln 3 for the second token: weights 1/4, 3/4 of values 4 and 8.
        let ln3 = 3f32.ln();
        let out = attention(&[5.0, 1.0, 0.0, 0.0], &[0.0, ln3], &[4.0, 8.0], sizes);
        close(&out, &[4.0, 7.0, 4.0, 6.0]);
        let sizes = Attention {
            queries: 1,
            ..sizes
        };
        close(
            &attention(&[1.0, 0.0], &[0.0, ln3], &[4.0, 8.0], sizes),
            &[7.0, 6.0],
        );
    }

    #[test]
    fn norms_by_hand() {
        // mean of squares of (3, 4) is 12.5; (3, 5) has mean 4 and variance 1.
        close(
            &rms_norm(&[3.0, 4.0], &[1.0, 2.0]),
            &[3.0 / 12.5f32.sqrt(), 8.0 / 12.5f32.sqrt()],
        );
        close(
            &layer_norm(&[3.0, 5.0], &[1.0, 2.0], &[0.0, 1.0]),
            &[-0.999_995, 2.999_99],
        );
    }

    #[test]
    fn functions_by_known_values() {
        // Φ(1) = 0.841344746; σ(1) = 0.731058579.
        close(
            &[gelu(1.0), gelu(-1.0), silu(1.0)],
            &[0.841_344_8, -0.158_655_2, 0.731_058_6],
        );
        close(&softmax(&[0.0, 3f32.ln()], 2), &[0.25, 0.75]);
        // A quarter turn: (a, b) becomes (−b, a).
        close(&rotary(&[1.0, 2.0], &[0.0], &[1.0], 1, 2), &[-2.0, 1.0]);
    }

    #[test]
    fn a_convolution_by_hand() {
        let sizes = [
            ("height", 2),
            ("width", 2),
            ("channels_in", 1),
            ("kernel", 3),
        ];
        let sizes = sizes
            .into_iter()
            .chain([("stride", 1), ("padding", 1)])
            .collect();
        let case = Case {
            kind: Kind::Conv2d,
            dtype: Dtype::Fp32,
            sizes,
        };
        // All ones: each place sees the whole image, 1 + 2 + 3 + 4.
        close(&conv2d(&[1.0, 2.0, 3.0, 4.0], &[1.0; 9], &case), &[10.0; 4]);
        let mut corner = [0.0; 9];
        corner[0] = 1.0;
        close(
            &conv2d(&[1.0, 2.0, 3.0, 4.0], &corner, &case),
            &[0.0, 0.0, 0.0, 1.0],
        );
    }

    #[test]
    fn an_lstm_by_hand() {
        // Gates 0, 0, x, 0 with no recurrence: c₁ = tanh(x)/2, c₂ = c₁/2 + tanh(x)/2.
        let out = lstm(&[1.0, 1.0], &[0.0, 0.0, 1.0, 0.0], &[0.0; 4], 1, 1);
        let c1 = 1f32.tanh() / 2.0;
        close(&out, &[c1.tanh() / 2.0, (1.5 * c1).tanh() / 2.0]);
    }
}
