//! Kernels on rows that repeat, or that nothing reads.
//!
//! A layer computes each row alone. On gathered rows, it computes a row of the source as often as the index names it. An
//! output layer over all positions computes logits of which the loss may use few, and the next token needs the last
//! ones. Sizes show both, and backward computes for the same rows.

use super::call::Tensor;
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::Context;
use crate::engine::classify::KernelClass;
use rooflens_session::PassId;
use rooflens_units::{Count, Time};
use rustc_hash::{FxHashMap, FxHashSet};

/// Operators that pick rows by an index.
const GATHERS: [&str; 3] = ["aten::index_select", "aten::gather", "aten::index"];

/// What makes equal rows differ.
const RANDOM: [&str; 3] = ["dropout", "bernoulli", "rand"];

/// Rows that a gather writes ÷ rows of its source, and rows of logits ÷ those that are read, from which on it is worth a
/// look.
const REPEATED: f64 = 2.0;

/// Columns ÷ depth of a GEMM above which it is an output layer: a feed-forward layer has four times the width.
const WIDE: f64 = 4.0;

/// How PyTorch names the loss of a classifier.
const LOSS: &str = "nll_loss";

/// Kernels between the GEMM of an output layer and its loss at most, and between the loss and the GEMMs of its backward.
const NEAR: usize = 12;

/// GEMMs of the backward of a layer: for its input and for its weight.
const BACKWARD: usize = 2;

/// How Hugging Face names classes of models whose loss uses the masked positions alone, such as 15 % of them.
const MASKED: &str = "MaskedLM";

/// A masked language model.
pub(super) struct MaskedModel {
    /// Positions of a batch, if they are known.
    positions: Option<u64>,
}

impl MaskedModel {
    /// What the workload of a pass says; none for other models.
    pub(super) fn of(context: &Context<'_>, pass: PassId) -> Option<Self> {
        let session = context.session;
        let workload = session.workload.for_pass(session.pass_name(pass));
        let is_masked = workload.name.is_some_and(|name| name.contains(MASKED));
        let sizes = workload.batch.zip(workload.prompt_tokens);
        is_masked.then(|| Self {
            positions: sizes.and_then(|(batch, tokens)| batch.checked_mul(tokens)),
        })
    }
}

