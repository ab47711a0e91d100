//! FLOPs of each stage from all sources side by side, and the time that they would take at the peaks.

mod metrics;
mod stage;
mod tables;
#[cfg(test)]
mod tests;

use crate::analysis::counters::roofline::workload::{Executed, executed};
use crate::analysis::engine::sm_clock::Clocks;
use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::utilization::mfu::{Line as UtilizationLine, lines};
use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Findings, Inline, Method, Quantity, View};
use crate::model::PassId;
use crate::prose;

use stage::StageFlops;

/// FLOPs by source. A bundle in which no kernel has sizes has no such section.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "flops", title: "FLOPs by source", missing: |_| None, run };

/// Stages that a page shows.
const SHOWN: usize = 12;

/// Classes without FLOPs that a sentence names.
const CLASSES: usize = 4;

/// A stage with what the model's dimensions say of it.
struct Line {
    stage: StageFlops,
    /// Model FLOPs, causal and with full attention.
    model: Option<(f64, f64)>,
    mfu: Result<f64, String>,
    mbu: Option<f64>,
    /// FLOPs by counters, and HFU.
    executed: (Option<f64>, Option<f64>),
}

impl Line {
    /// T* ÷ T, whatever it is.
    fn raw_utilization(&self, context: &Context<'_>) -> Result<f64, String> {
        let time = self.stage.summary.time;
        if time <= 0.0 {
            return Err("the stage takes no time".to_owned());
        }
        Ok(self.stage.ideal_time(context)? / time)
    }

    fn utilization(&self, context: &Context<'_>) -> Result<f64, String> {
        possible(self.raw_utilization(context)?)
    }

    /// MFU at the peak of the measured clock.
    fn raw_clock_normalized(&self, context: &Context<'_>) -> Result<f64, String> {
        let mfu = self.mfu.clone()?;
        let reason = "no clock samples within the stage: neither sampled GPU metrics in this pass nor NVML samples \
                      during it";
        let (clock, _) = self.stage.clock.ok_or(reason)?;
        let boost = self.stage.gpu(context).map(|gpu| gpu.boost_hz).filter(|hz| *hz > 0.0);
        Ok(mfu * boost.ok_or("no peak for this GPU")? / clock)
    }

    fn clock_normalized(&self, context: &Context<'_>) -> Result<f64, String> {
        possible(self.raw_clock_normalized(context)?)
    }
}

/// More than the peak is no result.
fn possible(utilization: f64) -> Result<f64, String> {
    if utilization <= 1.0 {
        return Ok(utilization);
    }
    Err(format!("{} is more than the peak allows", Quantity::ratio(utilization)))
}

fn run(context: &Context<'_>) -> Findings {
    let all = all(context);
    let mut findings = Findings::default();
    if all.iter().all(|line| line.stage.flops().is_none()) {
        return findings;
    }
    let primary = context.facts.primary_pass(context.session);
    let is_shown = |line: &&Line| Some(line.stage.summary.stage(context.facts).pass) == primary;
    let shown = all.iter().filter(is_shown).count();
    let shown = if shown == 0 { all.len() } else { shown };
    let columns = columns(&all[..shown]);
    let caption = "FLOPs of an instance by source, under the causal mask, and the time that they take at the peak";
    findings.blocks.push(Block::Table(View::new("flops", caption, &columns, shown.min(SHOWN))));
    let outermost =
        all[..shown].iter().filter(|line| line.stage.summary.is_outermost(context.facts));
    let uncounted: Vec<_> =
        outermost.take(SHOWN).filter_map(|line| uncounted(context, line)).collect();
    findings.blocks.extend((!uncounted.is_empty()).then_some(Block::Facts(uncounted)));
    for line in &all {
        findings.metrics.extend(metrics::of(context, line));
        findings.diagnostics.extend(above_one(context, line));
    }
    findings.datasets.push(tables::dataset(context, &all));
    findings.methods.push(method());
    findings
}

/// The columns that hold something.
fn columns(lines: &[Line]) -> Vec<&'static str> {
    let any = |has: &dyn Fn(&Line) -> bool| lines.iter().any(has);
    let all = [
        ("stage", true),
        ("model_flops", any(&|line| line.model.is_some())),
        ("operator_flops", any(&|line| line.stage.operators.is_some())),
        ("gemm_log_flops", any(&|line| line.stage.logged.is_some())),
        ("counter_flops", any(&|line| line.executed.0.is_some())),
        ("flop_coverage", true),
        ("time_ns", true),
        ("ideal_time_ns", true),
        ("mixed_dtype_utilization", true),
        ("mfu", any(&|line| line.mfu.is_ok())),
        ("hfu", any(&|line| line.executed.1.is_some())),
        ("clock_normalized_mfu", any(&|line| line.stage.clock.is_some() && line.mfu.is_ok())),
    ];
    all.into_iter().filter_map(|(column, shown)| shown.then_some(column)).collect()
}

