//! Kernels right after a GEMM that only work on its output, as its epilogue could before that output is written.

use std::collections::BTreeMap;

use super::call::Tensor;
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::Context;
use crate::engine::classify::{KernelClass, KernelIdentity};
use rooflens_session::{KernelId, PassId, Session};
use rooflens_units::{Bytes, Count, Ratio, Time};

/// Operators that add a tensor to another one.
const ADDITIONS: [&str; 2] = ["aten::add", "aten::add_"];

/// Parts of names of kernels that do what epilogues of cuBLASLt do, and of those that do it backward.
const NAMES: [&str; 3] = ["bias", "relu", "gelu"];
const BACKWARD: [&str; 3] = ["grad", "backward", "bwd"];

/// Launches of a kernel after a GEMM ÷ all its launches from which on it belongs to the GEMM.
const ALWAYS: Ratio = Ratio(0.9);

/// Whether a kernel is the program's own, and by its name does what an epilogue does.
fn is_epilogue(name: &str, identity: &KernelIdentity) -> bool {
    let name = name.to_lowercase();
    let contains = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let is_class = matches!(
        identity.class,
        KernelClass::Application | KernelClass::Elementwise
    );
    is_class && identity.library.is_empty() && contains(&NAMES) && !contains(&BACKWARD)
}

/// Whether such kernels are among those of a pass.
pub(super) fn occur(context: &Context<'_>, pass: PassId) -> bool {
    let launches = &context.session.launches;
    let are_epilogues = are_epilogues(context.session, &context.facts.identities);
    let mut kernels = launches.pass.iter().zip(&launches.kernel);
    kernels.any(|(of_pass, kernel)| *of_pass == pass && are_epilogues[kernel.index()])
}

/// Whether each kernel is one, by its id.
fn are_epilogues(session: &Session, identities: &[KernelIdentity]) -> Vec<bool> {
    let kernels = session.kernels.ids();
    let is_epilogue =
        |kernel: KernelId| is_epilogue(session.kernel_name(kernel), &identities[kernel.index()]);
    kernels.map(is_epilogue).collect()
}

impl Finder<'_> {
    /// Additions of a row to each row of the output of the GEMM before.
    pub(super) fn epilogues(&mut self) {
        for position in 1..self.items.list.len() {
            let Some(output) = self.biased(position) else {
                continue;
            };
            let output = output.clone();
            let chain = Chain {
                bound: self.roof.moving(Bytes::ZERO).map(|_| Time::ZERO),
                kernels_left: 0.0,
                example: Example {
                    operators: super::operators(self.items, &[position - 1, position]),
                    sizes: sizes(&output.dims),
                    from: output.dtype,
                    kernel: Some(self.items.list[position].kernel),
                    ..self.example(&[position])
                },
                ..self.chain(ChainKind::Epilogue, vec![position])
            };
            self.add(chain);
        }
    }

    /// The output of a GEMM to which a kernel adds a bias.
    fn biased(&self, position: usize) -> Option<&Tensor> {
        let is_addition = ADDITIONS.contains(&self.items.name(position)?);
        if self.is_taken[position] || !is_addition || !self.is_after_gemm(position) {
            return None;
        }
        let product = self.items.call(position - 1)?.product(self.items.session)?;
        let columns = *product.right.dims.last()?;
        let call = self.items.call(position)?;
        let is_row = |tensor: &&Tensor| {
            columns > 1
                && tensor.dims.last() == Some(&columns)
                && tensor.elements() == Count(columns as f64)
        };
        let is_output = |tensor: &&Tensor| {
            tensor.elements() == product.elements && tensor.dims.last() == Some(&columns)
        };
        call.tensors.iter().find(is_row)?;
        let output = call.tensors.iter().find(is_output)?;
        (call.elements == product.elements).then_some(output)
    }

    /// Whether the kernel before on the stream is a GEMM.
    fn is_after_gemm(&self, position: usize) -> bool {
        let before = position.checked_sub(1);
        before.is_some_and(|before| {
            self.items.list[before].class == KernelClass::Gemm
                && self.items.is_together(before, position)
        })
    }

    /// Kernels of the program that by their names add a bias or apply an activation, each time after a GEMM.
    pub(super) fn named_epilogues(&mut self) {
        let are_epilogues = are_epilogues(self.items.session, self.items.identities);
        let mut positions: BTreeMap<(KernelId, u64), Vec<usize>> = BTreeMap::new();
        for (position, item) in self.items.list.iter().enumerate() {
            if are_epilogues[item.kernel.index()] {
                let launches = positions.entry((item.kernel, item.blocks)).or_default();
                launches.push(position);
            }
        }
        for launches in positions.into_values() {
            let all = launches.len() as f64;
            let mut after = launches;
            after.retain(|position| self.is_after_gemm(*position));
            if Ratio(after.len() as f64 / all) < ALWAYS {
                continue;
            }
            for position in after {
                let chain = Chain {
                    bound: Some(Time::ZERO),
                    kernels_left: 0.0,
                    example: Example {
                        operators: self.items.short_names(&[position - 1, position]),
                        kernel: Some(self.items.list[position].kernel),
                        ..Example::default()
                    },
                    ..self.chain(ChainKind::Epilogue, vec![position])
                };
                self.add(chain);
            }
        }
    }
}
