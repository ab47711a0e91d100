//! What the sections of GEMMs and of attention have in common: one row a stage, kernel and size.

use std::collections::BTreeMap;
use std::ops::Div;

use rooflens_session::Ns;

use crate::Context;
use rooflens_analysis::engine::classify::KernelIdentity;
use rooflens_analysis::kernels::matmul::roof::{Bound, Roof, basis};
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_document::{Catalogue, Quantity, Table};

/// A row of such a table. Figures are per instance of the stage.
pub(super) struct Row<'a> {
    pub(super) stage: &'a StageProducts,
    pub(super) group: &'a Group,
    pub(super) identity: &'a KernelIdentity,
    /// The sizes, or what bounds them, in words.
    pub(super) shape: Option<String>,
    /// Where the sizes are from, and how sure that is.
    pub(super) source: Option<(&'static str, &'static str)>,
}

impl<'a> Row<'a> {
    /// A row of a group, with its sizes in words.
    pub(super) fn new(
        context: &Context<'a>,
        stage: &'a StageProducts,
        group: &'a Group,
        shape: Option<String>,
    ) -> Self {
        let source = group.product.map(|product| product.source);
        Self {
            stage,
            group,
            identity: &context.facts.identities[group.kernel.index()],
            shape,
            source: source.map(|source| (source.label(), source.confidence())),
        }
    }

    /// A sum over all instances, per instance.
    pub(super) fn per<A: Div<f64, Output = A>>(&self, sum: Option<A>) -> Option<A> {
        sum.map(|sum| self.stage.per_instance(sum))
    }
}

/// The columns before the sizes.
pub(super) fn heads<'t>(context: &Context<'t>, id: &'static str) -> Table<'t, Row<'t>> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, id, row: &Row<'_> => {
        name "kernel" = row.identity.short.clone();
        text "stage" = row.stage.summary.label(session, facts);
        text "pass" = session.pass_name(row.stage.pass);
        text "shape" = row.shape.clone();
    } }
}

/// The columns after the sizes. A type that the sizes do not tell is that of the kernel's name where `by_name` is set.
pub(super) fn figures<'t>(by_name: bool, table: Table<'t, Row<'t>>) -> Table<'t, Row<'t>> {
    columns! { table, row: &Row<'_> => {
        text "dtype" = {
            let named = by_name.then_some(row.identity.dtype);
            row.group
                .sum
                .roof
                .map(|roof| roof.dtype)
                .or(named)
                .filter(|dtype| !dtype.is_empty())
        };
        text "source" = row.source.map(|source| source.0);
        text "confidence" = row.source.map(|source| source.1);
        count "launches" = row.per(Some(row.group.sum.launches as f64));
        "time_ns" = row.per(Some(row.group.sum.time.time()));
        share "share" = {
            let (time, total) = (row.group.sum.time, row.stage.total);
            (total > Ns::ZERO).then(|| time.time() / total.time())
        };
        "helper_ns" = row.per(Some(row.group.sum.helpers.time()));
        "flops" = row.per(row.group.sum.flops);
        "flop_per_second" = row.group.sum.rate();
        "of_peak" = row.group.sum.of_peak();
        "bytes" = row.per(row.group.sum.bytes);
        "intensity" = row.group.sum.intensity();
        text "bound" = row.group.sum.bound().map(Bound::label);
        text "ceiling" = row.group.sum.has_measured_ceiling().map(basis);
        share "of_roofline" = row.group.sum.least.map(|least| least / row.group.sum.time.time());
        "roof_ns" = row.per(row.group.sum.least);
        "recoverable_ns" = row.per(row.group.sum.recoverable());
    } }
}

/// The last column.
pub(super) fn whole_name<'t>(
    context: &Context<'t>,
    table: Table<'t, Row<'t>>,
) -> Table<'t, Row<'t>> {
    let session = context.session;
    columns! { table, row: &Row<'_> => {
        name "name" = session.kernel_name(row.group.kernel);
    } }
}

/// The ceilings of several roofs, if known: `bf16 787.5 TFLOP/s measured, memory 4.80 TB/s specified`.
pub(super) fn in_words<'a>(
    text: &'static Catalogue,
    roofs: impl Iterator<Item = &'a Roof>,
) -> Option<String> {
    let mut ceilings: BTreeMap<&str, String> = BTreeMap::new();
    for roof in roofs.filter(|roof| roof.times().is_some()) {
        let words = |value: Quantity, measured| format!("{value} {}", text.word(basis(measured)));
        if let Some(rate) = roof.rate {
            ceilings.insert(roof.dtype, words(rate.value.into(), rate.measured));
        }
        if let Some(bandwidth) = roof.bandwidth {
            let words = words(bandwidth.value.into(), bandwidth.measured);
            ceilings.insert(text.word("memory"), words);
        }
    }
    let ceilings = ceilings.into_iter();
    let ceilings: Vec<String> = ceilings
        .map(|(name, words)| format!("{name} {words}"))
        .collect();
    (!ceilings.is_empty()).then(|| ceilings.join(text.comma()))
}

/// How to get the sizes of matrix kernels: what the bundle does not hold already.
pub fn shapes_advice(context: &rooflens_analysis::Context<'_>, text: &Catalogue) -> String {
    let line = |key| text.line(key, &[]);
    match context.records_shapes() {
        true => line("shapes.recorded"),
        false => line("shapes.record"),
    }
}
