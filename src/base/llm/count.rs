//! Parameters and the memory that a sequence takes.

use std::iter::Sum;
use std::ops::Mul;

use super::{Core, Layer, Llm, Matrix, Reach};

impl Matrix {
    /// Parameters of all copies with their biases.
    pub const fn parameters(&self) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        self.copies
            .saturating_mul(self.elements().saturating_add(bias))
    }

    /// Parameters of the copies that a token passes through.
    pub fn active(&self) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        // Shared weights may be used more often than they are stored.
        self.used
            .min(self.copies)
            .saturating_mul(self.elements().saturating_add(bias))
    }
}

impl Layer {
    /// Parameters.
    pub fn parameters(&self) -> u64 {
        self.matrices
            .iter()
            .map(Matrix::parameters)
            .fold(self.vectors, u64::saturating_add)
    }

    /// Elements of a sequence's recurrent state.
    pub fn state_elements(&self) -> f64 {
        let state = self.state.as_ref();
        state.map_or(0.0, |state| state.elements as f64)
    }

    /// Parameters that a token passes through.
    pub fn active(&self) -> u64 {
        self.matrices
            .iter()
            .map(Matrix::active)
            .fold(self.vectors, u64::saturating_add)
    }
}

impl Llm {
    /// Sum of a figure over all layers.
    pub fn over_layers<T: Sum>(&self, figure: impl Fn(&Layer) -> T) -> T
    where
        f64: Mul<T, Output = T>,
    {
        let layers = self.layers.iter();
        layers
            .map(|(count, layer)| *count as f64 * figure(layer))
            .sum()
    }

    /// Layers of all kinds.
    pub fn depth(&self) -> u64 {
        self.layers.iter().map(|(count, _)| count).sum()
    }

    /// Parameters of the model with its encoders; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        let encoders = self.encoders.iter().map(|encoder| encoder.llm.parameters());
        encoders.fold(
            self.sum(Layer::parameters, Matrix::parameters),
            u64::saturating_add,
        )
    }

    /// Parameters that a token passes through: the chosen experts only, no encoder.
    pub fn active_parameters(&self) -> u64 {
        self.sum(Layer::active, Matrix::active)
    }

    fn sum(&self, of_layer: fn(&Layer) -> u64, of_matrix: fn(&Matrix) -> u64) -> u64 {
        let layers = self
            .layers
            .iter()
            .map(|(count, layer)| count.saturating_mul(of_layer(layer)));
        let head = self.head.iter().filter(|_| !self.tied).map(of_matrix);
        let outside = self.matrices.iter().map(of_matrix);
        layers.chain(head).chain(outside).fold(
            self.tables.saturating_add(self.vectors),
            u64::saturating_add,
        )
    }

    /// Cached elements of a sequence with `context` positions, over all layers, without recurrent states.
    pub fn cached_elements(&self, context: u64) -> f64 {
        let cached = |core: &Core| core.stored as f64 * core.reach.stored(context);
        self.over_layers(|layer| layer.cores.iter().map(cached).sum::<f64>())
    }

    /// Elements of a sequence's recurrent states, over all layers.
    pub fn state_elements(&self) -> f64 {
        self.over_layers(Layer::state_elements)
    }

    /// Whether tokens are generated one after another.
    pub fn generates(&self) -> bool {
        let is_decoder = |layer: &Layer| layer.cores.iter().all(|core| core.reach != Reach::All);
        self.head.is_some() && self.layers.iter().all(|(_, layer)| is_decoder(layer))
    }

    /// Whether all layers are attention with keys and values of its own and a dense block: its GEMMs follow from sizes.
    pub fn is_dense_decoder(&self) -> bool {
        let plain = ["q", "k", "v", "o", "gate", "up", "down"];
        let is_dense = |matrix: &Matrix| matrix.copies == 1 && plain.contains(&matrix.name);
        let is_plain = |layer: &Layer| {
            layer.cores.len() == 1 && layer.state.is_none() && layer.matrices.iter().all(is_dense)
        };
        self.layers
            .iter()
            .all(|(_, layer)| is_plain(layer) && layer.matrices == self.layers[0].1.matrices)
    }

    /// Whether each query attends to all keys, before and after it, in all layers: an encoder.
    pub fn attends_both_ways(&self) -> bool {
        let mut cores = self.layers.iter().flat_map(|(_, layer)| &layer.cores);
        cores.all(|core| core.reach == Reach::All)
    }

    /// Whether each query attends to all keys before it, in all layers.
    pub fn attends_fully(&self) -> bool {
        let mut cores = self.layers.iter().flat_map(|(_, layer)| &layer.cores);
        cores.all(|core| core.reach == Reach::Causal)
    }
}

impl Reach {
    /// Entries that are kept for a sequence of `context` positions.
    pub fn stored(self, context: u64) -> f64 {
        match self {
            Self::Causal | Self::All | Self::Top(_) => context as f64,
            Self::Fixed(size) => size as f64,
            Self::Window(size) | Self::Chunk(size) => context.min(size) as f64,
            Self::Compressed { ratio, .. } => (context / ratio.max(1)) as f64,
        }
    }
}
