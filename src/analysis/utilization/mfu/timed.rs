//! Where stage times come from: un-profiled repeats and profiled passes.

use std::collections::BTreeMap;

use rooflens_schemas::{Scope, StageKind};

use crate::analysis::Context;
use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::engine::stages::kind_by_name;
use crate::analysis::engine::stats::median;
use crate::model::{PassId, Session, StrId};

/// The time of a stage from one source: un-profiled repeats, or a profiled pass.
pub(crate) struct Timed {
    pub(crate) stage: String,
    pub(super) label: String,
    pub(crate) kind: StageKind,
    pub(crate) pass: String,
    pub(crate) scope: Scope,
    pub(crate) time: f64,
    pub(crate) busy_share: Option<f64>,
    pub(crate) steps: Option<u64>,
    pub(super) gpu: String,
}

/// All stage times: un-profiled repeats first, then the passes, the primary one first.
pub(super) fn timed(context: &Context<'_>) -> Vec<Timed> {
    let (session, facts) = (context.session, context.facts);
    let mut all = baseline(context);
    let primary = facts.primary_pass(session);
    let others = session.passes.ids().filter(|pass| Some(*pass) != primary);
    for pass in primary.into_iter().chain(others) {
        for line in summaries(facts, pass) {
            all.push(Timed {
                stage: line.stage(facts).name.clone(),
                label: line.label(session, facts),
                kind: line.kind(facts),
                pass: session.pass_name(pass).to_owned(),
                scope: line.scope(session, facts),
                time: line.time,
                busy_share: Some(line.busy_share),
                steps: line.steps.map(|steps| steps as u64),
                gpu: gpu_name(session, Some(pass)),
            });
        }
    }
    all
}

fn baseline(context: &Context<'_>) -> Vec<Timed> {
    let session = context.session;
    let mut groups: BTreeMap<(StrId, StrId), Vec<usize>> = BTreeMap::new();
    for row in 0..session.timings.len() {
        let key = (session.timings.pass[row], session.timings.stage[row]);
        groups.entry(key).or_default().push(row);
    }
    let mut all = Vec::new();
    for ((pass, stage), rows) in groups {
        let times: Vec<f64> =
            rows.iter().map(|row| session.timings.duration[*row] as f64).collect();
        let Some(time) = median(&times) else { continue };
        let (stage, pass) = (session.text(stage).to_owned(), session.text(pass).to_owned());
        let scope =
            Scope { pass: Some(pass.clone()), stage: Some(stage.clone()), ..Scope::default() };
        all.push(Timed {
            kind: kind_by_name(&session.workload, &stage),
            label: stage.clone(),
            stage,
            pass,
            scope,
            time,
            busy_share: None,
            steps: common(rows.iter().map(|row| session.timings.steps[*row])),
            gpu: gpu_name(session, None),
        });
    }
    all.sort_by_key(|timed| timed.kind);
    all
}

/// The value that all rows share.
fn common(mut steps: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let first = steps.next()??;
    steps.all(|other| other == Some(first)).then_some(first)
}

/// Name of the GPU that a pass ran on; for a pass that recorded none, the one name of the bundle.
pub(crate) fn gpu_name(session: &Session, pass: Option<PassId>) -> String {
    let own = |row: &usize| pass.is_none_or(|pass| session.gpus.pass[*row] == pass);
    let names = |rows: &mut dyn Iterator<Item = usize>| -> Option<String> {
        rows.map(|row| session.text(session.gpus.name[row]).to_owned())
            .find(|name| !name.is_empty())
    };
    names(&mut (0..session.gpus.len()).filter(own))
        .or_else(|| names(&mut (0..session.gpus.len())))
        .or_else(|| session.measured_peaks.gpu.first().map(|gpu| session.text(*gpu).to_owned()))
        .unwrap_or_default()
}