/// All stages of all passes with GPU work, the primary pass first.
fn all(context: &Context<'_>) -> Vec<Line> {
    let (session, facts) = (context.session, context.facts);
    let utilization: Vec<UtilizationLine> = lines(context);
    let executed = executed(context);
    let primary = facts.primary_pass(session);
    let others = session.passes.ids().filter(|pass| Some(*pass) != primary);
    let mut all = Vec::new();
    for pass in primary.into_iter().chain(others) {
        let clocks = Clocks::of(context, pass, None);
        for summary in summaries(facts, pass) {
            let scope = summary.scope(session, facts);
            let known = utilization
                .iter()
                .find(|line| line.timed.scope == scope && line.timed.busy_share.is_some());
            let reason = || Err("no FLOPs formula for this kind of stage".to_owned());
            all.push(Line {
                model: known.and_then(UtilizationLine::flops),
                mfu: known.map_or_else(reason, UtilizationLine::mfu),
                mbu: known.and_then(|line| line.mbu().ok()),
                executed: of_stage(executed.as_ref(), pass, &summary.label(session, facts)),
                stage: StageFlops::of(context, summary, clocks.as_ref()),
            });
        }
    }
    all
}

/// FLOPs by counters and HFU of a stage, where launches that stand for it were profiled.
fn of_stage(
    executed: Option<&(PassId, Vec<Executed>)>,
    pass: PassId,
    label: &str,
) -> (Option<f64>, Option<f64>) {
    let stages = executed.filter(|(timeline, _)| *timeline == pass).map(|(_, stages)| stages);
    let stage = stages.and_then(|stages| stages.iter().find(|stage| stage.label == label));
    stage.map_or((None, None), |stage| (stage.flops, stage.hfu))
}

/// What of a stage's time has no FLOPs, in words.
fn uncounted(context: &Context<'_>, line: &Line) -> Option<(String, Vec<Inline>)> {
    let stage = &line.stage;
    if stage.unknown.is_empty() || stage.total <= 0 {
        return None;
    }
    let share = |time: i64| Quantity::ratio(time as f64 / stage.total as f64);
    let rest = stage.unknown.iter().fold(0, |sum: i64, (_, time)| sum.saturating_add(*time));
    let mut text = prose![share(rest), " of the GPU time counts no FLOPs: "];
    for (at, (class, time)) in stage.unknown.iter().take(CLASSES).enumerate() {
        let before = if at == 0 { "" } else { ", " };
        text.extend(prose![format!("{before}{} ", class.label()), share(*time)]);
    }
    if stage.unknown.len() > CLASSES {
        text.push(", and others".into());
    }
    Some((stage.summary.label(context.session, context.facts), text))
}

fn above_one(context: &Context<'_>, line: &Line) -> Option<Diagnostic> {
    let value = line.raw_utilization(context).ok().filter(|value| *value > 1.0)?;
    let message = format!(
        "the products of {} would take {} of its time at the peak: sizes, peak or ranges are wrong",
        line.stage.summary.label(context.session, context.facts),
        Quantity::ratio(value)
    );
    let hint = "check GPU and dtype, and whether all passes ran the same workload";
    Some(Diagnostic::new(Severity::Error, "flops/above-one", message).hint(hint))
}

fn method() -> Method {
    Method {
        title: "FLOPs by source".to_owned(),
        text: prose![
            "Model FLOPs follow from the model's dimensions; operator FLOPs are 2·M·N·K and the pairs of attention \
             from recorded shapes, of the kernels of a pass with operators or of their partners in another pass; \
             log FLOPs are those of the calls in a cuBLASLt log, of matrix products alone; counter FLOPs are those that \
             profiled launches executed, spread over the launches that they stand for, masked pairs and padding \
             included, for stages of which they cover a quarter of the GPU time or more. The first three count the pairs \
             that a causal mask leaves; the data set holds the values with all pairs. Coverage is the share of the GPU time \
             in kernels whose sizes are known: the rest counts no FLOPs by convention. The ideal time is Σ FLOPs ÷ \
             specified dense rate, dtype by dtype; divided by the stage time it is the utilization, which for one \
             dtype and complete sizes is MFU. Clock-normalized MFU divides by the peak at the clock that the SMs had \
             during the stage, peak · clock ÷ boost clock: what is left below 100 % is not the clock's fault."
        ],
    }
}
