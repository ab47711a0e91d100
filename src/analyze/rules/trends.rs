//! Trends of the times of repeated stages.

use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::time::drift::{Direction, Series, Subject};
use rooflens_units::Ratio;

use crate::evidence::Evidence;

/// Relative change of the last instances against the first from which on it is worth a finding.
pub(crate) const DRIFT: Ratio = Ratio(0.05);

/// The sequences of stages.
pub(crate) fn of_stages<'a>(evidence: &Evidence<'a>) -> Vec<(&'a Series, &'a Summary)> {
    let mut sequences = Vec::new();
    for series in evidence
        .results
        .drift()
        .into_iter()
        .flat_map(|drift| &drift.series)
    {
        if let Subject::Stage(summary) = &series.subject {
            sequences.push((series, summary));
        }
    }
    sequences
}

/// Name of the stage.
pub(crate) fn name<'a>(evidence: &Evidence<'a>, summary: &Summary) -> &'a str {
    &summary.stage(evidence.facts).name
}

/// The change of a stage's time, if it is a trend.
pub(crate) fn drift(series: &Series) -> Option<Ratio> {
    let drift = series.change().ok()?.drift;
    let is_trend = series.direction() != Some(Direction::Neither);
    (drift.abs() >= DRIFT && is_trend).then_some(drift)
}
