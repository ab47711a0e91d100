//! What the tables of matrix products and of attention have in common: one row a stage, kernel and size.

use rooflens_schemas::Unit;

use super::roof::{Bound, Ceiling, Sum};
use crate::analysis::Context;
use crate::analysis::engine::stage_stats::Summary;
use crate::findings::{Cell, Column};
use crate::model::{KernelId, Ns};

/// The columns of all kinds of products, with the sizes and the further columns of one kind among them.
pub(crate) fn columns(
    shape: &'static str,
    sizes: impl IntoIterator<Item = Column>,
    more: impl IntoIterator<Item = Column>,
) -> Vec<Column> {
    let mut columns = vec![
        Column::text("kernel", "Kernel"),
        Column::text("stage", "Stage"),
        Column::text("pass", "Pass"),
        Column::text("shape", shape),
    ];
    columns.extend(sizes);
    columns.extend([
        Column::text("dtype", "Type"),
        Column::text("source", "Sizes from"),
        Column::text("confidence", "Confidence"),
        Column::new("launches", "Launches", Unit::Count),
        Column::new("time_ns", "Time", Unit::Nanoseconds),
        Column::new("share", "Share", Unit::Ratio),
        Column::new("helper_ns", "Of it helpers", Unit::Nanoseconds),
        Column::new("flops", "FLOPs", Unit::Flop),
        Column::new("flop_per_second", "Rate", Unit::FlopPerSecond),
        Column::new("of_peak", "Of peak", Unit::Ratio),
        Column::new("bytes", "Bytes", Unit::Bytes),
        Column::new("intensity", "Intensity", Unit::FlopPerByte),
        Column::text("bound", "Bound"),
        Column::text("ceiling", "Ceiling"),
        Column::new("roof_ns", "At the roofline", Unit::Nanoseconds),
        Column::new("recoverable_ns", "Recoverable", Unit::Nanoseconds),
    ]);
    columns.extend(more);
    columns.push(Column::text("name", "Whole name"));
    columns
}

/// A row of such a table. Figures are per instance of the stage.
pub(crate) struct Row<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) instances: usize,
    /// Time of all GPU operations of these instances.
    pub(crate) total: Ns,
    pub(crate) kernel: KernelId,
    /// The sizes, or what bounds them, in words.
    pub(crate) shape: Option<String>,
    pub(crate) dtype: Option<&'static str>,
    /// Where the sizes are from, and how sure that is.
    pub(crate) source: Option<(&'static str, &'static str)>,
    pub(crate) sum: &'a Sum,
}

impl Row<'_> {
    /// A sum over all instances, per instance.
    pub(crate) fn per(&self, value: f64) -> f64 {
        value / self.instances.max(1) as f64
    }

    /// The cells of [`columns`], with those of sizes and further columns in their places.
    pub(crate) fn cells(
        &self,
        context: &Context<'_>,
        sizes: impl IntoIterator<Item = Cell>,
        more: impl IntoIterator<Item = Cell>,
    ) -> Vec<Cell> {
        let (session, facts, sum) = (context.session, context.facts, self.sum);
        let pass = self.summary.stage(facts).pass;
        let per = |value: Option<f64>| Cell::maybe(value.map(|value| self.per(value)));
        let share = (self.total > 0).then(|| sum.time as f64 / self.total as f64);
        let mut cells = vec![
            Cell::Name(facts.identities[self.kernel.index()].short.clone()),
            Cell::Text(self.summary.label(session, facts)),
            Cell::Text(session.pass_name(pass).to_owned()),
            text(self.shape.as_deref()),
        ];
        cells.extend(sizes);
        cells.extend([
            text(self.dtype),
            text(self.source.map(|source| source.0)),
            text(self.source.map(|source| source.1)),
            per(Some(sum.launches as f64)),
            per(Some(sum.time as f64)),
            Cell::maybe(share),
            per(Some(sum.helpers as f64)),
            per(sum.flops),
            Cell::maybe(sum.rate()),
            Cell::maybe(sum.of_peak()),
            per(sum.bytes),
            Cell::maybe(sum.flops.zip(sum.bytes).map(|(flops, bytes)| flops / bytes)),
            text(sum.bound().map(Bound::label)),
            text(sum.ceiling().map(Ceiling::label)),
            per(sum.least),
            per(sum.recoverable()),
        ]);
        cells.extend(more);
        cells.push(Cell::Name(session.kernel_name(self.kernel).to_owned()));
        cells
    }
}

/// A text that may be missing or empty.
pub(crate) fn text(text: Option<&str>) -> Cell {
    let text = text.filter(|text| !text.is_empty());
    text.map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
}

/// A number that may be missing.
pub(crate) fn count(value: Option<u64>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}
