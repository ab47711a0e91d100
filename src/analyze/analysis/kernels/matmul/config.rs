//! Sizes from the model's dimensions, where a stage instance runs just the kernels that a dense decoder needs.
//!
//! Attention kernels part the layers: before the first stand its projections, between two the rest of a layer and the
//! projections of the next, behind the last the rest and the LM head. An instance with other numbers of products is
//! left alone.

use rooflens_schemas::{StageKind, Workload};

use super::{
    Attention, Gemm, Layer, Matrix, Product, Products, Shape, Source, innermost_first, positions,
};
use crate::engine::classify::KernelClass;
use crate::engine::facts::{Facts, OpIndex, Sizes};
use crate::engine::stage_names::is_of_engine;
use rooflens_llm::Outline;
use rooflens_session::{KernelId, Llm, Session};

/// A matrix kernel of an instance.
#[derive(Clone, Copy)]
struct Kernel {
    op: OpIndex,
    class: KernelClass,
    main: bool,
}

/// What one instance does.
struct Pass<'a> {
    model: &'a Llm,
    batch: u64,
    new: u64,
    /// Cached positions; absent where the step of the loop is not known.
    past: Option<u64>,
    /// Positions per sequence with logits.
    logits: u64,
    dtype: &'static str,
}

pub(super) fn find(session: &Session, facts: &Facts, matrix: &Matrix, products: &mut Products) {
    let Some(model) = session
        .model
        .as_ref()
        .filter(|model| is_dense_decoder(model))
    else {
        return;
    };
    let positions = positions(facts);
    for stage in innermost_first(facts) {
        let stage = &facts.stages[stage];
        if is_of_engine(session, facts, stage) {
            continue;
        }
        let parent = stage.parent.map(|parent| facts.stages[parent].kind);
        // A reference model in a training step needs the logits of all positions.
        let kind = match (stage.kind, parent) {
            (StageKind::Prefill, Some(StageKind::TrainStep)) => StageKind::Forward,
            (kind, _) => kind,
        };
        let name = session.pass_name(stage.pass);
        let workload = session.workload.for_pass(name);
        for instance in stage.instances.clone() {
            let sizes = facts.instances[instance].sizes;
            let Some(pass) = pass(kind, sizes, positions[instance], &workload, model) else {
                break;
            };
            let kernels = kernels(session, facts, matrix, instance);
            if kernels.iter().all(|kernel| products.is_known(kernel.op)) {
                continue;
            }
            let Some(mut known) = pass.products(&kernels) else {
                continue;
            };
            if pass.logits > 1 && drop_impossible_head(facts, &mut known) {
                products.in_part.insert(stage.name.clone());
            }
            for (op, product) in known {
                products.set(Layer::Best, op, product);
            }
        }
    }
}

fn is_dense_decoder(model: &Llm) -> bool {
    unsized_parts(model).is_empty() && model.depth() > 0 && model.outline.heads > 0
}

/// What of a model has FLOPs by its dimensions, but products of which they do not tell the sizes, and why.
pub fn unsized_parts(model: &Llm) -> Vec<String> {
    let Outline {
        experts,
        experts_per_token,
        latent,
        ..
    } = model.outline;
    let routed = (experts > 0).then(|| {
        format!(
            "{experts} experts, {experts_per_token} for a token: how many tokens each of them gets is decided at run time"
        )
    });
    let latent = latent.then(|| {
        "latent attention: kernels may multiply its low-rank factors before or after".to_owned()
    });
    let hybrid = (experts == 0 && latent.is_none() && !model.is_dense_decoder())
        .then(|| "layers of hybrid kinds than attention and a dense block".to_owned());
    routed.into_iter().chain(latent).chain(hybrid).collect()
}

