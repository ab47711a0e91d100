//! Which names of ranges are phases of the workload.

use regex::Regex;

use rooflens_schemas::ranges::{self, PROFILER_STEP};
use rooflens_schemas::steps::{self, Step};
use rooflens_schemas::workload::BUILT_IN_STAGES;
use rooflens_schemas::{StageKind, Workload};
use rooflens_session::pattern::whole_match;
use rooflens_session::{RangeId, Session};

use crate::tables::{Stage, StageInstance, StageTables};

/// The range that PyTorch opens around each update of the weights, before the optimizer's name.
const OPTIMIZER_STEP: &str = "Optimizer.step#";

/// A compiled stage rule.
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) pattern: Regex,
    pub(super) kind: StageKind,
}

/// What a stage of this name computes, by the workload description or by its name.
pub fn kind_by_name(workload: &Workload, stage: &str) -> StageKind {
    let stated = workload.stages.iter().find(|rule| rule.name == stage);
    stated
        .and_then(|rule| rule.kind)
        .unwrap_or_else(|| kind_of(stage))
}

/// The rules of the workload description; the built-in ones where it has none.
pub(super) fn rules(workload: &Workload) -> Vec<Rule> {
    let stated = workload.stages.iter().filter_map(|rule| {
        let pattern = match &rule.pattern {
            Some(pattern) => pattern.clone(),
            None => regex::escape(&rule.name),
        };
        // A pattern that does not compile was refused when the description was read.
        let pattern = whole_match(&pattern).ok()?;
        let kind = rule.kind.unwrap_or_else(|| kind_of(&rule.name));
        Some(Rule {
            name: rule.name.clone(),
            pattern,
            kind,
        })
    });
    let stated: Vec<Rule> = stated.collect();
    if !stated.is_empty() {
        return stated;
    }
    let built_in = BUILT_IN_STAGES.iter().filter_map(|(name, kind)| {
        let pattern = whole_match(&format!("(?i){}", name.replace('_', "[ _-]?"))).ok()?;
        Some(Rule {
            name: (*name).to_owned(),
            pattern,
            kind: *kind,
        })
    });
    let step = whole_match(&format!(r"{PROFILER_STEP}#\d+")).ok();
    let step = step.map(|pattern| {
        let name = PROFILER_STEP.to_owned();
        Rule {
            name,
            pattern,
            kind: StageKind::Other,
        }
    });
    built_in.chain(step).collect()
}

/// Whether a range may be a phase of the workload that no rule names: of the user, and no operator.
pub fn is_of_user(session: &Session, range: RangeId) -> bool {
    let table = &session.ranges;
    let (name, domain) = (table.name[range.index()], table.domain[range.index()]);
    ranges::is_of_user(session.text(name), session.text(domain))
}

/// What the name of an instance says of the step of a serving engine that it is.
pub fn engine_step(session: &Session, instance: &StageInstance) -> Option<Step> {
    let name = session.text(session.ranges.name[instance.range?.index()]);
    steps::step(ranges::given_name(name)).filter(|step| step.is_batch)
}

/// Whether a stage is steps of a serving engine: each has a batch and contexts of its own, and not the workload's.
pub fn is_of_engine(session: &Session, facts: &StageTables, stage: &Stage) -> bool {
    let first = facts.instances_of(stage).first();
    first.is_some_and(|first| engine_step(session, first).is_some())
}

/// Whether a range is an update of the weights.
pub(super) fn is_update(name: &str) -> bool {
    name.starts_with(OPTIMIZER_STEP)
}

fn kind_of(name: &str) -> StageKind {
    let same = |(known, _): &&(&str, StageKind)| known.eq_ignore_ascii_case(name);
    BUILT_IN_STAGES
        .iter()
        .find(same)
        .map_or(StageKind::Other, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::WHOLE_CAPTURE;
    use rooflens_analysis::testing::trace;

    #[test]
    fn operators_and_collectives_are_no_stages_and_steps_of_the_profiler_are() {
        let stages = |ranges: &[(&str, i64, i64)]| {
            let range = |(name, start, end): &_| format!("range {name} {start}..{end}\n");
            let ranges: String = ranges.iter().map(range).collect();
            let session = trace(&format!("{ranges}stream 7: kernel 0..1"));
            let stages = StageTables::new(&session).stages;
            stages
                .into_iter()
                .map(|stage| (stage.name, stage.kind))
                .collect::<Vec<_>>()
        };
        let is = |name: &str, kind| (name.to_owned(), kind);
        let (mm, step) = (
            "aten::mm, op_id = 3, sizes = [[4, 8], [8, 2]]",
            "ProfilerStep#3",
        );
        assert_eq!(stages(&[(mm, 0, 9)]), [is(WHOLE_CAPTURE, StageKind::Other)]);
        assert_eq!(
            stages(&[("nccl:all_reduce", 0, 9)]),
            [is(WHOLE_CAPTURE, StageKind::Other)]
        );
        assert_eq!(
            stages(&[(mm, 0, 9), ("load", 10, 19)]),
            [is("load", StageKind::Other)]
        );
        let named = [("forward, op_id = 7", 0, 9), (mm, 1, 2)];
        assert_eq!(stages(&named), [is("forward", StageKind::Forward)]);
        assert_eq!(
            stages(&[(step, 0, 9), (mm, 1, 2)]),
            [is("ProfilerStep", StageKind::Other)]
        );
        let update = [(step, 0, 9), ("Optimizer.step#Adam.step", 1, 2)];
        assert_eq!(stages(&update), [is("ProfilerStep", StageKind::TrainStep)]);
        let better = [(step, 0, 9), ("train_step", 1, 2)];
        assert_eq!(stages(&better), [is("train_step", StageKind::TrainStep)]);
        let update = |end| ("Optimizer.step#Adam.step", end - 1, end);
        let updates = [update(10), update(20), update(30)];
        assert_eq!(stages(&updates), [is("train_step", StageKind::TrainStep)]);
        // Two tell one step alone; what the user names is a stage.
        let single = is("Optimizer.step#Adam.step", StageKind::Other);
        assert_eq!(stages(&updates[..2]), [single]);
        assert!(
            stages(&[&updates[..], &[("epoch", 0, 40)]].concat())
                .iter()
                .any(|one| one.0 == "epoch")
        );
        // A range that occurs once is no iteration if ranges in it repeat.
        let single = [("main", 0, 90), ("warmup", 0, 9), ("solve", 10, 30)];
        assert_eq!(stages(&single), [is("main", StageKind::Other)]);
        let repeated = [&single[..], &[("solve", 40, 60)]].concat();
        let parts = [
            is("solve", StageKind::Other),
            is("warmup", StageKind::Other),
        ];
        assert_eq!(stages(&repeated), parts);
        let forward = ("gpu_model_runner: forward", 1, 2);
        let alone = [("prepare", 0, 1), forward];
        assert_eq!(
            stages(&alone),
            [is("gpu_model_runner: forward", StageKind::Other)]
        );
        let both = ("execute_context_1(100)_generation_7(7)", 0, 9);
        assert_eq!(
            stages(&[(step, 0, 9), both, forward]),
            [is("mixed_step", StageKind::Other)]
        );
        let decode = ("execute_context_0(0)_generation_8(8)", 10, 19);
        let prefill = ("execute_context_2(900)_generation_0(0)", 20, 29);
        let engine = [
            is("prefill", StageKind::Prefill),
            is("decode_step", StageKind::DecodeStep),
            is("mixed_step", StageKind::Other),
        ];
        assert_eq!(stages(&[both, decode, prefill]), engine);
    }
}
