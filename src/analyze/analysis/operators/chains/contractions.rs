//! GEMMs that are written as a broadcast multiplication and a sum: all their products go through memory.
//!
//! Each product is one multiplication and one addition of a GEMM, whatever its dimensions are. So the number of products
//! gives its FLOPs where only the grid of the kernels is known.

use super::names::Names;
use super::roof::rates;
use super::{Chain, ChainKind, Example, Finder, sizes};
use rooflens_units::{Bytes, Count, Flops, Ratio, Time};

/// Part of the least time to read the products from which on a sum reads them: the grid gives their number up to a factor
/// of two.
const READ: Ratio = Ratio(0.5);

/// Multiplications with the same number of products, and the sums after them. The backward pass multiplies for both
/// inputs, then it sums.
#[derive(Default)]
struct Run {
    products: Vec<usize>,
    sums: Vec<usize>,
    elements: Count,
}

impl Run {
    fn is_alike(&self, elements: Count) -> bool {
        (0.5..=2.0).contains(&(elements.0 / self.elements.0.max(1.0)))
    }
}

impl Finder<'_> {
    /// Multiplications that broadcast, and sums of their results. Without operators, `names` says what a kernel does.
    pub(super) fn contractions(&mut self, names: Option<&Names>) {
        let mut run = Run::default();
        for position in 0..self.items.list.len() {
            let last = run.sums.last().or(run.products.last());
            let is_open = last.is_some_and(|last| self.items.is_together(*last, position));
            let product = self.products_at(names, position);
            let is_sum = self.is_sum(names, position, run.elements);
            if product.is_none() && is_open && is_sum {
                run.sums.push(position);
                continue;
            }
            // Parts of a large tensor, each with a kernel of its own, differ by a row.
            let is_alike = product.is_some_and(|elements| run.is_alike(elements));
            let continues = is_open && run.sums.is_empty() && is_alike;
            if !continues {
                self.close_contraction(names, std::mem::take(&mut run));
            }
            if let Some(elements) = product {
                run.elements = elements;
                run.products.push(position);
            }
        }
        self.close_contraction(names, run);
    }

    /// Results of the multiplication of a kernel.
    fn products_at(&self, names: Option<&Names>, position: usize) -> Option<Count> {
        let items = self.items;
        if self.is_taken[position] {
            return None;
        }
        match names {
            Some(names) => {
                let elements = self.elements_by_grid(names, position);
                elements.filter(|_| self.name_of(names, position).is_product)
            }
            None => (items.name(position)? == "aten::mul").then(|| items.elements(position)),
        }
    }

    fn is_sum(&self, names: Option<&Names>, position: usize, elements: Count) -> bool {
        let items = self.items;
        let is_sum = match names {
            Some(names) => self.name_of(names, position).is_sum,
            None => {
                items.name(position) == Some("aten::sum") && items.elements(position) == elements
            }
        };
        is_sum && !self.is_taken[position]
    }

    /// Whether a multiplication reads fewer elements than it writes. Kernels without operators have strides then.
    fn is_broadcast(&self, position: usize) -> bool {
        match self.items.call(position) {
            Some(call) => call
                .tensors
                .iter()
                .any(|tensor| tensor.stored() < call.elements),
            None => self
                .items
                .kernel(position)
                .contains("::elementwise_kernel<"),
        }
    }

    fn close_contraction(&mut self, names: Option<&Names>, run: Run) {
        let is_broadcast = run
            .products
            .iter()
            .all(|product| self.is_broadcast(*product));
        if run.products.is_empty() || run.sums.is_empty() || !is_broadcast {
            return;
        }
        if let Some(chain) = self.contraction(names, run) {
            self.add(chain);
        }
    }

    fn contraction(&self, names: Option<&Names>, run: Run) -> Option<Chain> {
        let items = self.items;
        let calls = |positions: &[usize]| {
            let mut operators: Vec<_> = positions
                .iter()
                .filter_map(|position| Some((items.list[*position].operator?, *position)))
                .collect();
            // An operator on more elements than 32 bits count launches several kernels.
            operators.dedup_by_key(|(operator, _)| *operator);
            operators
        };
        let (multiplied, summed) = (calls(&run.products), calls(&run.sums));
        if multiplied.len() != summed.len() {
            return None;
        }
        let first = *run.products.first()?;
        let (dtype, gemms) = match items.call(first) {
            Some(call) => (call.output(items.session), multiplied.len()),
            None => (named_type(items.kernel(first)), run.products.len()),
        };
        let products = run.elements.0 * gemms as f64;
        let written = Bytes(products * dtype.bytes as f64);
        let duration = |position: &usize| items.list[*position].duration().time();
        let read = run.sums.iter().map(duration).sum::<Time>();
        let is_cached = self
            .roof
            .is_cached(Bytes(run.elements.0 * dtype.bytes as f64));
        if is_cached || names.is_some() && read < self.roof.moving(written)? * READ {
            return None;
        }
        let inputs: Bytes = multiplied
            .iter()
            .filter_map(|(_, position)| items.call(*position))
            .map(|call| call.bytes(items.session))
            .sum();
        let bound = self
            .roof
            .computing(Flops(2.0 * products), &rates(dtype), inputs);
        let is_backward = items.is_backward(first) || items.is_of_other_thread(first);
        let dims = items.call(summed.first().map_or(first, |(_, position)| *position));
        let dims = dims.and_then(|call| call.tensors.first());
        let positions = [run.products, run.sums].concat();
        let example = match names {
            Some(_) => Example {
                operators: items.short_names(&positions),
                ..Example::default()
            },
            None => self.example(&positions),
        };
        Some(Chain {
            bound,
            kernels_left: gemms as f64,
            example: Example {
                sizes: dims.map_or_else(String::new, |tensor| sizes(&tensor.dims)),
                from: dtype,
                is_backward,
                ..example
            },
            ..self.chain(ChainKind::Contraction, positions)
        })
    }
}