/// What an instance does, by the sizes of its calls of the model where they are recorded, else by those of the workload.
fn pass<'a>(
    kind: StageKind,
    sizes: Sizes,
    position: Option<u32>,
    workload: &Workload,
    model: &'a Llm,
) -> Option<Pass<'a>> {
    if workload.model_parallel.unwrap_or(1) > 1 {
        return None;
    }
    let batch = sizes.batch.or(workload.batch)?;
    let prompt = sizes.tokens.or(workload.prompt_tokens)?;
    let dtype = workload
        .dtype
        .as_deref()
        .or(model.dtype.as_deref())
        .unwrap_or_default();
    let dtype = ["bf16", "fp16", "fp32"]
        .into_iter()
        .find(|candidate| *candidate == dtype)?;
    let (new, past, logits) = match kind {
        StageKind::Prefill => (prompt, Some(0), 1),
        StageKind::Forward => (prompt, Some(0), prompt),
        StageKind::DecodeStep => {
            let keys = |step| Some(workload.prompt_tokens?.saturating_add(u64::from(step)));
            (1, position.and_then(keys), 1)
        }
        _ => return None,
    };
    let (new, past) = match sizes.tokens.zip(sizes.keys) {
        Some((tokens, keys)) => (tokens, keys.checked_sub(tokens)),
        None => (new, past),
    };
    Some(Pass {
        model,
        batch,
        new,
        past,
        logits,
        dtype,
    })
}

/// How many times the rate of every other product of an instance the LM head cannot exceed.
const IMPOSSIBLE: f64 = 2.0;

/// Removes the LM head from products if it would be faster than the hardware: an evaluation reads the logits of some
/// positions alone, and nothing says of how many.
fn drop_impossible_head(facts: &Facts, known: &mut Vec<(OpIndex, Product)>) -> bool {
    let Some(head) = known.iter().rposition(|(_, product)| product.main) else {
        return false;
    };
    let rate = |(op, product): &(OpIndex, Product)| {
        let (start, end) = (facts.ops.start[*op as usize], facts.ops.end[*op as usize]);
        product.shape.flops().0 / end.saturating_sub(start).time().0.max(1.0)
    };
    let others = known[..head].iter().filter(|(_, product)| product.main);
    let most = others.map(rate).fold(0.0, f64::max);
    let is_impossible = rate(&known[head]) > most * IMPOSSIBLE;
    if is_impossible {
        known.truncate(head);
    }
    is_impossible
}

/// Matrix kernels without those of small products next to the model, such as rotary embeddings in single precision.
fn kernels(session: &Session, facts: &Facts, matrix: &Matrix, instance: usize) -> Vec<Kernel> {
    let is_small_product = |kernel: KernelId| {
        let identity = &facts.identities[kernel.index()];
        identity.class == KernelClass::Gemm
            && matrix.is_main(kernel)
            && matches!(identity.dtype, "fp32" | "fp64")
    };
    let kernels = matrix.of(session, facts, &facts.instances[instance]);
    kernels
        .filter(|(_, kernel)| !is_small_product(*kernel))
        .map(|(op, kernel)| Kernel {
            op,
            class: facts.identities[kernel.index()].class,
            main: matrix.is_main(kernel),
        })
        .collect()
}

