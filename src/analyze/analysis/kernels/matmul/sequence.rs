//! Kernels of one pass get the sizes of their partners in another: same stage, same kernels in the same order.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::search::{Searches, Stream};
use super::{
    Attention, Layer, Matrix, Product, Products, Shape, Source, innermost_first, launch_of,
    positions,
};
use crate::engine::align::common;
use crate::engine::classify::signature;
use crate::engine::facts::{Facts, OpIndex};
use rooflens_session::{Dim3, KernelId, ProcessId, Session};

use rooflens_schemas::StageKind;

/// Sequences that are aligned where none is the same; more are left without sizes.
const MAX_ALIGNED: usize = 64;

/// Insertions and deletions after which two sequences are not the same work.
const MAX_EDITS: usize = 500;

/// Instances that are kept to compare with, of one stage.
const MAX_TEMPLATES: usize = 256;

/// A stage instance of which sizes are recorded.
struct Template {
    position: Option<u32>,
    rank: Option<u32>,
    keys: Vec<u32>,
    products: Vec<Option<Product>>,
}

/// A template, and pairs of places: in a sequence and in the template.
type Alignment = (usize, Vec<(usize, usize)>);

/// Instances with sizes, of the stages of one name.
#[derive(Default)]
struct Templates {
    all: Vec<Template>,
    by_keys: FxHashMap<Vec<u32>, Vec<usize>>,
    /// Alignments that were made.
    aligned: FxHashMap<Vec<u32>, Option<Alignment>>,
}

/// Numbers of (name, grid, block): names in the spelling that all profilers share.
struct Keys {
    names: Vec<Option<u32>>,
    numbers: FxHashMap<(u32, Dim3, Dim3), u32>,
}

pub(super) fn find(session: &Session, facts: &Facts, matrix: &Matrix, products: &mut Products) {
    if products.all.is_empty() {
        return;
    }
    let mut keys = Keys::new(session, matrix);
    let positions = positions(facts);
    let mut templates: BTreeMap<&str, Templates> = BTreeMap::new();
    for stage in &facts.stages {
        for instance in stage.instances.clone() {
            let of_name = templates.entry(&stage.name).or_default();
            if of_name.all.len() >= MAX_TEMPLATES {
                break;
            }
            let (ops, keys) = sequence(session, facts, matrix, &mut keys, instance);
            let launch_products: Vec<Option<Product>> =
                ops.iter().map(|op| products.get(*op).copied()).collect();
            let recorded = launch_products.iter().flatten().count();
            if recorded > 0 && recorded * 2 >= launch_products.len() {
                let rank = rank(session, facts, instance);
                of_name.add(Template {
                    position: positions[instance],
                    rank,
                    keys,
                    products: launch_products,
                });
            }
        }
    }
    let streams = streams(session, facts, matrix, &mut keys, products);
    let mut searches = Searches::new(&streams);
    let mut budget = MAX_ALIGNED;
    for stage in innermost_first(facts) {
        let stage = &facts.stages[stage];
        let mut of_name = templates.get_mut(stage.name.as_str());
        let steps = matches!(stage.kind, StageKind::Decode | StageKind::DecodeStep);
        for instance in stage.instances.clone() {
            let (ops, keys) = sequence(session, facts, matrix, &mut keys, instance);
            if ops.iter().all(|op| products.is_known(*op)) {
                continue;
            }
            let rank = rank(session, facts, instance);
            let partners = of_name.as_mut().filter(|of_name| !of_name.all.is_empty());
            let partners = match partners {
                Some(of_name) => of_name.partners(&keys, positions[instance], rank, &mut budget),
                // A stage that the recorded pass does not name.
                None => {
                    let agreed = searches.find(&keys, rank).into_iter();
                    agreed.map(|product| Some((product?, None))).collect()
                }
            };
            for (op, partner) in ops.iter().zip(partners) {
                let product = match partner {
                    Some((product, step_product)) if steps => {
                        at_step(product, step_product, positions[instance])
                    }
                    Some((product, _)) => Some(product),
                    None => None,
                };
                if let Some(product) = product {
                    products.set(Layer::Best, *op, product);
                }
            }
        }
    }
}

/// Ranks tell processes apart; of a pass that does not record them the GPUs do.
fn rank(session: &Session, facts: &Facts, instance: usize) -> Option<u32> {
    let instance = &facts.instances[instance];
    let process = instance.process.index();
    let pass = session.processes.pass[process];
    let recorded = session.processes.rank[process].or(session.passes.rank[pass.index()]);
    recorded.or_else(|| {
        let gpu = instance
            .gpus
            .first()
            .filter(|_| facts.shared.contains(&pass))?;
        Some(session.gpus.ordinal[gpu.index()])
    })
}