/// The type of the elements that a kernel of PyTorch multiplies.
fn named_type(kernel: &str) -> super::Dtype {
    let (name, bytes) = match kernel {
        kernel if kernel.contains("BFloat16") => ("bf16", 2),
        kernel if kernel.contains("Half") => ("fp16", 2),
        kernel if kernel.contains("double") => ("fp64", 8),
        _ => ("fp32", 4),
    };
    super::Dtype { name, bytes }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::{ADD, MUL, SUM, by_names, chains, kinds, near, of_step};
    use super::ChainKind;

    /// 4096 · 4096 · 128 products are 4.295 GFLOPs: 8.68 µs at 494.7 TFLOP/s in TF32.
    #[test]
    fn a_sum_of_broadcast_products_is_a_gemm() {
        let product = "aten::mul [[4096,1,128],[1,4096,128]] float";
        let sum = ("aten::sum [[4096,4096,128]] float", SUM, 4_000);
        let place = of_step(&[(product, ADD, 5_000), sum]);
        assert_eq!(kinds(&place), [(ChainKind::Contraction, 1.0, 2.0)]);
        let bound = place.groups[0].bound.unwrap();
        assert!(near(bound, 8.68), "{bound:?}");
        assert!(!place.groups[0].example.is_backward);
        // The gradient of a scale multiplies tensors of the same size, and that of its input broadcasts.
        let full = "aten::mul [[4096,4096,128],[4096,4096,128]] float";
        let scaled = "aten::mul [[4096,4096,128],[128]] float";
        let gradients = of_step(&[(full, ADD, 5_000), (scaled, ADD, 5_000), sum]);
        let mut groups = gradients.groups.iter();
        assert!(groups.all(|group| group.kind != ChainKind::Contraction));
        // 16.8 MB stay in the cache.
        let small = of_step(&[
            ("aten::mul [[256,1,64],[1,256,64]] float", ADD, 10),
            ("aten::sum [[256,256,64]] float", SUM, 10),
        ]);
        assert_eq!(small.groups, []);
    }

    #[test]
    fn products_on_the_thread_of_autograd_are_gradients() {
        let is_backward = |thread: u32| {
            let text = format!(
                "range step 0..9_000us
                 launch 1us..2us -> gemm 1us..5us
                 thread {thread}
                 launch 2us..3us -> {MUL} <<<2097152,128>>> 10us..1310us
                 launch 3us..4us -> {SUMS} <<<262144,128>>> 1310us..2210us"
            );
            let place = chains(&text).places[0].clone();
            let group = place.group(ChainKind::Contraction).unwrap();
            group.example.is_backward
        };
        assert!(is_backward(2) && !is_backward(1));
    }

    const SUMS: &str = "at::native::reduce_kernel<512,at::native::sum_functor<float,float,float>>";

    /// Four kernels of 2^29 products each, 8.59 GB in all, which take at least 2564 µs to read.
    #[test]
    fn names_show_sums_of_broadcast_products() {
        let saved = |product: &'static str, time: i64| {
            let products = [(product, 2_097_152, 1_300); 4];
            let groups = by_names(&[products, [(SUMS, 262_144, time); 4]].concat());
            let mut of_kind = groups.into_iter();
            let group = of_kind.find(|(kind, ..)| *kind == ChainKind::Contraction);
            group.map(|(_, kernels, saved)| (kernels, saved))
        };
        let (kernels, time) = saved(MUL, 900).unwrap();
        assert_eq!(kernels, 8.0);
        assert!(near(time, 8_800.0 - 8.68), "{time:?}");
        // Sums of other tensors are shorter.
        assert_eq!(saved(MUL, 100), None);
        let contiguous = "at::native::vectorized_elementwise_kernel<4,at::native::MulFunctor>";
        assert_eq!(saved(contiguous, 900), None);
    }
}