impl Pass<'_> {
    /// What each kernel computes; nothing if they are not those of the model's layers.
    fn products(&self, kernels: &[Kernel]) -> Option<Vec<(OpIndex, Product)>> {
        let mains: Vec<KernelClass> = kernels
            .iter()
            .filter(|product| product.main)
            .map(|product| product.class)
            .collect();
        let shapes = self.shapes(&mains)?;
        let mut shapes = shapes.into_iter();
        let mut shape = None;
        let mut products = Vec::new();
        for kernel in kernels {
            if kernel.main {
                shape = shapes.next().flatten();
            }
            let Some(shape) = shape else { continue };
            let product = Product {
                shape,
                operand: self.dtype,
                output: self.dtype,
                source: Source::Model,
                main: kernel.main,
            };
            products.push((kernel.op, product));
        }
        Some(products)
    }

    /// Shapes of a sequence of products and attention kernels.
    fn shapes(&self, mains: &[KernelClass]) -> Option<Vec<Option<Shape>>> {
        let is_attention = |class: &KernelClass| *class == KernelClass::Attention;
        let segments: Vec<usize> = mains
            .split(is_attention)
            .map(<[KernelClass]>::len)
            .collect();
        if segments.len() as u64 - 1 != self.model.depth() {
            return None;
        }
        let before = self.projections(*segments.first()?)?;
        let between = segments.get(1).filter(|_| segments.len() > 2);
        let last = *segments.last()?;
        let after = between.map_or(last.checked_sub(1), |length| {
            length.checked_sub(before.len())
        })?;
        let after = self.rest(after)?;
        let inner = &segments[1..segments.len() - 1];
        if inner
            .iter()
            .any(|count| *count != before.len() + after.len())
            || last != after.len() + 1
        {
            return None;
        }
        let mut shapes = Vec::with_capacity(mains.len());
        for _ in 0..self.model.depth() {
            shapes.extend(before.iter().map(|gemm| Some(Shape::Gemm(*gemm))));
            shapes.push(self.attention());
            shapes.extend(after.iter().map(|gemm| Some(Shape::Gemm(*gemm))));
        }
        let head = self.gemm(self.logits, self.model.vocab, self.model.hidden);
        shapes.push(Some(Shape::Gemm(head)));
        Some(shapes)
    }

    fn gemm(&self, rows: u64, n: u64, k: u64) -> Gemm {
        Gemm {
            m: self.batch.saturating_mul(rows),
            n,
            k,
            batch: 1,
        }
    }

    fn of_tokens(&self, n: u64, k: u64) -> Gemm {
        self.gemm(self.new, n, k)
    }

    /// Query, key and value as three products or as one.
    fn projections(&self, count: usize) -> Option<Vec<Gemm>> {
        let model = self.model;
        let (query, key) = (
            model.outline.heads.saturating_mul(model.outline.head_dim),
            model
                .outline
                .kv_heads
                .saturating_mul(model.outline.head_dim),
        );
        let gemm = |n| self.of_tokens(n, model.hidden);
        match count {
            3 => Some(vec![gemm(query), gemm(key), gemm(key)]),
            1 => Some(vec![gemm(query.saturating_add(key.saturating_mul(2)))]),
            _ => None,
        }
    }

    /// The output projection and the feed-forward block, gate and up as two products or as one.
    fn rest(&self, count: usize) -> Option<Vec<Gemm>> {
        let model = self.model;
        let (hidden, inner) = (model.hidden, model.outline.intermediate);
        let output = self.of_tokens(
            hidden,
            model.outline.heads.saturating_mul(model.outline.head_dim),
        );
        let down = self.of_tokens(hidden, inner);
        let up = self.of_tokens(inner, hidden);
        match (count, model.outline.gated) {
            (4, true) => Some(vec![output, up, up, down]),
            (3, true) => Some(vec![
                output,
                self.of_tokens(inner.saturating_mul(2), hidden),
                down,
            ]),
            (3, false) => Some(vec![output, up, down]),
            _ => None,
        }
    }

    fn attention(&self) -> Option<Shape> {
        let model = self.model;
        // A window bounds the keys of each query in its own way.
        let past = self.past.filter(|_| model.attends_fully())?;
        Some(Shape::Attention(Attention {
            batch: self.batch,
            heads: model.outline.heads,
            kv_heads: model.outline.kv_heads,
            queries: self.new,
            keys: past.saturating_add(self.new),
            size: model.outline.head_dim,
            value_size: model.outline.head_dim,
            causal: self.new > 1,
            backward: false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use KernelClass::{Attention as A, Gemm as G};
    use rooflens_llm::Decoder;
    use rooflens_session::Ns;

    fn model() -> Llm {
        Decoder {
            hidden: 8,
            intermediate: 20,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 2,
            vocab: 100,
            gated: true,
            ..Decoder::default()
        }
        .into()
    }

    fn sizes(mains: &[KernelClass]) -> Option<Vec<(u64, u64, u64)>> {
        let model = model();
        let pass = Pass {
            model: &model,
            batch: 3,
            new: 5,
            past: Some(0),
            logits: 1,
            dtype: "bf16",
        };
        let gemm = |shape: Option<Shape>| match shape? {
            Shape::Gemm(gemm) => Some((gemm.m, gemm.n, gemm.k)),
            _ => None,
        };
        Some(pass.shapes(mains)?.into_iter().filter_map(gemm).collect())
    }

    /// Two products of 100 FLOPs in 10 ns; an LM head of 240 FLOPs in 10 ns is 2.4 times as fast, one of 180 is 1.8 times.
    #[test]
    fn a_head_that_no_hardware_computes_is_unknown() {
        let mut facts = Facts::default();
        facts.ops.start = vec![Ns(0), Ns(10), Ns(20)];
        facts.ops.end = vec![Ns(10), Ns(20), Ns(30)];
        let left = |rows_of_head| {
            let rows = [50, 50, rows_of_head].into_iter();
            let product = |m| Product {
                shape: Shape::Gemm(Gemm {
                    m,
                    n: 1,
                    k: 1,
                    batch: 1,
                }),
                operand: "bf16",
                output: "bf16",
                source: Source::Model,
                main: true,
            };
            let mut known: Vec<(OpIndex, Product)> = (0..).zip(rows.map(product)).collect();
            (drop_impossible_head(&facts, &mut known), known.len())
        };
        assert_eq!(left(120), (true, 2));
        assert_eq!(left(90), (false, 3));
    }

    /// The workload has prompts of 256 tokens: a call with one token and 258 keys is a step, of which 257 keys are cached.
    #[test]
    fn recorded_calls_come_before_the_workload() {
        let model = model();
        let workload = Workload {
            batch: Some(24),
            prompt_tokens: Some(256),
            dtype: Some("bf16".to_owned()),
            ..Workload::default()
        };
        let of = |kind, sizes, position| {
            let pass = pass(kind, sizes, position, &workload, &model).expect("a pass");
            (pass.batch, pass.new, pass.past)
        };
        let step = Sizes {
            batch: Some(8),
            tokens: Some(1),
            keys: Some(258),
        };
        assert_eq!(of(StageKind::Forward, step, None), (8, 1, Some(257)));
        let unknown = Sizes::default();
        assert_eq!(of(StageKind::Forward, unknown, None), (24, 256, Some(0)));
        assert_eq!(
            of(StageKind::DecodeStep, unknown, Some(2)),
            (24, 1, Some(258))
        );
    }

    #[test]
    fn layers_of_seven_products_and_of_four() {
        // 3 sequences of 5 tokens: 15 rows; query 4·2 wide, key and value 2·2; the head has one row a sequence.
        let seven = [G, G, G, A, G, G, G, G, G, G, G, A, G, G, G, G, G];
        let layer = [
            (15, 8, 8),
            (15, 4, 8),
            (15, 4, 8),
            (15, 8, 8),
            (15, 20, 8),
            (15, 20, 8),
            (15, 8, 20),
        ];
        let mut expected = [layer, layer].concat();
        expected.push((3, 100, 8));
        assert_eq!(sizes(&seven), Some(expected));
        // Fused projections: 8 + 2·4 wide; gate and up as one: 40 wide.
        let four = [G, A, G, G, G, G, A, G, G, G, G];
        let layer = [(15, 16, 8), (15, 8, 8), (15, 40, 8), (15, 8, 20)];
        let mut expected = [layer, layer].concat();
        expected.push((3, 100, 8));
        assert_eq!(sizes(&four), Some(expected));
    }

    #[test]
    fn other_numbers_of_products_are_left_alone() {
        // No LM head; a layer too many; a product too many in the second layer.
        assert_eq!(sizes(&[G, A, G, G, G, G, A, G, G, G]), None);
        assert_eq!(
            sizes(&[G, A, G, G, G, G, A, G, G, G, G, A, G, G, G, G]),
            None
        );
        assert_eq!(sizes(&[G, A, G, G, G, G, A, G, G, G, G, G]), None);
        assert_eq!(sizes(&[]), None);
    }
}
