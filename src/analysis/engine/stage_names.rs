//! Which names of ranges are phases of the workload.

use regex::Regex;

use rooflens_model::pattern::whole_match;
use rooflens_model::{RangeId, Session};
use rooflens_schemas::workload::BUILT_IN_STAGES;
use rooflens_schemas::{StageKind, Workload};

/// The range that PyTorch's profiler opens around each step, numbered.
pub(super) const PROFILER_STEP: &str = "ProfilerStep";

/// The range that PyTorch opens around each update of the weights, before the optimizer's name.
const OPTIMIZER_STEP: &str = "Optimizer.step#";

/// What `torch.autograd.profiler.emit_nvtx` adds to the name of an operator, whichever comes first.
const OPERATOR_MARKS: [&str; 3] = [", seq = ", ", op_id = ", ", sizes = "];

/// How collectives of PyTorch and operators without marks begin.
const OPERATORS: [&str; 3] = ["nccl:", "aten::", "autograd::"];

/// NVTX domains of libraries: their ranges are not phases of the workload.
pub const LIBRARY_DOMAINS: [&str; 8] =
    ["NCCL", "cuBLAS", "cuBLASLt", "cuDNN", "cuSPARSE", "CCCL", "TensorRT", "libcudf"];

/// A compiled stage rule.
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) pattern: Regex,
    pub(super) kind: StageKind,
}

/// What a stage of this name computes, by the workload description or by its name.
pub fn kind_by_name(workload: &Workload, stage: &str) -> StageKind {
    let stated = workload.stages.iter().find(|rule| rule.name == stage);
    stated.and_then(|rule| rule.kind).unwrap_or_else(|| kind_of(stage))
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
        Some(Rule { name: rule.name.clone(), pattern, kind })
    });
    let stated: Vec<Rule> = stated.collect();
    if !stated.is_empty() {
        return stated;
    }
    let built_in = BUILT_IN_STAGES.iter().filter_map(|(name, kind)| {
        let pattern = whole_match(&format!("(?i){}", name.replace('_', "[ _-]?"))).ok()?;
        Some(Rule { name: (*name).to_owned(), pattern, kind: *kind })
    });
    let step = whole_match(&format!(r"{PROFILER_STEP}#\d+")).ok();
    let step = step.map(|pattern| {
        let name = PROFILER_STEP.to_owned();
        Rule { name, pattern, kind: StageKind::Other }
    });
    built_in.chain(step).collect()
}

/// The name that the code gave a range, without what `emit_nvtx` adds.
pub fn given_name(name: &str) -> &str {
    let marks = OPERATOR_MARKS.iter().filter_map(|mark| name.find(mark));
    &name[..marks.min().unwrap_or(name.len())]
}

/// Whether a range may be a phase of the workload that no rule names: of the user, and no operator.
pub fn is_of_user(session: &Session, range: RangeId) -> bool {
    let ranges = &session.ranges;
    let (name, domain) = (ranges.name[range.index()], ranges.domain[range.index()]);
    let name = session.text(name);
    !LIBRARY_DOMAINS.contains(&session.text(domain))
        && given_name(name) == name
        && !OPERATORS.iter().any(|start| name.starts_with(start))
}

/// Whether a range is an update of the weights.
pub(super) fn is_update(name: &str) -> bool {
    name.starts_with(OPTIMIZER_STEP)
}

fn kind_of(name: &str) -> StageKind {
    let same = |(known, _): &&(&str, StageKind)| known.eq_ignore_ascii_case(name);
    BUILT_IN_STAGES.iter().find(same).map_or(StageKind::Other, |(_, kind)| *kind)
}

/// `iteration 3` is an instance of `iteration N`, and `ProfilerStep#12` of `ProfilerStep`.
pub(super) fn generic_name(name: &str) -> String {
    if name.starts_with(PROFILER_STEP) {
        return PROFILER_STEP.to_owned();
    }
    let mut out = String::new();
    let mut in_digits = false;
    for letter in name.trim().chars().take(80) {
        if !letter.is_ascii_digit() {
            out.push(letter);
        } else if !in_digits {
            out.push('N');
        }
        in_digits = letter.is_ascii_digit();
    }
    // Names such as `model.layers.3` are told apart by their digits; a name that is only digits is not.
    if name.chars().all(|letter| letter.is_ascii_digit()) { name.to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::engine::stages::WHOLE_CAPTURE;
    use crate::testing::{Trace, push};
    use rooflens_model::PassId;
    use rooflens_schemas::PassKind;

    #[test]
    fn names_of_emit_nvtx_are_those_of_operators() {
        let given = |name| given_name(name);
        assert_eq!(given("aten::mm, op_id = 123, sizes = [[4, 8], [8, 2]]"), "aten::mm");
        assert_eq!(given("AddmmBackward0, seq = 7, op_id = 9"), "AddmmBackward0");
        assert_eq!(given("forward"), "forward");
        assert_eq!(given("a, b"), "a, b");
    }

    #[test]
    fn operators_and_collectives_are_no_stages_and_steps_of_the_profiler_are() {
        let stages = |ranges: &[(&str, i64, i64)]| {
            let mut trace = Trace::new(PassKind::Timeline, "kernel");
            ranges.iter().for_each(|(name, start, end)| trace.range(name, *start, *end));
            push(&mut trace.session, PassId(0), "kernel", 0, 1);
            let stages = Facts::new(&trace.session).stages;
            stages.into_iter().map(|stage| (stage.name, stage.kind)).collect::<Vec<_>>()
        };
        let is = |name: &str, kind| (name.to_owned(), kind);
        let (mm, step) = ("aten::mm, op_id = 3, sizes = [[4, 8], [8, 2]]", "ProfilerStep#3");
        assert_eq!(stages(&[(mm, 0, 9)]), [is(WHOLE_CAPTURE, StageKind::Other)]);
        assert_eq!(stages(&[("nccl:all_reduce", 0, 9)]), [is(WHOLE_CAPTURE, StageKind::Other)]);
        assert_eq!(stages(&[(mm, 0, 9), ("load", 10, 19)]), [is("load", StageKind::Other)]);
        let named = [("forward, op_id = 7", 0, 9), (mm, 1, 2)];
        assert_eq!(stages(&named), [is("forward", StageKind::Forward)]);
        assert_eq!(stages(&[(step, 0, 9), (mm, 1, 2)]), [is("ProfilerStep", StageKind::Other)]);
        let update = [(step, 0, 9), ("Optimizer.step#Adam.step", 1, 2)];
        assert_eq!(stages(&update), [is("ProfilerStep", StageKind::TrainStep)]);
        let better = [(step, 0, 9), ("train_step", 1, 2)];
        assert_eq!(stages(&better), [is("train_step", StageKind::TrainStep)]);
    }

    #[test]
    fn numbers_of_iterations_are_no_part_of_the_name() {
        assert_eq!(generic_name("iteration 3"), "iteration N");
        assert_eq!(generic_name("ProfilerStep#12"), "ProfilerStep");
        assert_eq!(generic_name("42"), "42");
    }
}
