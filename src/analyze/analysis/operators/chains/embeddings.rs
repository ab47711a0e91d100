//! Tables of embeddings with dense gradients: a step writes and updates all rows, of which a batch reads few.
//!
//! A sparse gradient has the rows of the batch alone. It needs no fill, and what works on parameters or gradients, such
//! as the optimizer, takes the part of its time that these rows have. Operators on lists of tensors name all of them, so
//! that a table takes its part of their elements. A weight that a GEMM uses, too, has a dense gradient in any form.

use std::collections::BTreeMap;

use super::call::{Call, Dtype};
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::engine::classify::KernelClass;
use rooflens_units::{Count, Ratio, Time};

/// Operators that compute a dense gradient of a table.
const DENSE: [&str; 2] = [
    "aten::embedding_dense_backward",
    "aten::_embedding_bag_dense_backward",
];

/// Rows of a batch ÷ rows of the table up to which a sparse gradient is worth a look: it sorts its rows.
const SPARSE: Ratio = Ratio(0.5);

/// A table with a dense gradient.
struct Table {
    dims: Vec<u64>,
    dtype: Dtype,
    /// Rows of a batch; a row that it reads several times counts each time.
    rows: Count,
    /// Tables of these dimensions.
    count: u64,
}

impl Table {
    /// Rows of a batch as a share of all.
    fn used(&self) -> Ratio {
        Ratio(self.rows.0 / self.dims[0] as f64)
    }

    fn elements(&self) -> f64 {
        self.dims.iter().map(|size| *size as f64).product()
    }
}

/// A kernel on tables.
#[derive(Clone, Copy)]
struct Part {
    position: usize,
    /// The share of its time that works on tables.
    of_tables: f64,
    /// The part of that share that sparse gradients keep.
    kept: f64,
}

