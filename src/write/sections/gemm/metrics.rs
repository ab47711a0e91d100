//! The metrics of a stage's GEMMs.

use rooflens_schemas::Metric;
use rooflens_session::Ns;

use super::products;
use crate::Context;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_document::catalogue::{GEMM_RECOVERABLE, GEMM_SHAPE_COVERAGE, GEMM_TIME_SHARE};

/// All metrics of a stage.
pub(super) fn of(context: &Context<'_>, stage: &StageProducts) -> [Metric; 3] {
    let context = &context.in_english();
    let scope = stage.summary.scope(context.session, context.facts);
    let StageProducts {
        time, known, total, ..
    } = *stage;
    let over = format!("{} counted instances", stage.summary.counted);
    let time_share = GEMM_TIME_SHARE.measured(
        scope.clone(),
        stage.time_share().0,
        format!("{time} ns of matrix products ÷ {total} ns of all GPU operations, {over}"),
    );
    let coverage = GEMM_SHAPE_COVERAGE.derived(
        scope.clone(),
        stage.shape_coverage().0,
        format!("{known} ns of products of known sizes ÷ {time} ns of all products, {over}"),
    );
    let basis = || {
        let roofs = products::in_words(context.text, stage.roofs()).unwrap_or_default();
        format!(
            "Σ max(0, time − max(FLOPs ÷ rate, bytes ÷ bandwidth)) over products of known sizes, mean of {over}; {roofs}"
        )
    };
    let reason = match known {
        Ns(0) => {
            "the sizes of no product are known: no recorded shapes, no cuBLASLt log, no model config that fits"
        }
        _ => "no peak for this GPU and dtype",
    };
    let lost = stage
        .recoverable()
        .map(|lost| (stage.per_instance(lost).0, basis()));
    let lost = GEMM_RECOVERABLE.known(scope, lost.ok_or_else(|| reason.to_owned()));
    let evidence = stage.evidence(context.session);
    [time_share, coverage, lost].map(|metric| Metric {
        evidence: vec![evidence.clone()],
        ..metric
    })
}
