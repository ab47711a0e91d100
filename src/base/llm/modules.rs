//! A model module by module: what each stores, computes and gives.

use rooflens_units::{Bytes, Count, Flops};

use super::{Convention, Layer, Llm, Matrix, Part, Shape};

/// Equal modules of all layers of a model or of one of its encoders.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `language`, or what the encoder reads.
    pub stage: &'static str,
    /// Type of the model, or of its encoder.
    pub family: String,
    /// A matrix, `attention`, `embedding` or `norms`.
    pub name: &'static str,
    /// How many there are of it; experts of a layer are one.
    pub layers: u64,
    /// Parameters.
    pub parameters: u64,
    /// Operations of a pass.
    pub flops: Flops,
    /// Elements that a pass makes of its inputs.
    pub activations: Count,
    /// Keys, values and states of a sequence in 16 bits.
    pub cache: Bytes,
}

/// The modules of a model in a pass of this shape, and of its encoders over so many inputs for each of its sequences.
///
/// Parameters, operations and cache add up to those of the model with its encoders.
pub fn modules(llm: &Llm, shape: Shape, inputs: u64) -> Vec<Module> {
    let mut modules = Vec::new();
    for encoder in &llm.encoders {
        let pass = encoder.shape(inputs.saturating_mul(shape.batch));
        modules.extend(Modules::of(&encoder.llm, encoder.name, pass).found);
    }
    modules.extend(Modules::of(llm, "language", shape).found);
    modules
}

/// The modules of one model, in the order of their first use.
struct Modules<'a> {
    llm: &'a Llm,
    stage: &'static str,
    shape: Shape,
    found: Vec<Module>,
}

impl<'a> Modules<'a> {
    fn of(llm: &'a Llm, stage: &'static str, shape: Shape) -> Self {
        let mut modules = Self {
            llm,
            stage,
            shape,
            found: Vec::new(),
        };
        modules.vectors("embedding", 1, llm.tables);
        for (count, layer) in &llm.layers {
            modules.layer(*count, layer);
        }
        for matrix in &llm.matrices {
            modules.matrix(1, matrix);
        }
        modules.vectors("norms", 1, llm.vectors);
        if let Some(head) = &llm.head {
            modules.matrix(1, head);
        }
        modules
    }

    fn layer(&mut self, count: u64, layer: &Layer) {
        for matrix in &layer.matrices {
            self.matrix(count, matrix);
        }
        self.vectors("norms", count, layer.vectors);
        if layer.cores.is_empty() && layer.state.is_none() {
            return;
        }
        let shape = self.shape;
        let context = shape.past + shape.new;
        let outputs = layer.cores.iter().map(|core| core.heads * core.value);
        let cached = layer.cores.iter();
        let cached: f64 = cached
            .map(|core| core.stored as f64 * core.reach.stored(context))
            .sum();
        let states = layer.state_elements();
        let sequences = count as f64 * shape.batch as f64;
        self.add(Module {
            name: "attention",
            flops: count as f64 * layer.mixing(shape, Convention::Causal),
            activations: Count(count as f64 * shape.tokens().0 * outputs.sum::<u64>() as f64),
            cache: Bytes(2.0 * sequences * (cached + states)),
            ..self.module(count)
        });
    }

    fn matrix(&mut self, count: u64, matrix: &Matrix) {
        let shape = self.shape;
        let multiplied = match (matrix.part, matrix.rows) {
            (Part::Head, _) => shape.batch as f64 * shape.logits as f64,
            (_, Some(rows)) => shape.batch as f64 * rows as f64,
            (_, None) => shape.tokens().0,
        };
        let used = count as f64 * multiplied * matrix.used as f64;
        let is_stored = matrix.part != Part::Head || !self.llm.tied;
        self.add(Module {
            name: matrix.name,
            parameters: match is_stored {
                true => count.saturating_mul(matrix.parameters()),
                false => 0,
            },
            flops: Flops(2.0 * used * matrix.elements() as f64),
            activations: Count(used * matrix.outputs as f64),
            ..self.module(count)
        });
    }

    fn vectors(&mut self, name: &'static str, count: u64, vectors: u64) {
        if vectors > 0 {
            self.add(Module {
                name,
                parameters: count.saturating_mul(vectors),
                ..self.module(count)
            });
        }
    }

    fn module(&self, layers: u64) -> Module {
        Module {
            stage: self.stage,
            family: self.llm.family.clone(),
            name: "",
            layers,
            parameters: 0,
            flops: Flops::ZERO,
            activations: Count::ZERO,
            cache: Bytes::ZERO,
        }
    }

    fn add(&mut self, module: Module) {
        let same = self
            .found
            .iter_mut()
            .find(|found| found.name == module.name);
        let Some(sum) = same else {
            self.found.push(module);
            return;
        };
        sum.layers += module.layers;
        sum.parameters = sum.parameters.saturating_add(module.parameters);
        sum.flops += module.flops;
        sum.activations += module.activations;
        sum.cache += module.cache;
    }
}