impl Finder<'_> {
    /// Layers on gathered rows, with their part of backward.
    pub(super) fn gathered_rows(&mut self) {
        let gathers: Vec<(usize, f64, f64)> = (0..self.items.list.len())
            .filter_map(|position| self.gather(position))
            .collect();
        if gathers.is_empty() {
            return;
        }
        let backward = self.backward();
        for (gather, source, rows) in gathers {
            let mut members = self.layers(gather, rows);
            let is_gemm =
                |position: &&usize| self.items.list[**position].class == KernelClass::Gemm;
            let Some(gemm) = members.iter().find(is_gemm).copied() else {
                continue;
            };
            let is_operator = |row: &u32| self.items.operator_name(*row).starts_with("aten::");
            let forward: FxHashSet<u32> = members
                .iter()
                .flat_map(|position| self.items.around(*position).filter(is_operator))
                .collect();
            let of_forward = forward.iter().filter_map(|row| backward.get(row)).flatten();
            members.extend(of_forward.filter(|position| !self.is_taken[**position]));
            members.sort_unstable();
            let product = self
                .items
                .call(gemm)
                .and_then(|call| call.product(self.items.session));
            let left = product.map(|product| product.left);
            let chain = Chain {
                bound: Some(self.time(&members) * (source / rows)),
                kernels_left: members.len() as f64,
                example: Example {
                    sizes: left.map_or_else(String::new, |tensor| sizes(&tensor.dims)),
                    from: left.map(|tensor| tensor.dtype).unwrap_or_default(),
                    factor: Some(Count(rows / source)),
                    ..self.example(&members)
                },
                ..self.chain(ChainKind::Gathered, members)
            };
            self.add(chain);
        }
    }

    /// A kernel of forward that repeats rows, with the rows of its source and of its result.
    fn gather(&self, position: usize) -> Option<(usize, f64, f64)> {
        let name = self.items.name(position)?;
        if !GATHERS.contains(&name) || self.items.is_backward(position) {
            return None;
        }
        let call = self.items.call(position)?;
        let source = call.tensors.first()?;
        let index = call.tensors.get(1).map(|tensor| &tensor.dims);
        let index = index.or(call.list.first())?;
        let (source, rows) = (*source.dims.first()? as f64, *index.first()? as f64);
        (rows >= source * REPEATED).then_some((position, source, rows))
    }

    /// Kernels right after a gather that compute each of its rows alone.
    fn layers(&self, gather: usize, rows: f64) -> Vec<usize> {
        let items = self.items;
        let is_layer = |position: &usize| {
            let call = items.call(*position);
            let tensors = call.map_or(&[][..], |call| &call.tensors);
            let mut of_rows = tensors
                .iter()
                .filter(|tensor| tensor.dims.first() == Some(&(rows as u64)));
            let name = items.name(*position).unwrap_or_default();
            let is_class = matches!(
                items.list[*position].class,
                KernelClass::Gemm | KernelClass::Elementwise | KernelClass::Normalization
            );
            items.is_together(gather, *position)
                && !self.is_taken[*position]
                && is_class
                && !RANDOM.iter().any(|part| name.contains(part))
                && of_rows.next().is_some_and(|tensor| tensor.dims.len() >= 2)
                && of_rows.next().is_none()
        };
        let after = gather + 1..items.list.len();
        after.take_while(is_layer).collect()
    }

    /// Kernels of backward by the row of their operator of forward.
    fn backward(&self) -> FxHashMap<u32, Vec<usize>> {
        let mut by_forward: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (position, item) in self.items.list.iter().enumerate() {
            if let Some(row) = item.forward {
                by_forward.entry(row).or_default().push(position);
            }
        }
        by_forward
    }

    /// Output layers with more rows than what follows reads, and, of masked language models, all of what computes with
    /// logits of all positions.
    pub(super) fn unread_logits(&mut self) {
        for head in 0..self.items.list.len() {
            if let Some(chain) = self.last_logits(head) {
                self.add(chain);
            }
        }
        if self.masked_model.is_some() {
            self.masked_logits();
        }
    }

    /// An output layer of which the next reader takes some rows alone.
    fn last_logits(&self, head: usize) -> Option<Chain> {
        let items = self.items;
        let product = items.call(head)?.product(items.session)?;
        let columns = *product.right.dims.last()?;
        let rows = product.elements.0 / columns as f64;
        if (columns as f64) <= WIDE * product.depth.0
            || items.is_backward(head)
            || self.is_taken[head]
        {
            return None;
        }
        let mut members = vec![head];
        let is_near = |position: &usize| items.is_together(head, *position);
        let after = (head + 1..items.list.len()).take(NEAR);
        for position in after.take_while(is_near) {
            let tensors = items.call(position).map(|call| &call.tensors);
            let mut tensors = tensors.into_iter().flatten();
            let Some(logits) = tensors.find(|tensor| tensor.dims.last() == Some(&columns)) else {
                continue;
            };
            let read = logits.elements().0 / columns as f64;
            let class = items.list[position].class;
            if read * REPEATED <= rows && class != KernelClass::Gemm {
                return Some(Chain {
                    bound: Some(self.time(&members) * (read / rows)),
                    kernels_left: members.len() as f64,
                    example: Example {
                        sizes: sizes(&[rows as u64, columns]),
                        factor: Some(Count(read)),
                        ..self.example(&members)
                    },
                    ..self.chain(ChainKind::Logits, members)
                });
            }
            // Such as a conversion of all logits.
            if read != rows || !matches!(class, KernelClass::Elementwise | KernelClass::Layout) {
                return None;
            }
            members.push(position);
        }
        None
    }

    /// Kernels on logits of as many positions as the table of the vocabulary was read for.
    fn masked_logits(&mut self) {
        let items = self.items;
        let mut first = 0;
        for instance in items.list.chunk_by(|a, b| a.instance() == b.instance()) {
            let positions = first..first + instance.len();
            first = positions.end;
            let is_loss =
                |position: &usize| items.name(*position) == Some("aten::nll_loss_forward");
            for loss in positions.clone().filter(is_loss) {
                let logits = items.call(loss).and_then(|call| call.tensors.first());
                let Some(Tensor { dims, .. }) = logits else {
                    continue;
                };
                let is_lookup = |position: usize| {
                    let call = items.call(position);
                    let tensors = call.map_or(&[][..], |call| &call.tensors);
                    let is_gather = items
                        .name(position)
                        .is_some_and(|name| GATHERS.contains(&name));
                    let mut rows = tensors.iter().map(|tensor| tensor.dims.first());
                    is_gather
                        && rows.next() == Some(dims.last())
                        && rows.next() == Some(dims.first())
                };
                if positions.clone().any(is_lookup) {
                    let members = positions
                        .clone()
                        .filter(|position| self.is_on(*position, dims));
                    self.add_masked(members.collect(), dims);
                }
            }
        }
    }

    /// Whether a kernel reads or writes a tensor of this size.
    fn is_on(&self, position: usize, dims: &[u64]) -> bool {
        let elements = Count(dims.iter().map(|size| *size as f64).product());
        let Some(call) = self
            .items
            .call(position)
            .filter(|_| !self.is_taken[position])
        else {
            return false;
        };
        let product = call.product(self.items.session);
        let mut tensors = call.tensors.iter();
        tensors.any(|tensor| tensor.elements() == elements)
            || product.is_some_and(|product| product.elements == elements)
    }

    /// The same by the names of kernels: a softmax has a block for each of the positions of the workload.
    pub(super) fn named_logits(&mut self) {
        let Some(positions) = self.masked_model.and_then(|model| model.positions) else {
            return;
        };
        let items = self.items;
        for softmax in 0..items.list.len() {
            let item = items.list[softmax];
            if item.blocks != positions || !items.kernel(softmax).contains("LogSoftMax") {
                continue;
            }
            let is_near = |position: &usize| items.is_together(softmax, *position);
            let is_gemm = |position: &usize| items.list[*position].class == KernelClass::Gemm;
            let is_loss = |position: &usize| items.kernel(*position).contains(LOSS);
            let before = (softmax.saturating_sub(NEAR)..softmax)
                .rev()
                .take_while(is_near);
            let after = (softmax + 1..items.list.len())
                .take(NEAR)
                .take_while(is_near);
            let is_backward = items.kernel(softmax).contains("Backward");
            let (first, last) = match is_backward {
                false => (before.clone().find(is_gemm), after.clone().find(is_loss)),
                true => (
                    before.clone().find(is_loss),
                    after.clone().filter(is_gemm).take(BACKWARD).last(),
                ),
            };
            if let (Some(first), Some(last)) = (first, last) {
                self.add_masked((first..=last).collect(), &[positions]);
            }
        }
    }

    fn add_masked(&mut self, members: Vec<usize>, dims: &[u64]) {
        let chain = Chain {
            bound: Some(Time::ZERO),
            kernels_left: members.len() as f64,
            example: Example {
                sizes: sizes(dims),
                ..self.example(&members)
            },
            ..self.chain(ChainKind::Logits, members)
        };
        self.add(chain);
    }

    /// The sum of the durations of kernels.
    fn time(&self, positions: &[usize]) -> Time {
        let durations = positions
            .iter()
            .map(|position| self.items.list[*position].duration().time());
        durations.sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::{COPY, INDEX, SOFTMAX, SUM, chains, events, near, of_step};
    use super::*;
    use crate::testing::trace;
    use crate::{Facts, Options, Results};
    use rooflens_hardware::Hardware;

    #[test]
    fn layers_on_gathered_rows_compute_rows_again() {
        let gather = |rows: u64| {
            format!(
                "range step 0..500us
                 operator aten::index_select [[100,64],[],[{rows}]] float 10us..19us
                 launch 11us..12us -> gather_kernel 20us..30us
                 operator aten::addmm [[64],[{rows},64],[64,64]] float 20us..29us
                 launch 21us..22us -> gemm 30us..90us
                 operator aten::relu [[{rows},64]] float 30us..39us
                 launch 31us..32us -> vectorized_elementwise_kernel 90us..110us
                 operator aten::index_add_ [[100,64],[],[{rows}],[{rows},64]] float 40us..49us
                 launch 41us..42us -> index_kernel 110us..150us
                 operator autograd::engine::evaluate_function:AddmmBackward0 50us..70us
                 operator AddmmBackward0 51us..69us
                 backward AddmmBackward0 of aten::addmm
                 launch 52us..53us -> gemm 150us..250us
                 operator aten::mm [[{rows},64],[64,64]] float 51us..60us"
            )
        };
        let group = |text: &str| {
            let place = chains(text).places[0].clone();
            place.group(ChainKind::Gathered).cloned()
        };
        // The GEMM, the activation and the GEMM of backward take 180 µs, of which one in eight stays.
        let found = group(&gather(800)).unwrap();
        assert!(near(found.time, 180.0) && near(found.saved().unwrap(), 157.5));
        assert_eq!(found.example.factor, Some(Count(8.0)));
        assert_eq!(found.example.sizes, "800 × 64");
        assert_eq!(found.example.operators, "addmm → relu → mm");
        // Too few repeated rows, a random operator between, and no GEMM.
        assert!(group(&gather(199)).is_none());
        let random = gather(800).replace("aten::addmm", "aten::native_dropout");
        assert!(group(&random.replace("of aten::native_dropout", "of aten::relu")).is_none());
        assert!(group(&gather(800).replace("-> gemm 30us", "-> add_kernel 30us")).is_none());
    }

    #[test]
    fn logits_of_which_the_next_operator_reads_few_rows_are_unread() {
        let step = |read: u64, columns: u64| {
            let head = format!("aten::mm [[512,64],[64,{columns}]] c10::BFloat16");
            let copy = format!("aten::copy_ [[512,{columns}],[512,{columns}]] float,c10::BFloat16");
            let argmax = format!("aten::argmax [[{read},{columns}]] float");
            let place = of_step(&[(&head, "gemm", 90), (&copy, COPY, 30), (&argmax, SUM, 5)]);
            let group = place.group(ChainKind::Logits).cloned();
            group.map(|group| (group.saved().unwrap(), group.example.sizes))
        };
        // Of the GEMM and the conversion, an eighth stays: 120 − 15 µs.
        let (saved, sizes) = step(64, 1000).unwrap();
        assert!(near(saved, 105.0), "{saved:?}");
        assert_eq!(sizes, "512 × 1000");
        assert_eq!(step(257, 1000), None);
        // A feed-forward layer.
        assert_eq!(step(64, 256), None);
    }

    #[test]
    fn losses_of_masked_language_models_ignore_positions() {
        let text = events(
            "step",
            0,
            &[
                ("aten::index_select [[1000,64],[],[512]] float", INDEX, 5),
                ("aten::mm [[512,64],[64,1000]] float", "gemm", 90),
                ("aten::_log_softmax [[512,1000]] float", SOFTMAX, 30),
                ("aten::nll_loss_forward [[512,1000],[512]] float", SUM, 2),
            ],
        );
        let group = |name: &str, text: &str| {
            let mut session = trace(&format!("pass torch operators\n{text}"));
            session.workload.name = Some(name.to_owned());
            let (facts, hardware) = (Facts::new(&session), Hardware::builtin());
            let options = Options::default();
            let context = Context::new(&session, &facts, &hardware, &options);
            let results = Results::some(&context, &["backward", "chains"]);
            let place = results.chains().unwrap().places[0].clone();
            place.group(ChainKind::Logits).cloned()
        };
        let found = group("BertForMaskedLM", &text).unwrap();
        assert_eq!(found.saved(), Some(Time(122_000.0)));
        assert_eq!(found.example.sizes, "512 × 1000");
        assert!(group("LlamaForCausalLM", &text).is_none());
        // Logits of chosen positions.
        let chosen = text
            .replace("[512,64]", "[77,64]")
            .replace("[512,1000]", "[77,1000]");
        assert!(group("BertForMaskedLM", &chosen).is_none());
    }
}
