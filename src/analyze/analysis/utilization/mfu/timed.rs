//! Where stage times come from: unprofiled repeats and profiled passes.

use rooflens_schemas::{Scope, StageKind};

use crate::Context;
use crate::engine::stage_names::kind_by_name;
use crate::engine::stage_stats::{Summary, summaries};
use rooflens_session::Arrange;
use rooflens_units::{Ratio, Time};

/// The time of a stage from one source: unprofiled repeats, or a profiled pass.
#[derive(Clone, Debug)]
pub struct StageTime {
    /// Name of the stage.
    pub stage: String,
    /// Name of the pass.
    pub pass: String,
    /// What the stage computes.
    pub kind: StageKind,
    /// Of a typical iteration.
    pub time: Time,
    /// Decode steps.
    pub steps: Option<u64>,
    /// Sequences of an iteration by the calls of the model in it, where all iterations have the same.
    pub batch: Option<u64>,
    /// Tokens of a sequence by the same calls, where all iterations have as many.
    pub tokens: Option<u64>,
    /// The stage in the profiled pass; absent of unprofiled repeats.
    pub profiled: Option<Summary>,
}

impl StageTime {
    /// Busy share of the GPU, in a profiled pass.
    pub fn busy_share(&self) -> Option<Ratio> {
        self.profiled.as_ref().map(|summary| summary.busy_share)
    }

    /// The stage's name, with the rank where several processes ran.
    pub fn label(&self, context: &Context<'_>) -> String {
        let label = |summary: &Summary| summary.label(context.session, context.facts);
        self.profiled
            .as_ref()
            .map_or_else(|| self.stage.clone(), label)
    }

    /// What its metrics are about.
    pub fn scope(&self, context: &Context<'_>) -> Scope {
        let scope = |summary: &Summary| summary.scope(context.session, context.facts);
        let (pass, stage) = (Some(self.pass.clone()), Some(self.stage.clone()));
        let unprofiled = || Scope {
            pass,
            stage,
            ..Scope::default()
        };
        self.profiled.as_ref().map_or_else(unprofiled, scope)
    }

    /// The batch of an iteration, with that of a call of the model: a training step that accumulates gradients has
    /// several calls.
    pub fn batch(&self, of_call: Option<u64>) -> Option<u64> {
        let accumulates = |sum: &u64| {
            let is_step = self.kind == StageKind::TrainStep;
            is_step && of_call.is_some_and(|batch| batch > 0 && sum.is_multiple_of(batch))
        };
        self.batch.filter(accumulates).or(of_call)
    }

    /// The tokens of a prompt, with those of a call of the model: a prefill in chunks has several calls.
    pub fn prompt(&self, of_call: Option<u64>) -> Option<u64> {
        let is_sum = |sum: &u64| {
            self.kind == StageKind::Prefill && of_call.is_some_and(|tokens| tokens < *sum)
        };
        self.tokens.filter(is_sum).or(of_call)
    }

    /// Whether it is the time of this stage in its profiled pass.
    pub fn is_of(&self, summary: &Summary) -> bool {
        let profiled = self.profiled.as_ref();
        profiled.is_some_and(|profiled| {
            (profiled.stage, profiled.process) == (summary.stage, summary.process)
        })
    }
}

/// All stage times: unprofiled repeats first, then the passes, the primary one first.
pub(super) fn timed(context: &Context<'_>) -> Vec<StageTime> {
    let (session, facts) = (context.session, context.facts);
    let mut times = baseline(context);
    let instances = |line: &Summary| facts.instances_of(line.stage(facts)).iter();
    for pass in facts.primary_first(session) {
        times.extend(summaries(facts, pass).iter().map(|line| StageTime {
            stage: line.stage(facts).name.clone(),
            pass: session.pass_name(pass).to_owned(),
            kind: line.kind(facts),
            time: line.time,
            steps: line.steps.map(|steps| steps.0 as u64),
            batch: common(instances(line).map(|instance| instance.sizes.batch)),
            tokens: common(instances(line).map(|instance| instance.sizes.tokens)),
            profiled: Some(line.clone()),
        }));
    }
    let profiled: Vec<StageTime> = times
        .iter()
        .filter(|timed| timed.profiled.is_some())
        .cloned()
        .collect();
    for timed in times.iter_mut().filter(|timed| timed.profiled.is_none()) {
        let same = profiled.iter().filter(|other| other.stage == timed.stage);
        // A timeline shows which calls of a step train, and which make a prompt.
        timed.tokens = same.clone().find_map(|other| other.tokens);
        timed.batch = same.clone().find_map(|other| other.batch).or(timed.batch);
    }
    times
}

fn baseline(context: &Context<'_>) -> Vec<StageTime> {
    let session = context.session;
    let series = context.results.baseline().into_iter();
    let series = series.flat_map(|baseline| &baseline.series);
    let mut baselines = Vec::new();
    for series in series.filter(|series| series.profiled == Some(false)) {
        let stage = session.text(series.stage).to_owned();
        baselines.push(StageTime {
            kind: kind_by_name(&session.workload, &stage),
            stage,
            pass: session.text(series.pass).to_owned(),
            time: series.typical(),
            steps: series.steps,
            batch: common(series.repeats.iter().map(|repeat| repeat.sizes.batch)),
            tokens: None,
            profiled: None,
        });
    }
    baselines.arrange_by_key(|timed| timed.kind);
    baselines
}

/// The value that all rows share.
fn common(mut values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};

    #[test]
    fn a_step_that_accumulates_gradients_has_the_sequences_of_all_its_calls() {
        let mut events = String::new();
        for begin in [0, 2000, 4000] {
            events += &format!("range train_step {begin}..{}\n", begin + 1000);
            events += &format!(
                "launch {}..{} -> gemm {}..{}\n",
                begin + 1,
                begin + 5,
                begin + 5,
                begin + 900
            );
            for call in [100, 300] {
                let (start, end) = (begin + call, begin + call + 90);
                events += &format!("range rooflens:call train batch=4 tokens=512 {start}..{end}\n");
            }
        }
        with_results(&trace(&events), |context| {
            let steps = timed(context);
            let batches: Vec<_> = steps.iter().map(|step| step.batch(Some(4))).collect();
            assert_eq!(batches, [Some(8)]);
            // Of another batch the calls say nothing.
            assert_eq!(steps[0].batch(Some(3)), Some(3));
            assert_eq!(steps[0].batch(None), None);
        });
    }
}
