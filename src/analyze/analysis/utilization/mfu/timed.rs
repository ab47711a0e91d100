//! Where stage times come from: unprofiled repeats and profiled passes.

use std::collections::BTreeMap;

use rooflens_schemas::{Scope, StageKind};

use crate::Context;
use crate::engine::stage_names::kind_by_name;
use crate::engine::stage_stats::{Summary, median_time, summaries};
use rooflens_session::{Arrange, Session, StrId};
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
    /// Median.
    pub time: Time,
    /// Decode steps.
    pub steps: Option<u64>,
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
    let mut times = baseline(session);
    for pass in facts.primary_first(session) {
        times.extend(summaries(facts, pass).iter().map(|line| StageTime {
            stage: line.stage(facts).name.clone(),
            pass: session.pass_name(pass).to_owned(),
            kind: line.kind(facts),
            time: line.time,
            steps: line.steps.map(|steps| steps.0 as u64),
            profiled: Some(line.clone()),
        }));
    }
    times
}

fn baseline(session: &Session) -> Vec<StageTime> {
    let mut groups: BTreeMap<(StrId, StrId), Vec<usize>> = BTreeMap::new();
    let unprofiled = |row: &usize| session.timings.profiled[*row] == Some(false);
    for row in (0..session.timings.len()).filter(unprofiled) {
        let key = (session.timings.pass[row], session.timings.stage[row]);
        groups.entry(key).or_default().push(row);
    }
    let baseline_time = |((pass, stage), rows): ((StrId, StrId), Vec<usize>)| {
        let times = rows.iter().map(|row| session.timings.duration[*row]);
        let stage = session.text(stage).to_owned();
        Some(StageTime {
            kind: kind_by_name(&session.workload, &stage),
            stage,
            pass: session.text(pass).to_owned(),
            time: median_time(times)?,
            steps: common(rows.iter().map(|row| session.timings.steps[*row])),
            profiled: None,
        })
    };
    let mut baselines: Vec<StageTime> = groups.into_iter().filter_map(baseline_time).collect();
    baselines.arrange_by_key(|timed| timed.kind);
    baselines
}

/// The value that all rows share.
fn common(mut steps: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = steps.next()??;
    steps
        .all(|steps_of_row| steps_of_row == Some(first))
        .then_some(first)
}