impl Finder<'_> {
    /// Fills and updates of whole tables, as one group per instance.
    pub(super) fn embeddings(&mut self) {
        let items = self.items;
        let mut fills: Vec<(usize, Table)> = Vec::new();
        for position in 0..items.list.len() {
            fills.extend(self.table(position).map(|table| (position, table)));
        }
        let tables = self.sparse_tables(&fills);
        let Some(largest) = tables
            .iter()
            .max_by(|a, b| a.elements().total_cmp(&b.elements()))
        else {
            return;
        };
        let is_sparse = |table: &Table| tables.iter().any(|other| other.dims == table.dims);
        fills.retain(|(_, table)| is_sparse(table));
        let mut parts: BTreeMap<(u32, u32), Vec<Part>> = BTreeMap::new();
        for position in 0..items.list.len() {
            let is_fill = fills.iter().any(|(fill, _)| *fill == position);
            let part = match is_fill {
                true => Some((1.0, 0.0)),
                false => self.part_of_tables(position, &tables),
            };
            if let Some((of_tables, kept)) = part {
                let instance = parts.entry(items.list[position].instance()).or_default();
                instance.push(Part {
                    position,
                    of_tables,
                    kept,
                });
            }
        }
        for parts in parts.into_values() {
            self.add_tables(&parts, largest, &fills);
        }
    }

    fn add_tables(&mut self, parts: &[Part], largest: &Table, fills: &[(usize, Table)]) {
        let (mut whole, mut time, mut kept) = (Time::ZERO, Time::ZERO, Time::ZERO);
        for part in parts {
            let duration = self.items.list[part.position].duration().time();
            whole += duration;
            time += duration * part.of_tables;
            kept += duration * part.of_tables * part.kept;
        }
        let positions: Vec<usize> = parts.iter().map(|part| part.position).collect();
        let is_fill = |position: &&usize| fills.iter().any(|(fill, _)| fill == *position);
        let filled = positions.iter().filter(is_fill).count() as f64;
        let scale = Ratio::of(time, whole.max(Time(1.0))).0;
        let chain = Chain {
            scale,
            kernels_left: positions.len() as f64 * scale - filled,
            bound: Some(kept),
            example: Example {
                sizes: sizes(&largest.dims),
                from: largest.dtype,
                factor: Some(largest.rows),
                ..self.example(&positions)
            },
            ..self.chain(ChainKind::Embeddings, positions)
        };
        self.add(chain);
    }

    /// The table whose gradient a kernel fills.
    fn table(&self, position: usize) -> Option<Table> {
        let items = self.items;
        if !self.is_fill(position) {
            return None;
        }
        let is_dense = |row: &u32| DENSE.contains(&items.operator_name(*row));
        let operator = items.around(position).find(is_dense)?;
        let backward = Call::new(items.session, operator as usize);
        let mut tensors = backward.tensors.iter();
        let indices = tensors.find(|tensor| !tensor.dtype.is_float())?;
        let gradient = items.call(position)?.tensors.first()?;
        let is_table = gradient.dims.len() == 2 && gradient.dims[0] > 0;
        is_table.then(|| Table {
            dims: gradient.dims.clone(),
            dtype: gradient.dtype,
            rows: indices.elements(),
            count: 1,
        })
    }

    /// Tables of which batches use few rows, and that nothing but lookups use; one for all of the same dimensions.
    fn sparse_tables(&self, fills: &[(usize, Table)]) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        for (position, table) in fills {
            let instance = self.items.list[*position].instance();
            let is_alike = |(other, of_fill): &&(usize, Table)| {
                of_fill.dims == table.dims && self.items.list[*other].instance() == instance
            };
            let alike = fills.iter().filter(is_alike);
            let rows = alike.clone().map(|(_, table)| table.rows);
            let alike = Table {
                dims: table.dims.clone(),
                dtype: table.dtype,
                rows: rows.fold(Count::ZERO, Count::max),
                count: alike.count() as u64,
            };
            match tables.iter_mut().find(|known| known.dims == table.dims) {
                Some(known) => {
                    known.rows = known.rows.max(alike.rows);
                    known.count = known.count.max(alike.count);
                }
                None => tables.push(alike),
            }
        }
        tables.retain(|table| table.used() <= SPARSE && !self.is_tied(table));
        tables
    }

    /// Whether a GEMM computes a gradient of the table's size, and backward adds gradients of it.
    fn is_tied(&self, table: &Table) -> bool {
        let items = self.items;
        let is_sum = |position: usize| {
            let is_addition = matches!(items.name(position), Some("aten::add" | "aten::add_"));
            let tensors = items.call(position).map_or(&[][..], |call| &call.tensors);
            is_addition
                && items.is_backward(position)
                && tensors.len() == 2
                && tensors.iter().all(|tensor| tensor.dims == table.dims)
        };
        let is_product = |position: usize| {
            let product = items
                .call(position)
                .and_then(|call| call.product(items.session));
            product.is_some_and(|product| product.elements.0 == table.elements())
        };
        let mut positions = 0..items.list.len();
        positions.clone().any(is_sum) && positions.any(is_product)
    }

    /// The share of a kernel's time that works on whole tables, and the part of it that sparse gradients keep.
    fn part_of_tables(&self, position: usize, tables: &[Table]) -> Option<(f64, f64)> {
        let call = self.items.call(position)?;
        if call.list.is_empty() {
            let is_update = matches!(
                self.items.list[position].class,
                KernelClass::Elementwise
                    | KernelClass::Layout
                    | KernelClass::Reduction
                    | KernelClass::Optimizer
            );
            let dims = &call.tensors.first().filter(|_| is_update)?.dims;
            let table = tables.iter().find(|table| table.dims == *dims)?;
            return Some((1.0, table.used().0));
        }
        let (mut of_tables, mut kept) = (0.0, 0.0);
        for table in tables {
            let in_list = call.list.iter().filter(|dims| **dims == table.dims);
            let elements = table.elements() * (in_list.count() as f64).min(table.count as f64);
            of_tables += elements;
            kept += elements * table.used().0;
        }
        let elements = |dims: &Vec<u64>| dims.iter().map(|size| *size as f64).product::<f64>();
        let whole: f64 = call.list.iter().map(elements).sum();
        (of_tables > 0.0).then_some((of_tables / whole, kept / of_tables))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::ChainKind;
    use super::super::tests::{ADD, Step, by_names, chains, events, near};
    use super::*;

    /// A step on a table of 1000 × 64 rows, of which a batch of 100 indices is read: what fills the gradient, sums it, and
    /// updates the parameters.
    fn embedding_step(updates: &[Step<'_>]) -> String {
        let update = events("Optimizer.step#Adam.step", 100, updates);
        "operator aten::embedding_dense_backward [[100,64],[100]] float,long 1us..20us
         operator aten::fill_ [[1000,64],[]] float,Scalar 2us..6us
         launch 3us..4us -> FillFunctor 10us..30us
         launch 7us..8us -> sum_and_scatter 30us..35us
         range step 0..500us\n"
            .to_owned()
            + &update
    }

    #[test]
    fn dense_gradients_of_embeddings_take_time_for_all_rows() {
        let list = "aten::_fused_adam_ [[[1000,64],[56,1000]],[]] TensorList";
        let step = embedding_step(&[(list, "multi_tensor_apply_kernel", 60)]);
        let place = chains(&step).places[0].clone();
        let group = place.group(ChainKind::Embeddings).unwrap();
        // The fill of 20 µs, and of 60 µs what 64 000 of 120 000 elements take: 32 µs, of which a tenth of the rows keeps 3.2.
        assert!(near(group.time, 52.0), "{:?}", group.time);
        assert!(near(group.bound.unwrap(), 3.2), "{:?}", group.bound);
        assert_eq!(group.removed, Count(1.0));
        assert_eq!(group.example.sizes, "1000 × 64");
        assert_eq!(group.example.factor, Some(Count(100.0)));
        // An update by itself works on the table alone.
        let single = "aten::addcdiv_ [[1000,64],[1000,64],[1000,64]] float,float,float";
        let place = chains(&embedding_step(&[(single, ADD, 10)])).places[0].clone();
        let group = place.group(ChainKind::Embeddings).unwrap();
        assert!(near(group.time, 30.0) && near(group.bound.unwrap(), 1.0));
    }

    #[test]
    fn tables_that_batches_use_or_gemms_share_have_dense_gradients() {
        let single = "aten::mul_ [[1000,64]] float";
        let step = embedding_step(&[(single, ADD, 10)]);
        let has_tables = |text: &str| {
            let places = chains(text).places;
            places[0].group(ChainKind::Embeddings).is_some()
        };
        assert!(has_tables(&step));
        // Half of the rows, and more.
        assert!(has_tables(&step.replace("[100]", "[500]")));
        assert!(!has_tables(&step.replace("[100]", "[501]")));
        // The output layer has the same weight: backward adds the gradient of its GEMM.
        let gemm = ("aten::mm [[1000,100],[100,64]] float", "gemm", 5);
        assert!(has_tables(&embedding_step(&[(single, ADD, 10), gemm])));
        let sum = "operator autograd::engine::evaluate_function:AccumulateGrad 200us..220us
                   operator aten::add_ [[1000,64],[1000,64]] float,float 201us..210us
                   launch 202us..203us -> vectorized_elementwise_kernel 300us..310us\n";
        let tied = embedding_step(&[(single, ADD, 10), gemm]) + sum;
        assert!(!has_tables(&tied));
    }

    #[test]
    fn names_show_tables_whose_gradients_are_dense() {
        const FILL: &str =
            "at::native::vectorized_elementwise_kernel<4,at::native::FillFunctor<float>>";
        const ADDED: &str =
            "at::native::vectorized_elementwise_kernel<4,at::native::CUDAFunctor_add<float>>";
        let joint =
            "at::native::multi_tensor_apply_kernel<at::native::PointwiseOpScalarListFunctor>";
        // The fill of 64 · 1024 elements takes 40 µs, the sort 5, sums of few rows 20. A block of the optimizer has as many elements: of its
        // parameters, the table is all of one block, and half of two.
        let step_of =
            |fills: &[(&'static str, u32, i64)], sums: i64, blocks, after: &'static str| {
                let others = [
                    ("sort", 1, 5),
                    ("compute_grad_weight", 100, sums / 2),
                    ("sum_and_scatter", 100, sums / 2),
                    (after, 64, 10),
                    (joint, blocks, 60),
                ];
                let kernels = [fills, &others].concat();
                let groups = by_names(&kernels);
                let group = groups
                    .into_iter()
                    .find(|group| group.0 == ChainKind::Embeddings);
                group.map(|(_, _, saved)| saved)
            };
        let step = |sums, blocks, after| step_of(&[(FILL, 64, 40)], sums, blocks, after);
        assert_eq!(step(20, 1, "gemm"), Some(Time(125_000.0)));
        assert_eq!(step(20, 2, "gemm"), Some(Time(95_000.0)));
        assert_eq!(step(20, 3, "gemm"), Some(Time(65_000.0)));
        // A batch with many rows, and a table that the output layer shares.
        assert_eq!(step(22, 1, "gemm"), None);
        assert_eq!(step(20, 1, ADDED), None);
        // Two fills of half of the table.
        let halves = [(FILL, 32, 20); 2];
        let of_halves = step_of(&halves, 20, 1, "gemm");
        assert_eq!(of_halves, Some(Time(125_000.0)));
    }
}