/// All matrix kernels of processes with recorded sizes, by start, with the rank of each process.
fn streams(
    session: &Session,
    facts: &Facts,
    matrix: &Matrix,
    keys: &mut Keys,
    products: &Products,
) -> Vec<(Option<u32>, Stream<u32>)> {
    let mut recorded: BTreeMap<ProcessId, Option<Stream<u32>>> = BTreeMap::new();
    for op in (0..facts.ops.len() as OpIndex).filter(|op| products.is_known(*op)) {
        recorded.entry(facts.ops.process[op as usize]).or_default();
    }
    for op in 0..facts.ops.len() as OpIndex {
        let Some(stream) = recorded.get_mut(&facts.ops.process[op as usize]) else {
            continue;
        };
        let kernel = facts
            .kernel(session, op)
            .filter(|kernel| matrix.class(*kernel).is_some());
        if let Some(kernel) = kernel {
            let stream = stream.get_or_insert_with(|| Stream {
                keys: Vec::new(),
                products: Vec::new(),
            });
            stream.keys.push(keys.number(session, facts, op, kernel));
            let product = products.get(op).copied();
            stream.products.push(product.map(|product| Product {
                source: Source::SameOrder,
                ..product
            }));
        }
    }
    let with_rank = |(process, stream): (ProcessId, Option<Stream<u32>>)| {
        let pass = session.processes.pass[process.index()];
        let rank = session.processes.rank[process.index()].or(session.passes.rank[pass.index()]);
        Some((rank, stream?))
    };
    recorded.into_iter().filter_map(with_rank).collect()
}

/// What a kernel of step `step` of a decode loop computes, of which the partner is of step `its`: the keys of
/// attention grow by one a step, the sizes of products do not.
fn at_step(product: Product, its: Option<u32>, step: Option<u32>) -> Option<Product> {
    let Shape::Attention(attention) = product.shape else {
        return Some(product);
    };
    if its == step {
        return Some(product);
    }
    let keys = attention
        .keys
        .saturating_add(u64::from(step?))
        .checked_sub(u64::from(its?))?;
    let shape = Shape::Attention(Attention { keys, ..attention });
    Some(Product {
        shape,
        source: Source::Aligned,
        ..product
    })
}

/// Matrix kernels of a stage instance, and their keys.
fn sequence(
    session: &Session,
    facts: &Facts,
    matrix: &Matrix,
    keys: &mut Keys,
    instance: usize,
) -> (Vec<OpIndex>, Vec<u32>) {
    let kernels = matrix.of(session, facts, &facts.instances[instance]);
    kernels
        .map(|(op, kernel)| (op, keys.number(session, facts, op, kernel)))
        .unzip()
}

impl Keys {
    fn new(session: &Session, matrix: &Matrix) -> Self {
        let mut signatures: FxHashMap<String, u32> = FxHashMap::default();
        let name = |kernel: KernelId| {
            matrix.class(kernel)?;
            let next = signatures.len() as u32;
            let signature = signature(session.kernel_name(kernel));
            Some(*signatures.entry(signature).or_insert(next))
        };
        let names = session.kernels.ids().map(name).collect();
        Self {
            names,
            numbers: FxHashMap::default(),
        }
    }

    fn number(&mut self, session: &Session, facts: &Facts, op: OpIndex, kernel: KernelId) -> u32 {
        let (grid, block) = launch_of(facts, op)
            .map(|row| (session.launches.grid[row], session.launches.block[row]))
            .unwrap_or_default();
        let name = self.names[kernel.index()].unwrap_or(u32::MAX);
        let next = self.numbers.len() as u32;
        *self.numbers.entry((name, grid, block)).or_insert(next)
    }
}

impl Templates {
    fn add(&mut self, template: Template) {
        self.by_keys
            .entry(template.keys.clone())
            .or_default()
            .push(self.all.len());
        self.all.push(template);
    }

    /// What the partner of each kernel computes, and the place of its instance among those of the outer stage.
    fn partners(
        &mut self,
        keys: &[u32],
        position: Option<u32>,
        rank: Option<u32>,
        budget: &mut usize,
    ) -> Vec<Option<(Product, Option<u32>)>> {
        let given = |template: &Template, its: usize, source| {
            let product = template.products[its]?;
            Some((Product { source, ..product }, template.position))
        };
        if let Some(same) = self.by_keys.get(keys) {
            let closeness = |index: &&usize| {
                let template = &self.all[**index];
                (
                    template.position != position,
                    template.rank != rank,
                    **index,
                )
            };
            let Some(best) = same
                .iter()
                .min_by_key(closeness)
                .map(|index| &self.all[*index])
            else {
                return Vec::new();
            };
            return (0..keys.len())
                .map(|index| given(best, index, Source::SameOrder))
                .collect();
        }
        let mut products = vec![None; keys.len()];
        if let Some((index, pairs)) = self.align(keys, rank, budget) {
            let template = &self.all[index];
            for (key_index, template_index) in pairs {
                products[key_index] = given(template, template_index, Source::Aligned);
            }
        }
        products
    }

    /// The template with the most kernels in common with a sequence, at least three quarters of it.
    fn align(&mut self, keys: &[u32], rank: Option<u32>, budget: &mut usize) -> Option<Alignment> {
        if let Some(known) = self.aligned.get(keys) {
            return known.clone();
        }
        let closeness = |index: &usize| {
            let template = &self.all[*index];
            (
                template.rank != rank,
                template.keys.len().abs_diff(keys.len()),
                *index,
            )
        };
        let best = (0..self.all.len())
            .min_by_key(closeness)
            .filter(|_| *budget > 0);
        let alignment = best.and_then(|index| {
            *budget -= 1;
            let pairs = common(keys, &self.all[index].keys, MAX_EDITS)?;
            (pairs.len() * 4 >= keys.len() * 3).then_some((index, pairs))
        });
        self.aligned.insert(keys.to_vec(), alignment.clone());
        alignment
    }
}
